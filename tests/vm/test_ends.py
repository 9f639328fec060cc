# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs in real guests that are interrupted, or whose guests do not boot.

They leave nothing behind, give the right status, and name the right test.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from kfabric.guest.waiting import Deadline, wait_until
from kfabric.root import python_path

ROOT = Path(__file__).parents[2]
TOYS = Path(__file__).with_name("ending_toys.py")
RUN_SECONDS = 200.0

Start = Callable[..., subprocess.Popen[str]]


def processes(word: str) -> list[int]:
    """The processes with a word on their command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if word.encode() in words:
            found.append(int(place.name))
    return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a run of some toys in a guest like a terminal: in a process group of its own."""
    runs: list[subprocess.Popen[str]] = []

    def begin(*tests: str, **environment: str) -> subprocess.Popen[str]:
        # A shell that starts us in the background has SIGINT ignored, which is inherited.
        argv = ["env", "--default-signal=INT", sys.executable, "-m", "pytest"]
        argv += ["-p", "kfabric.runner.plugin", "--kfabric-vms=1", f"--kfabric-dir={tmp_path}"]
        argv += [f"--junitxml={tmp_path}/junit.xml", *(f"{TOYS}::{test}" for test in tests)]
        env = {**os.environ, "PYTHONPATH": python_path(ROOT), **environment}
        pipe, out = subprocess.PIPE, subprocess.STDOUT
        runs.append(
            subprocess.Popen(
                argv, cwd=ROOT, env=env, stdout=pipe, stderr=out, text=True, start_new_session=True
            )
        )
        return runs[-1]

    yield begin
    for run in runs:
        run.kill()
        run.wait()


def see_it_wait(directory: Path) -> None:
    """Return when test_waits runs in the first guest."""
    console = directory / "guest0.0/console.log"

    def waits() -> bool:
        return console.exists() and "::test_waits" in console.read_text(errors="replace")

    wait_until(waits, "the test to run", Deadline(RUN_SECONDS))


def ended(run: subprocess.Popen[str]) -> tuple[int, str]:
    """The run's status and output."""
    said, _ = run.communicate(timeout=RUN_SECONDS)
    print(said)
    return run.returncode, said


def results(directory: Path) -> dict[str, str]:
    """The message of each bad result in the report."""
    cases = ElementTree.parse(directory / "junit.xml").iter("testcase")
    found = ((case, one) for case in cases for one in case if one.tag in ("failure", "error"))
    return {str(case.get("name")): str(one.get("message")) for case, one in found}


@pytest.mark.parametrize(
    ("number", "group", "status"),
    [
        pytest.param(signal.SIGINT, True, int(pytest.ExitCode.INTERRUPTED), id="Ctrl-C"),
        pytest.param(signal.SIGTERM, False, int(pytest.ExitCode.INTERRUPTED), id="SIGTERM"),
        pytest.param(signal.SIGKILL, False, -signal.SIGKILL, id="SIGKILL"),
    ],
)
def test_interrupted_run_leaves_no_process(
    start: Start, tmp_path: Path, number: int, group: bool, status: int
) -> None:
    """Neither a guest nor a bridge, whichever process gets the signal."""
    run = start("test_waits")
    see_it_wait(tmp_path)
    bridge = f"kfabric-{run.pid}-"
    assert processes(bridge) and len(processes(str(tmp_path))) > 1
    (os.killpg if group else os.kill)(run.pid, number)
    assert ended(run)[0] == status
    gone = Deadline(30.0)
    wait_until(lambda: not processes(str(tmp_path)), "its guests to be gone", gone)
    wait_until(lambda: not processes(bridge), "its bridges to be gone", gone)


def test_killed_bridge_fails_the_test_that_ran(start: Start, tmp_path: Path) -> None:
    """The next test runs in another guest."""
    run = start("test_waits", "test_fine")
    see_it_wait(tmp_path)
    (bridge,) = processes(f"kfabric-{run.pid}-")
    os.kill(bridge, signal.SIGKILL)
    status, _ = ended(run)
    assert status == ExitStatus.TEST_FAILED
    ((test, message),) = results(tmp_path).items()
    assert test == "test_waits" and "guest0.0: guest hangs: the test process did not end" in message
    assert "::test_fine" in (tmp_path / "guest0.1/console.log").read_text(errors="replace")


def test_run_gives_up_when_guest_after_guest_panics(start: Start, tmp_path: Path) -> None:
    """Each panic fails its test; the number of tests that did not run is shown as well."""
    status, said = ended(start("test_panic"))
    assert status == ExitStatus.TEST_FAILED
    assert "maximum crashed workers reached" in said
    bad = results(tmp_path)
    assert bad.pop("run") == "2 tests did not run"
    assert len(bad) == 4 and {"sysrq triggered crash" in text for text in bad.values()} == {True}


def test_kernel_that_does_not_boot_is_one_clear_line(start: Start, tmp_path: Path) -> None:
    """With the end of its console; no test has failed."""
    plugin = {"PYTEST_PLUGINS": "tests.vm.no_init", "NO_INIT": "guest0.0"}
    status, said = ended(start("test_fine", **plugin))
    assert status == ExitStatus.BOOT
    assert "guest did not boot: " in said and "Kernel panic - not syncing" in said
    assert "INTERNALERROR" not in said


def test_next_guest_that_does_not_boot_is_one_clear_line(start: Start, tmp_path: Path) -> None:
    """The first guest's panic is shown as well, and the tests that did not run."""
    plugin = {"PYTEST_PLUGINS": "tests.vm.no_init", "NO_INIT": "guest0.1"}
    status, said = ended(start("test_panic[0]", "test_fine", **plugin))
    assert status == ExitStatus.BOOT
    assert "guest did not boot: " in said and "sysrq triggered crash" in said
    assert "INTERNALERROR" not in said
    assert results(tmp_path)["run"] == "1 test did not run"
