# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The kernels of make test-debug see what they were built for, and the right test is told.

A green run on a kernel that looks for nothing would prove nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kfabric.vm import versions
from tests.vm.commands import complaints, python

TOYS = Path(__file__).with_name("toys.py")
RUN_SECONDS = 900.0
INNOCENT = ("test_fine_before", "test_leak", "test_fine_behind")


@dataclass(frozen=True)
class Run:
    """What a nested run left: the complaints of each test."""

    complaints: dict[str, str]

    @classmethod
    def on(cls, kernel: str, directory: Path, options: Sequence[str]) -> Run:
        """Run the toys in a guest of this kernel."""
        report = directory / "junit.xml"
        argv = ["pytest", "-p", "kfabric.runner.plugin", "--kfabric-vms=1"]
        argv += [f"--kfabric-dir={directory}", f"--junitxml={report}", str(TOYS), *options]
        python(*argv, seconds=RUN_SECONDS, env={versions.ENVIRONMENT: kernel})
        return cls(complaints(report))


@pytest.fixture(scope="module")
def debug(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run on the kernel with all but KCSAN."""
    return Run.on("debug", tmp_path_factory.mktemp("debug"), ["-k", "not race"])


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("test_use_after_free", "kernel splat (kasan): BUG: KASAN: use-after-free in provoke"),
        ("test_sleep_in_atomic_context", "kernel splat (atomic-sleep): BUG: sleeping function"),
        ("test_active_timer_is_freed", "ODEBUG: free active"),
        ("test_crossed_locks", "kernel splat (lockdep): WARNING: possible circular locking"),
        ("test_use_after_free", "memory leaked since the last search"),
    ],
)
def test_each_fault_fails_its_test(debug: Run, test: str, words: str) -> None:
    """With the kernel's report in the failure."""
    assert words in debug.complaints[test]


def test_the_innocent_pass(debug: Run) -> None:
    """Whoever is not named in a report, also behind one."""
    assert [debug.complaints[name] for name in INNOCENT] == [""] * len(INNOCENT)


def test_a_data_race_fails_its_test(tmp_path: Path) -> None:
    """On the kernel that looks for them."""
    race = Run.on("kcsan", tmp_path, ["-k", "race"])
    assert "kernel splat (kcsan): BUG: KCSAN: data-race in provoke" in race.complaints["test_race"]
