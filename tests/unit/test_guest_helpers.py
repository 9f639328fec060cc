# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Helpers of guest tests, as far as they can be tested on a host."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import textwrap
import threading
import types
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import guest_support
import pytest

from kfabric import names
from kfabric.guest import checks, kmsg, leaks, memleak, modules, phases, sleeping, waiting
from kfabric.guest.checks import KernelWatch
from kfabric.guest.retirement import Retirement
from kfabric.guest.sleeping import ThreadState
from kfabric.guest.waiting import Deadline, DeadlineExpired, wait_until
from kfabric.root import python_path

SPLAT = """\
WARNING: CPU: 1 PID: 42 at kmod/core/waitq.c:99 kfi_waitq_sleep+0x1/0x2 [kfabric]
Modules linked in: kfabric
CPU: 1 PID: 42 Comm: python3
Call Trace:
 kfi_waitq_sleep+0x1/0x2 [kfabric]
---[ end trace 0000000000000000 ]---"""


def test_record_of_the_kernel() -> None:
    """Priority, number, time; lines after the first one belong to a device."""
    record = kmsg.parse(b"4,1234,5000042,-;rdma_rxe: loaded\n SUBSYSTEM=net\n")
    assert (record.sequence, record.severity, record.from_kernel) == (1234, 4, True)
    assert str(record) == "[    5.000042] rdma_rxe: loaded"
    assert record.is_warning


def test_record_of_a_user() -> None:
    """The facility separates users' lines from the kernel's, whatever their text."""
    record = kmsg.parse(b"12,7,1,-;WARNING: CPU: 0 PID: 1 at here; there\n")
    assert not record.from_kernel and not record.is_warning
    assert record.text.endswith("here; there")


class FakeLog:
    """A kernel log that grows by one batch of lines with each reading."""

    def __init__(self, *batches: str) -> None:
        self._batches = list(batches)

    def new(self) -> list[kmsg.Record]:
        """The next batch."""
        text = self._batches.pop(0) if self._batches else ""
        return [kmsg.Record(0, 0, 4, True, line) for line in text.splitlines()]

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., KernelWatch]:
    """A KernelWatch over a log of these batches, and taint words one a reading."""

    def make(*batches: str, taints: tuple[int, ...] = (0,)) -> KernelWatch:
        words = itertools.chain(taints, itertools.repeat(taints[-1]))
        monkeypatch.setattr(checks, "_taint", lambda: next(words))
        monkeypatch.setattr(checks.kmsg, "KernelLog", lambda: FakeLog(*batches))
        return KernelWatch()

    return make


def test_watch_reports_each_splat_once(watch) -> None:
    """And nothing of an ordinary log."""
    kernel = watch("rdma_rxe: loaded", SPLAT)
    assert kernel.complaints() == []
    (text,) = kernel.complaints()
    assert text.startswith("kernel splat (warning): WARNING: CPU: 1 PID: 42")
    assert kernel.complaints() == []


def test_watch_waits_for_the_end_of_a_report(watch) -> None:
    """A report that another CPU is still printing is one report, of this test."""
    head, tail = SPLAT.split("Call Trace:")
    kernel = watch(head, "", "Call Trace:" + tail)
    (text,) = kernel.complaints()
    assert "kfi_waitq_sleep" in text
    assert kernel.complaints() == []


def test_watch_reports_a_taint_without_a_text(watch) -> None:
    """Loading our modules taints too, but that is none."""
    kernel = watch(taints=(0, 1 << 12, 1 << 12 | 1 << 9))
    assert kernel.complaints() == []
    assert kernel.complaints() == ["kernel tainted: warning"]


def test_watch_does_not_report_a_splats_own_taint_again(watch) -> None:
    """The text says more than the bit."""
    kernel = watch(SPLAT, taints=(0, 1 << 9))
    assert len(kernel.complaints()) == 1


def test_census_tells_only_what_grew(monkeypatch) -> None:
    """Less than before is no leak."""
    after = {"qps of rxe0": 4, "RDMA links": 1, "pds of rxe0": 1}
    monkeypatch.setattr(leaks, "take", lambda: after)
    assert leaks.since({"qps of rxe0": 3, "RDMA links": 2}, deadline=0.0) == [
        "pds of rxe0: 0 before, 1 after",
        "qps of rxe0: 3 before, 4 after",
    ]


def state(
    syscall: str = "16 0x5 0x1", letter: str = "S", stack: tuple[str, ...] = ()
) -> ThreadState:
    """A thread's state, as read from /proc."""
    return ThreadState(7, "waiter", letter, syscall, "0", stack, 3)


def test_asleep_means_off_the_cpu_in_a_sleeping_state() -> None:
    """Neither a running thread nor a stopped one counts."""
    assert state().off_cpu
    assert not state(syscall="running").off_cpu
    assert not state(letter="T").off_cpu


def test_wait_point_is_one_function() -> None:
    """A name that only begins alike is another place."""
    assert state(stack=("schedule+0x1/0x2", "kfi_waitq_sleep+0x9/0x80 [kfabric]")).at(
        sleeping.WAIT_POINT
    )
    assert not state(stack=("kfi_waitq_sleepers+0x9/0x80",)).at(sleeping.WAIT_POINT)


def test_own_thread_is_seen_running() -> None:
    """This thread reads about itself: it cannot be asleep."""
    assert not sleeping.read_state(threading.get_native_id()).off_cpu


def test_stack_of_a_thread_that_runs_is_not_read() -> None:
    """The kernel warns if that thread is in a function with a kretprobe."""
    assert sleeping.read_state(threading.get_native_id()).stack == ()


def test_pauses_double_up_to_a_limit(monkeypatch) -> None:
    """A poll neither burns the CPU nor oversleeps."""
    pauses: list[float] = []
    monkeypatch.setattr(waiting.time, "sleep", pauses.append)
    tries = iter([False] * 9 + [True])
    assert wait_until(lambda: next(tries), "the tenth look", 60)
    assert pauses[:3] == [0.001, 0.002, 0.004] and max(pauses) == waiting.LONGEST_PAUSE


def test_last_look_comes_after_the_deadline() -> None:
    """A poller that was held up does not report as missing what is there."""
    late = Deadline(0)
    assert wait_until(lambda: True, "what is there", late)
    with pytest.raises(DeadlineExpired, match="what is not"):
        wait_until(lambda: False, "what is not", late)


def test_modules_without_a_directory(monkeypatch) -> None:
    """Outside of a guest nothing names one."""
    monkeypatch.delenv(names.MODULES, raising=False)
    with pytest.raises(modules.ModuleError, match=names.MODULES):
        modules.Modules.from_environment()


def test_deadlines_are_longer_where_all_is_slow(monkeypatch) -> None:
    """One place for it: no test has to know on what kernel it runs."""
    assert Deadline(7.0).seconds == waiting.patience(7.0) == 7.0
    monkeypatch.setenv(waiting.SLOW, "5")
    assert Deadline(7.0).seconds == waiting.patience(7.0) == 35.0
    assert Deadline.firm(7.0).seconds == pytest.approx(7.0)


class FakeItem:
    """A test with or without a limit of its own."""

    def __init__(self, *limits: float) -> None:
        self.marks = [pytest.mark.timeout(limit).mark for limit in limits]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        """The first one."""
        return self.marks[0] if self.marks else None

    def add_marker(self, mark, append) -> None:
        """Before the others."""
        assert not append
        self.marks.insert(0, mark.mark)


class FakeConfig:
    """Has the option --timeout."""

    def getoption(self, name: str, default: object) -> float:
        """That of the command line."""
        return 60.0


def test_tests_have_more_time_where_all_is_slow(monkeypatch) -> None:
    """Those that name a limit as well as the others."""
    monkeypatch.setattr(checks, "KernelWatch", lambda: None)
    monkeypatch.setattr(checks, "MemoryWatch", lambda: None)
    hook: Any = checks.GuestChecks(Retirement()).pytest_collection_modifyitems
    items = [FakeItem(), FakeItem(300.0)]
    hook(FakeConfig(), items)
    assert [len(item.marks) for item in items] == [0, 1]
    monkeypatch.setenv(waiting.SLOW, "4")
    hook(FakeConfig(), items)
    assert [item.marks[0].args for item in items] == [(240.0,), (1200.0,)]


def test_leaked_memory_fails_the_last_test_of_a_file(monkeypatch) -> None:
    """A search at the end includes the youngest leaks; harm ends a guest, too."""
    settles: list[bool] = []
    leak = memleak.parse("unreferenced object 0x1 (size 8):\n  comm x\n")

    class FakeMemory:
        ripe = True

        def due(self) -> bool:
            return self.ripe

        def leaks(self, settle: bool) -> list[memleak.Leak]:
            settles.append(settle)
            return leak if settle else []

    monkeypatch.setattr(checks, "KernelWatch", lambda: None)
    monkeypatch.setattr(checks, "MemoryWatch", FakeMemory)
    retirement = Retirement()
    hook = checks.GuestChecks(retirement).pytest_runtest_teardown
    a, b, c = (types.SimpleNamespace(path=path) for path in ("one.py", "one.py", "two.py"))

    def teardown(item, nextitem) -> None:
        step = hook(item, nextitem)
        next(step)
        with contextlib.suppress(StopIteration):
            next(step)

    teardown(a, b)
    assert settles == []
    teardown(b, c)
    assert settles == [False]
    FakeMemory.ripe = False
    teardown(b, c)
    assert settles == [False]
    with pytest.raises(pytest.fail.Exception, match=r"memory leaked.*\n0x1 "):
        teardown(c, None)
    assert settles == [False, True] and retirement.harmed
    with pytest.raises(pytest.fail.Exception, match=r"memory leaked.*\n0x1 "):
        teardown(a, b)
    assert settles == [False, True, True]


FAILS = """
    import pytest

    @pytest.fixture
    def device():
        yield
        {failure}

    def test_a(device): pass
"""


CHECKED = """
import types, pytest
from kfabric.guest import checks, memleak
from kfabric.guest.retirement import Retirement

leak = memleak.parse("unreferenced object 0x1 (size 8):\\n  comm x\\n")
checks.KernelWatch = lambda: types.SimpleNamespace(complaints=list, close=lambda: None)
checks.MemoryWatch = lambda: types.SimpleNamespace(leaks=lambda settle: {leak})
checks.leaks.take = lambda: None
checks.leaks.since = lambda before: {left}
checks.kmsg.mark = print

def pytest_configure(config):
    config.pluginmanager.register(checks.GuestChecks(Retirement()))
"""


@pytest.mark.parametrize(
    "failure",
    [
        "raise OSError('no link')",
        "raise ExceptionGroup('two', [OSError('no link'), OSError('no device')])",
        "pytest.fail('no link')",
        "pytest.fail('no link', pytrace=False)",
        "pytest.skip('no link')",
        "pytest.xfail('no link')",
    ],
)
def test_memory_is_searched_also_behind_a_teardown_that_fails(
    pytester, monkeypatch, failure
) -> None:
    """One error has both texts."""
    monkeypatch.setenv("PYTHONPATH", python_path(Path(__file__).parents[2]))
    pytester.makeconftest(CHECKED.format(leak="leak", left="[]"))
    pytester.makepyfile(textwrap.dedent(FAILS.format(failure=failure)))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*no link*", "*memory leaked since the last search:*", "*0x1 *"])


def test_expected_failure_excuses_nothing_that_is_left_behind(pytester, monkeypatch) -> None:
    """It is the call's; pytest would take the teardown's for it as well."""
    monkeypatch.setenv("PYTHONPATH", python_path(Path(__file__).parents[2]))
    pytester.makeconftest(CHECKED.format(leak="[]", left="['net devices: dummy0']"))
    pytester.makepyfile("import pytest\n@pytest.mark.xfail\ndef test_a(): assert 1 == 2\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(xfailed=1, errors=1)
    result.stdout.fnmatch_lines(["*left behind: net devices: dummy0*"])


def test_nothing_is_looked_for_behind_an_interrupt() -> None:
    """An interrupted run does not wait for a check."""
    step = phases.then(lambda: pytest.fail("looked"))
    next(step)
    with pytest.raises(KeyboardInterrupt):
        step.throw(KeyboardInterrupt())


def test_late_report_names_the_tests_before(monkeypatch) -> None:
    """One of them may be the cause; the last five are listed, after this test's own line."""
    watch = types.SimpleNamespace(complaints=lambda: ["kernel splat (kasan): BUG: KASAN: x"])
    monkeypatch.setattr(checks, "KernelWatch", lambda: watch)
    monkeypatch.setattr(checks, "MemoryWatch", lambda: None)
    guest = checks.GuestChecks(Retirement())
    for number in range(9):
        guest.pytest_runtest_logfinish(f"test_{number}")
    step = guest.pytest_runtest_makereport()
    next(step)
    where = ("tests/guest/test_cq.py", 11, "test_read")
    report = types.SimpleNamespace(when="call", outcome="passed", sections=[], location=where)
    with pytest.raises(StopIteration):
        step.send(report)
    assert report.outcome == "failed"
    assert report.longrepr.startswith("tests/guest/test_cq.py:12: in test_read\nkernel splat")
    assert "may be the cause: test_4, test_5, test_6, test_7, test_8" in report.longrepr


LOGGED = """
import types, pytest
from kfabric.guest import checks, kmsg, phases

LINES = []

class Log:
    def skip(self):
        LINES.clear()

    def new(self):
        found = [kmsg.Record(0, 0, 4, True, line) for line in LINES]
        LINES.clear()
        return found

    def close(self): pass

checks.kmsg.KernelLog = Log

class Late:
    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if "late" in item.name and call.when == "call":
            phases.fail(report, "a check", ["found afterwards"])
        return report

def pytest_configure(config):
    config.pluginmanager.register(checks.LogOfFailures())
    config.pluginmanager.register(Late())

@pytest.fixture
def printk():
    return LINES.append
"""

PRINTS = """
import pytest

def test_good(printk):
    printk("of the good test")

def test_bad(printk):
    printk("of the bad test")
    assert 1 == 2

@pytest.mark.xfail
def test_expected(printk):
    printk("of the expected failure")
    assert 1 == 2

def test_late(printk):
    printk("of the late failure")

@pytest.mark.parametrize("trace", [True, False])
def test_late_and_bad(printk, trace):
    printk("of the bad test that is bad twice")
    pytest.fail("bad", pytrace=trace)

@pytest.fixture
def torn(printk):
    yield
    printk("of the teardown")
    assert 3 == 4

def test_torn(printk, torn):
    printk("of the call before")

def test_twice(printk, torn):
    printk("of the first failure")
    assert 1 == 2

def test_chatty(printk):
    for number in range(250):
        printk(f"line {number}.")
    assert 1 == 2
"""

Outputs = dict[str, list[str]]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> Outputs:
    """The lines of the terminal, JUnit's failures and KTAP; PRINTS ran in a worker of xdist.

    With CI set, pytest's summary repeats each failure's message whole.
    """
    place = tmp_path_factory.mktemp("prints")
    (place / "conftest.py").write_text(LOGGED)
    (place / "test_prints.py").write_text(PRINTS)
    root = Path(__file__).parents[2]
    argv = [sys.executable, "-m", "pytest", "-p", "kfabric.runner.plugin", "-n1", "--rootdir=."]
    argv += ["-p", "no:cacheprovider", "--junitxml=junit.xml", "--ktap=test.ktap", "-c/dev/null"]
    at_a_desk = {"CI": "", "BUILD_NUMBER": "", "PYTEST_ADDOPTS": ""}
    env = {**os.environ, **at_a_desk, "PYTHONPATH": python_path(root)}
    done = subprocess.run(
        argv, check=False, cwd=place, env=env, capture_output=True, text=True, timeout=60
    )
    print(done.stdout, done.stderr)
    bad = ElementTree.parse(place / "junit.xml").iterfind(".//testcase/*")
    junit = "\n".join(str(one.text) for one in bad if one.tag in ("failure", "error"))
    ktap = (place / "test.ktap").read_text().splitlines()
    return {
        "terminal": done.stdout.splitlines(),
        "junit": junit.splitlines(),
        "ktap": [line.removeprefix("  # ") for line in ktap],
    }


@pytest.mark.parametrize("where", ["terminal", "junit", "ktap"])
def test_failure_has_its_kernel_log(outputs: Outputs, where: str) -> None:
    """In each output, once, also if a check fails the phase; never for a test that passes."""
    found = [line.partition("] of ")[2] for line in outputs[where] if "[    0.000000] of" in line]
    assert sorted(found) == [
        "the bad test",
        *["the bad test that is bad twice"] * 2,
        "the call before",
        "the first failure",
        "the late failure",
        *["the teardown"] * 2,
    ]


@pytest.mark.parametrize("where", ["terminal", "junit", "ktap"])
def test_failure_has_what_a_check_added(outputs: Outputs, where: str) -> None:
    """A test that had failed already keeps its own failure, too."""
    assert outputs[where].count("found afterwards") == 3


@pytest.mark.parametrize("where", ["terminal", "junit", "ktap"])
def test_only_the_end_of_a_long_kernel_log_is_shown(outputs: Outputs, where: str) -> None:
    """The number of the other lines is shown, too."""
    lines = outputs[where]
    found = [line.partition("] line ")[2] for line in lines if "[    0.000000] line" in line]
    assert found == [f"{number}." for number in range(150, 250)]
    assert "(150 earlier lines are left out)" in lines


def test_log_of_a_failure_goes_on_behind_an_overrun(monkeypatch) -> None:
    """The records that are left are shown, and a log that overruns again does not stall it."""
    overrun = kmsg.LogOverrun("the kernel log overran")
    batches: list[Any] = [overrun, [kmsg.Record(0, 0, 4, True, "left")], overrun, overrun, []]

    def new() -> list[kmsg.Record]:
        batch = batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch

    monkeypatch.setattr(checks.kmsg, "KernelLog", lambda: types.SimpleNamespace(new=new))
    log = checks.LogOfFailures()
    assert log._lines() == ["(the kernel log overran)", "[    0.000000] left"]
    assert log._lines() == ["(the kernel log overran)"]


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (state(), str(state())),
        (state(letter="R"), f"{state(letter='R')}\nit computes"),
    ],
    ids=["asleep", "awake"],
)
def test_call_that_does_not_end_is_said_not_to_have_returned(
    monkeypatch: pytest.MonkeyPatch, now: sleeping.ThreadState, told: str
) -> None:
    """With what its thread does, and where its time goes if it does not sleep."""
    monkeypatch.setattr(guest_support, "PATIENCE", 0.001)
    monkeypatch.setattr(sleeping, "read_state", lambda tid: now)
    monkeypatch.setattr(sleeping, "awake", lambda tid: "it computes")
    gate = threading.Event()
    call = guest_support.Call(gate.wait)
    try:
        with pytest.raises(pytest.fail.Exception) as failed:
            call.result()
    finally:
        gate.set()
        call.settle()
    assert str(failed.value) == f"the call has not returned after 0.001 s: {told}"


THREADS = """
import pytest
from kfabric.guest import fixtures, sleeping

def gone(tid, where, deadline):
    raise sleeping.ThreadGone(f"thread {tid} has ended")

sleeping.wait_until_asleep = gone

def pytest_configure(config):
    config.pluginmanager.register(fixtures.load())
"""

RAISES = """
import pytest

def wrong():
    return no_such_name

def ended(in_thread):
    call = in_thread(wrong)
    call.settle()
    return call

def test_asleep(in_thread):
    ended(in_thread).asleep()

def test_no_sleep(in_thread):
    call = in_thread(str)
    call.settle()
    call.asleep()

def test_other_failure(in_thread):
    ended(in_thread)
    pytest.fail("other")

def test_result(in_thread):
    call = ended(in_thread)
    with pytest.raises(NameError):
        call.result()
    pytest.fail("other")

def test_good(in_thread):
    ended(in_thread)
"""


def test_exception_in_a_thread_is_in_the_failure(pytester, monkeypatch) -> None:
    """As its cause if asleep() raises, else as a section, unless the test has handled it."""
    monkeypatch.setenv("PYTHONPATH", python_path(Path(__file__).parents[2]))
    pytester.makeconftest(THREADS)
    pytester.makepyfile(RAISES)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rN", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=4)
    cases = ElementTree.parse(pytester.path / "junit.xml").iterfind(".//testcase")
    bad = {str(case.get("name")): case[0] for case in cases if len(case)}
    message = {test: str(one.get("message")) for test, one in bad.items()}
    assert "has ended: NameError(" in message["test_asleep"]
    assert message["test_no_sleep"].endswith(" has ended")
    raised = "NameError: name 'no_such_name' is not defined"
    texts = {test: str(one.text) for test, one in bad.items()}
    assert {test for test, text in texts.items() if raised in text} == {
        "test_asleep",
        "test_other_failure",
    }
    assert all(
        "return no_such_name" in texts[test] for test in ("test_asleep", "test_other_failure")
    )
