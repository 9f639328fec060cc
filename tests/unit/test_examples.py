# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Examples that no guest runs agree with what they are about."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from kfabric import cli

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = [*ROOT.glob("examples/ci/*.yml"), *ROOT.glob("harness/commands/new/*/workflow.yml.in")]
each_workflow = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.parent.name)


@each_workflow
def test_workflow_has_a_job_for_each_stock_kernel(workflow: Path) -> None:
    """Those that are tested where no time is too long are not for each push."""
    kernels = tomllib.loads((ROOT / "vm/versions.toml").read_text())["kernels"]
    stock = {name for name, kernel in kernels.items() if "package" in kernel}
    found = re.search(r"^ *kernel: (\[.*\])$", workflow.read_text(), re.MULTILINE)
    assert found is not None
    jobs = set(json.loads(found[1]))
    assert jobs <= stock
    assert stock - jobs <= {name for name in stock if kernels[name].get("slow")}


@each_workflow
def test_workflow_calls_targets_and_commands_that_there_are(workflow: Path) -> None:
    """No run here would notice that one was renamed."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    steps = workflow.read_text().partition("steps:")[2]
    called = set(re.findall(r"\bmake ([a-z-]+)", steps))
    commands = set(re.findall(r"bin/kfabric ([a-z]+)", steps))
    assert called or commands
    assert called <= targets and commands <= set(cli.COMMANDS)


def test_udev_rule_is_for_the_device_and_nobody_else() -> None:
    """The one rule names the device, a group, and a mode without others."""
    lines = (ROOT / "examples/udev/60-kfabric.rules").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules == ['KERNEL=="kfabric", SUBSYSTEM=="misc", GROUP="kfabric", MODE="0660"']


@each_workflow
def test_workflow_uploads_the_files_of_its_run(workflow: Path) -> None:
    """The directory that `kfabric test` writes, and no other."""
    text = workflow.read_text()
    output = re.findall(r"--output (\S+)", text) or ["build/test"]
    upload = text.partition("actions/upload-artifact")[2]
    assert re.findall(r"^ +path: (.*)$", upload, re.MULTILINE) == output
