# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Which runs `kfabric test` makes of its arguments, and how their statuses become one."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from harness import testrun
from harness.errors import ExitStatus, SetupError
from harness.testrun import BROWSER, GUEST, MODEL, UNIT, VM, WORKERS, Part


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([0, 0], ExitStatus.OK),
        ([0, 1], ExitStatus.TEST_FAILED),
        ([1, 0], ExitStatus.TEST_FAILED),
        ([1, ExitStatus.BOOT], ExitStatus.BOOT),
        ([ExitStatus.PANIC, 1], ExitStatus.PANIC),
        ([0, pytest.ExitCode.USAGE_ERROR], ExitStatus.USAGE),
        ([0, pytest.ExitCode.NO_TESTS_COLLECTED], ExitStatus.TEST_FAILED),
    ],
)
def test_worst_status_wins(codes, expected):
    """A broken machine says more than a failed test, and any of them more than success."""
    assert testrun.combine(codes, filtered=False) == expected


def test_a_filter_may_leave_one_part_empty_but_not_all():
    """`-k` for a guest test selects nothing on the host."""
    empty = int(pytest.ExitCode.NO_TESTS_COLLECTED)
    assert testrun.combine([empty, 0], filtered=True) == ExitStatus.OK
    assert testrun.combine([empty, empty], filtered=True) == ExitStatus.TEST_FAILED


@pytest.mark.parametrize(
    ("pytests", "ours"),
    [
        (0, ExitStatus.OK),
        (1, ExitStatus.TEST_FAILED),
        (2, ExitStatus.TEST_FAILED),
        (4, ExitStatus.USAGE),
        (ExitStatus.HANG, ExitStatus.HANG),
        (-9, 137),
    ],
)
def test_pytest_statuses_do_not_collide_with_ours(pytests, ours):
    """pytest's 2, 4 and 5 mean other things than ours."""
    assert testrun.status_of(pytests) == ours


def test_no_paths_mean_everything():
    """First what takes seconds, then what takes guests."""
    assert testrun.parts([], 2) == [
        Part("unit", (str(UNIT),), workers=WORKERS),
        Part("browser", (str(BROWSER),), workers=WORKERS),
        Part("vm", (str(VM), str(MODEL)), workers=WORKERS),
        Part("guest", (str(GUEST),), 2),
    ]


def test_paths_go_where_they_can_run():
    """Unit tests stay on the host, anything else goes to guests."""
    unit, guest = f"{UNIT}/test_plugin_testrun.py::test_x", "examples"
    assert testrun.parts([guest, unit], 1) == [Part("unit", (unit,)), Part("guest", (guest,), 1)]
    assert testrun.parts([guest], 1) == [Part("guest", (guest,), 1)]
    assert testrun.parts([f"{BROWSER}/test_page.py"], 1)[0].name == "browser"
    assert testrun.parts(["tests/debug/test_checks.py"], 1)[0].name == "vm"


@pytest.mark.parametrize(("status", "raised"), [(0, False), (70, True)])
def test_browser_is_installed_only_for_its_tests(monkeypatch, status, raised):
    """By the set-up script; if that fails, so does the set-up, and not a test."""
    seen = []
    monkeypatch.setattr(
        testrun.subprocess,
        "run",
        lambda argv, **_: seen.append(argv[1:]) or SimpleNamespace(returncode=status),
    )
    monkeypatch.setattr(testrun, "_run", lambda argv: 0)
    testrun.main([f"{UNIT}/test_plugin_testrun.py"])
    assert seen == []
    with pytest.raises(SetupError) if raised else nullcontext():
        testrun.main([f"{BROWSER}/test_page.py"])
    assert seen == [["host", "browser"]]


def test_options_are_passed_on_to_pytest(monkeypatch):
    """Words that are no paths are options or their values."""
    seen = []
    monkeypatch.setattr(testrun, "_prepare", lambda: None)
    monkeypatch.setattr(testrun, "precompile", lambda paths: None)
    monkeypatch.setattr(testrun, "_run", lambda argv: seen.append(argv) or 0)
    assert testrun.main(["--vms", "2", str(GUEST), "-k", "lost", "-x"]) == 0
    (argv,) = seen
    assert argv[-4:] == ["-k", "lost", "-x", str(GUEST)]
    assert argv[argv.index("--kfabric-vms") + 1] == "2"
