# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests of another machine, simulated by an sshd on loopback: real guests, real panics."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from tests.vm import sshd
from tests.vm.commands import python

TOYS = Path(__file__).with_name("far_toys.py")
RUN_SECONDS = 400.0


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The other machine, as --kfabric-tx takes it."""
    place = tmp_path_factory.mktemp("sshd")
    found = sshd.find(place)
    if isinstance(found, str):
        pytest.skip(found)
    with sshd.machine(place, *found) as config:
        yield f"ssh={sshd.NAME}//ssh_config={config}//python={sys.executable}"


def run(directory: Path, *arguments: str) -> tuple[int, str, list[ElementTree.Element]]:
    """Run the toys; returns the status, the output, and the cases of the report."""
    argv = ["pytest", "-p", "kfabric.runner.plugin", f"--kfabric-dir={directory}"]
    argv += [f"--junitxml={directory}/junit.xml", *arguments, str(TOYS)]
    done = python(*argv, seconds=RUN_SECONDS)
    report = directory / "junit.xml"
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    return done.returncode, done.stdout + done.stderr, cases


def guests(cases: list[ElementTree.Element]) -> set[str]:
    """The guests in which tests passed."""
    found = (one for case in cases for one in case.iter("property"))
    return {str(one.get("value")) for one in found if one.get("name") == "guest"}


def test_one_run_uses_guests_of_both_machines(other: str, tmp_path: Path) -> None:
    """The tests are distributed among them; a panic fails only its own test."""
    status, _, cases = run(tmp_path, "--kfabric-vms=1", f"--kfabric-tx={other}")
    assert status == ExitStatus.TEST_FAILED
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert failed == ["test_panic"]
    assert {name.split(".")[0] for name in guests(cases)} == {"guest0", "guest1@other"}


def test_panic_on_the_other_machine_is_reported_here(other: str, tmp_path: Path) -> None:
    """With its name and console; later tests run in the next guest there."""
    status, output, cases = run(tmp_path, f"--kfabric-tx={other}")
    assert status == ExitStatus.TEST_FAILED
    assert "guest0@other.0: guest kernel panic: sysrq triggered crash" in output
    assert "Kernel panic - not syncing: sysrq triggered crash" in output
    assert guests(cases) == {"guest0@other.0", "guest0@other.1"}
    assert len(cases) == len([case for case in cases if case.find("failure") is None]) + 1
    assert (tmp_path / "guest0@other.0/console.log").exists()
