# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A run in real guests that panic, freeze, complain and leak: each gets the right result.

One nested run of toys.py serves all tests here, because each boot costs seconds.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from tests.vm.commands import python

TOYS = Path(__file__).with_name("toys.py")
RUN_SECONDS = 400.0
INNOCENT = (
    "test_fine",
    "test_after_leak",
    "test_stray_bytes",
    "test_fine_again",
    "test_fine_in_the_end",
    "test_late_panic",
)


@dataclass(frozen=True)
class Run:
    """The results of the nested run."""

    status: int
    output: str
    cases: dict[str, list[ElementTree.Element]]
    directory: Path

    def texts(self, test: str, kind: str) -> str:
        """The failure or error texts of a test; empty if it has none."""
        found = [case.find(kind) for case in self.cases[test]]
        return "\n".join(f"{one.get('message')}\n{one.text}" for one in found if one is not None)

    def passed(self, test: str) -> bool:
        """Whether it passed in every phase."""
        return not self.texts(test, "failure") and not self.texts(test, "error")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the toys in guests, one guest at a time."""
    directory = tmp_path_factory.mktemp("guests")
    argv = ["pytest", "-p", "kfabric.runner.plugin", "--kfabric-vms=1"]
    argv += [f"--kfabric-dir={directory}", f"--junitxml={directory}/junit.xml"]
    argv += [f"--ktap={directory}/test.ktap", str(TOYS)]
    done = python(*argv, seconds=RUN_SECONDS, env={"PYTEST_PLUGINS": "tests.vm.short_patience"})
    cases: dict[str, list[ElementTree.Element]] = {}
    for case in ElementTree.parse(directory / "junit.xml").iter("testcase"):
        cases.setdefault(str(case.get("name")), []).append(case)
    return Run(done.returncode, done.stdout, cases, directory)


def test_status_is_that_of_failed_tests(run) -> None:
    """Each panic is the failure of a test, except the last, which the summary shows."""
    assert run.status == ExitStatus.TEST_FAILED


def test_innocent_tests_pass(run) -> None:
    """Also the test after a leak, and the one before a late panic."""
    assert [test for test in INNOCENT if not run.passed(test)] == []


def test_splat_fails_its_test(run) -> None:
    """Although its assertions hold; the failure has the kernel's report."""
    text = run.texts("test_splat", "failure")
    assert "kernel splat (warning)" in text and "provoked on request" in text


def test_failure_has_what_its_test_printed_to_the_kernel_log(run) -> None:
    """In JUnit, in KTAP and on the terminal."""
    line = "] a line of test_prints"
    assert line in run.texts("test_prints", "failure")
    assert line in run.output
    assert line in (run.directory / "test.ktap").read_text()


def test_leak_fails_its_test(run) -> None:
    """The error names the leak; the next test checks that its guest does not have it."""
    assert "left behind: net devices:" in run.texts("test_leak", "error")


def test_expected_failure_excuses_no_leak(run) -> None:
    """An expected failure does not hide a leak."""
    assert "left behind: net devices:" in run.texts("test_expected_failure_leaks", "error")


def test_user_space_hang_is_a_timeout(run) -> None:
    """And not the end of the guest: the neighbouring tests ran in the same one."""
    assert "Timeout" in run.texts("test_hang_in_user_space", "failure")


def test_panic_fails_its_test(run) -> None:
    """With the reason in the failure, followed by the console."""
    text = run.texts("test_panic", "failure")
    assert "guest kernel panic: sysrq triggered crash" in text
    assert "test_hang_in_user_space" in text, "the tests that ran before are suspects"
    assert "Kernel panic - not syncing: sysrq triggered crash" in run.output


def test_panic_in_a_teardown_fails_its_test(run) -> None:
    """Once: as its error, without another case."""
    text = run.texts("test_panic_in_teardown", "error")
    assert "guest0.4: guest kernel panic: sysrq triggered crash" in text
    assert "while it tore down" in text
    assert len(run.cases["test_panic_in_teardown"]) == 1


def test_freeze_fails_its_test(run) -> None:
    """The watchdog detects the missing heartbeat."""
    assert "guest hangs: no heartbeat for 8 s" in run.texts("test_freeze", "failure")


def test_freeze_leaves_registers_and_code_of_each_cpu(run) -> None:
    """They tell a kernel that hangs from a CPU that QEMU keeps on a removed breakpoint."""
    (found,) = run.directory.glob("**/registers.txt")
    text = found.read_text()
    assert [int(number) for number in re.findall(r"^CPU#(\d+)", text, re.MULTILINE)] == [0, 1]
    assert len(re.findall(r"^[0-9a-f]+: 0x[0-9a-f]{2} 0x", text, re.MULTILINE)) == 2


def test_late_panic_is_not_lost(run) -> None:
    """No test is running any more and xdist does not notice, but the run reports it."""
    assert run.output.count("a guest ended badly, outside of any test") == 1
    text = run.texts("guest0.6", "error")
    assert "guest0.6: guest kernel panic: sysrq triggered crash" in text
    assert "toys.py::test_late_panic" in text, "the tests that ran before are suspects"
    assert "Kernel panic - not syncing: sysrq triggered crash" in text
    assert "guest0.6: guest kernel panic: sysrq triggered crash" in run.output


def test_ktap_has_the_same_results(run) -> None:
    """The test, the reason, the console's end; and the guest that ended late."""
    lines = (run.directory / "test.ktap").read_text().splitlines()
    bad = {line.split(" # ")[0].split()[-1] for line in lines if line.lstrip().startswith("not ok")}
    assert {"test_splat", "test_leak", "test_panic", "test_freeze", "guest0.6"} <= bad
    assert not bad & {*INNOCENT}
    assert any(line.startswith("  # ") and "Kernel panic - not syncing" in line for line in lines)


def test_consoles_name_the_running_tests(run) -> None:
    """Each guest's console is kept, with a marker for each test."""
    splat, leak, panic = (
        (run.directory / f"guest0.{number}" / "console.log").read_text(errors="replace")
        for number in (0, 1, 3)
    )
    assert "kfabric test: tests/vm/toys.py::test_splat" in splat
    assert "kfabric test: tests/vm/toys.py::test_leak" in leak
    assert "kfabric test: tests/vm/toys.py::test_panic" in panic
    assert (run.directory / "guest0.6" / "console.log").exists()
