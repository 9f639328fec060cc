# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The wheels, installed into an empty environment, do without a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS = 900.0
RUN_SECONDS = 900.0
# What would let Python find the packages of this checkout.
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def run(place: Path, *argv: str | Path, timeout: float = INSTALL_SECONDS) -> tuple[int, str]:
    """Run a command in a directory; its status and output."""
    done = subprocess.run(
        argv,
        check=False,
        cwd=place,
        env={name: text for name, text in os.environ.items() if name not in HIDDEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    print(done.stdout)
    return done.returncode, done.stdout


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Path]:
    """The programs of an environment that has the wheels and what they declare, and no more."""
    wheels, environment = tmp_path / "wheels", tmp_path / "venv"
    assert run(tmp_path, ROOT / "vm/wheels.sh", sys.executable, wheels)[0] == 0
    assert run(tmp_path, sys.executable, "-m", "venv", environment)[0] == 0
    pip = (environment / "bin/pip", "install", "-q", "--disable-pip-version-check")
    assert run(tmp_path, *pip, *wheels.glob("*.whl"))[0] == 0
    yield environment / "bin"
    program = "from kfabric.vm.prepare import SOURCE; print(SOURCE)"
    _, place = run(tmp_path, environment / "bin/python", "-c", program)
    assert "checkouts" in place and not ROOT.is_relative_to(place.strip())
    shutil.rmtree(place.strip())


def test_installed_tool_tests_a_new_module(programs: Path, tmp_path: Path) -> None:
    """With the command that is printed; pip's own check finds nothing that is missing."""
    tool = programs / "kfabric"
    version = (ROOT / "kfabric_py/VERSION").read_text()
    assert run(tmp_path, tool, "--version") == (ExitStatus.OK, f"kfabric {version}")
    assert run(tmp_path, programs / "pip", "check")[0] == 0
    status, text = run(tmp_path, tool, "new", "my-mod")
    assert status == ExitStatus.OK
    assert text.splitlines()[-1] == f"next: {tool} test --module my-mod"
    argv = (tool, "test", "--module", "my-mod", "--vms=1")
    status, text = run(tmp_path, *argv, timeout=RUN_SECONDS)
    assert status == ExitStatus.OK
    assert "2 passed" in text
