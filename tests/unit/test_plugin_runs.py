# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Whole runs of the plugin with fake guests: each way in which a guest can end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from kfabric.errors import ExitStatus
from kfabric.guest.waiting import wait_until
from kfabric.root import python_path

ROOT = Path(__file__).parents[2]
PANIC = """
    import os, signal

    def panic(why):
        with open(os.environ["FAKE_CONSOLE"], "a") as console:
            console.write(f"[    9.000000] Kernel panic - not syncing: {why}\\n")
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Run tests, given as text, in fake guests; returns the run's result."""
    monkeypatch.setenv("PYTHONPATH", python_path(ROOT))
    # With CI set, pytest's summary repeats each failure.
    for name in ("PYTEST_ADDOPTS", "CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)

    def run_text(text: str, *arguments: str, guests: int = 1) -> pytest.RunResult:
        pytester.makepyfile(test_toy=dedent(PANIC) + dedent(text))
        return pytester.runpytest_subprocess(
            *("-p", "kfabric.runner.plugin", "-p", "tests.unit.support.fake_guest"),
            *("--kfabric-vms", str(guests), "--kfabric-dir", "guests", "--junitxml=junit.xml"),
            *("--ktap=test.ktap", "-o", "junit_suite_name=guest linux-6.1"),
            *arguments,
            # Seven guests one after the other take long where the host has other work.
            timeout=240,
        )

    return run_text


def cases(pytester: pytest.Pytester) -> dict[str, ElementTree.Element]:
    """Return the JUnit file's test cases by name."""
    tree = ElementTree.parse(pytester.path / "junit.xml")
    return {str(case.get("name")): case for case in tree.iter("testcase")}


def test_tests_run_in_guests_and_pass(run) -> None:
    """All pass: status 0, in as many guests as asked for."""
    result = run("def test_a(): pass\ndef test_b(): pass\n", guests=2)
    result.assert_outcomes(passed=2)
    assert result.ret == ExitStatus.OK


def test_cost_of_the_guests_is_shown(run, monkeypatch) -> None:
    """Their memory before they boot, and the time that it took afterwards."""
    monkeypatch.setenv("KFABRIC_KERNEL", "debug")
    result = run("def test_a(): pass\n")
    result.stderr.fnmatch_lines(["kfabric: booting 1 guest of 2560 MiB"])
    result.stdout.re_match_lines([r"kfabric: 1 guest of 2560 MiB, up after \d+\.\d s, .*"])


def test_a_failed_assertion_is_status_1(run) -> None:
    """A failing test has nothing to do with the guest's health."""
    result = run("def test_a(): assert 1 == 2\n")
    result.assert_outcomes(failed=1)
    assert result.ret == ExitStatus.TEST_FAILED


@pytest.mark.parametrize("options", [["-s"], ["-xs"], ["--capture", "no"]])
def test_output_of_a_failed_test_is_shown_also_without_capture(run, options) -> None:
    """In a guest, nothing but the report of a test has a way to the terminal."""
    result = run("def test_a():\n    print('a word')\n    assert 0\n", *options)
    result.stdout.fnmatch_lines(["*Captured stdout call*", "a word"])


def test_panic_is_the_failure_of_the_test_that_ran(run, pytester) -> None:
    """The others run in a new guest; the report has the reason and the console."""
    result = run(
        """
    def test_a(): pass
    def test_b(): panic("Fatal exception")
    def test_c(): pass
    """
    )
    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == ExitStatus.TEST_FAILED
    failure = cases(pytester)["test_b"].find("failure")
    assert failure is not None and "guest kernel panic: Fatal exception" in str(failure.text)
    assert failure.get("message") == "guest0.0: guest kernel panic: Fatal exception"
    assert "Kernel panic - not syncing" in str(failure.text), "the console's end is in it"
    assert "earlier tests there" in str(failure.text) and "test_a" in str(failure.text)
    result.stdout.fnmatch_lines(["kfabric: booting guest0.1 for the tests that are left"])
    result.stdout.fnmatch_lines(["*guest0.0's console*", "*Kernel panic - not syncing*"])
    assert sorted(path.name for path in (pytester.path / "guests").iterdir()) == [
        "guest0.0",
        "guest0.1",
    ]


@pytest.mark.parametrize(("last", "options"), [("", []), ("def test_c(): pass", ["-x"])])
def test_guest_is_not_replaced_if_no_test_is_left_for_another(run, pytester, last, options) -> None:
    """A boot takes seconds: the last test panicked, or the run is to stop."""
    result = run(f"def test_a(): pass\ndef test_b(): panic('x')\n{last}\n", *options)
    result.assert_outcomes(passed=1, failed=1)
    assert [path.name for path in (pytester.path / "guests").iterdir()] == ["guest0.0"]
    result.stdout.no_fnmatch_line("*replacing*")


def test_dead_guest_is_shown_with_the_line_of_its_test(run) -> None:
    """Before all that follows from it; xdist's line would say less."""
    result = run("""
    def test_a(): pass
    def test_b(): panic("Fatal exception")
    """)
    said = "test_toy.py:9: guest0.0: guest kernel panic: Fatal exception"
    result.stdout.fnmatch_lines([f"kfabric: {said}", "*FAILURES*", said])
    result.stdout.no_fnmatch_line("*node down*")


def test_failure_is_shown_before_the_errors_that_follow(run) -> None:
    """Such as objects that the test could not close."""
    result = run("""
    import pytest

    @pytest.fixture
    def device():
        yield
        pytest.fail("left behind: cq 3", pytrace=False)

    def test_a(device): assert 1 == 2
    """)
    result.stdout.fnmatch_lines(["*FAILURES*", "*assert 1 == 2", "*ERRORS*", "left behind: cq 3"])


def test_panic_in_a_teardown_is_an_error_of_its_test(run, pytester) -> None:
    """Its call has passed, and is reported once; the others continue in a new guest."""
    result = run(
        """
    import pytest

    @pytest.fixture
    def device():
        yield
        panic("in the teardown")

    def test_a(): pass
    def test_b(device): pass
    def test_c(): pass
    """
    )
    result.assert_outcomes(passed=3, errors=1)
    assert result.ret == ExitStatus.TEST_FAILED
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_b*", "*while it tore down*::test_b"])
    result.stdout.no_fnmatch_line("*outside of any test*")
    found = list(ElementTree.parse(pytester.path / "junit.xml").iter("testcase"))
    assert sorted(str(case.get("name")) for case in found) == ["test_a", "test_b", "test_c"]
    errors = {
        case.get("name"): error for case in found if (error := case.find("error")) is not None
    }
    assert list(errors) == ["test_b"]
    assert "guest0.0: guest kernel panic: in the teardown" in str(errors["test_b"].get("message"))
    assert "a possible cause: test_toy.py::test_a\n" in str(errors["test_b"].text)
    suite = ElementTree.parse(pytester.path / "junit.xml").find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("errors")) == ("3", "1")
    lines = (pytester.path / "test.ktap").read_text().splitlines()
    assert [line for line in lines if "not ok" in line] == [
        "  not ok 2 test_b # ERROR in teardown",
        "not ok 1 test_toy.py",
    ]


@pytest.mark.parametrize("before", ["assert 1 == 2", "pytest.skip('no device')"])
def test_panic_in_a_teardown_after_a_failed_call_is_the_same_tests(run, pytester, before) -> None:
    """One case in JUnit has both; so has one line of KTAP."""
    result = run(
        f"""
    import pytest

    @pytest.fixture
    def device():
        yield
        panic("in the teardown")

    def test_a(device): {before}
    def test_b(): pass
    """
    )
    assert result.ret == ExitStatus.TEST_FAILED
    assert result.parseoutcomes()["errors"] == 1
    found = list(ElementTree.parse(pytester.path / "junit.xml").iter("testcase"))
    assert sorted(str(case.get("name")) for case in found) == ["test_a", "test_b"]
    assert sum(case.find("error") is not None for case in found) == 1
    lines = (pytester.path / "test.ktap").read_text().splitlines()
    assert sum("not ok" in line and "test_a" in line for line in lines) == 1


def test_results_are_there_in_the_kernels_format_too(run, pytester) -> None:
    """With the kernel's name, skips and expected failures, panic and console."""
    run(
        """
    import pytest

    def test_a(): pass
    @pytest.mark.skip(reason="no such device")
    def test_b(): pass
    @pytest.mark.xfail(reason="not yet")
    def test_c(): assert 1 == 2
    def test_d(): panic("Fatal exception")
    @pytest.mark.parametrize("word", ["a#b"])
    def test_e(word): pass
    @pytest.fixture
    def broken(): raise OSError("no link")
    def test_f(broken): pass
    """
    )
    text = (pytester.path / "test.ktap").read_text()
    lines = text.splitlines()
    assert lines[:6] == [
        "KTAP version 1",
        "1..1",
        "# guest linux-6.1",
        "  KTAP version 1",
        "  # Subtest: test_toy.py",
        "  1..6",
    ]
    results = [line[2:] for line in lines if line.startswith(("  ok", "  not ok"))]
    by_name = {result.split(" # ")[0].rpartition(" ")[2]: result for result in results}
    assert by_name["test_a"].startswith("ok")
    assert by_name["test_b"].endswith("test_b # SKIP no such device")
    assert by_name["test_c"].startswith("ok") and by_name["test_c"].endswith("# XFAIL not yet")
    assert by_name["test_d"].startswith("not ok")
    assert by_name["test_e[a_b]"].startswith("ok")
    assert by_name["test_f"].startswith("not ok") and "# ERROR in setup" in by_name["test_f"]
    assert any(line.endswith(": guest0.0: guest kernel panic: Fatal exception") for line in lines)
    assert any(line.startswith("  # ") and "Kernel panic - not syncing" in line for line in lines)
    assert lines[-1] == "not ok 1 test_toy.py"


def test_panic_after_the_last_test_is_a_result_of_its_own(run, pytester) -> None:
    """A reader of either file alone must not take the run for a green one."""
    run(
        """
    import atexit

    def test_a(): pass
    def test_b(): atexit.register(panic, "in rmmod\\x1b[0m")
    """
    )
    lines = (pytester.path / "test.ktap").read_text().splitlines()
    assert lines[1] == "1..2"
    assert lines[-1].startswith("not ok 2 guest0.0 # ERROR guest0.0: guest kernel panic: in rmmod")
    assert "# earlier tests there: test_toy.py::test_a, test_toy.py::test_b" in lines
    assert any(line.startswith("# ") and "Kernel panic - not syncing" in line for line in lines)
    case = cases(pytester)["guest0.0"]
    error = case.find("error")
    assert case.get("classname") == "guests" and error is not None
    assert str(error.get("message")).startswith("guest0.0: guest kernel panic: in rmmod")
    text = str(error.text)
    assert "earlier tests there: test_toy.py::test_a, test_toy.py::test_b\n" in text
    assert "Kernel panic - not syncing" in text
    suite = ElementTree.parse(pytester.path / "junit.xml").find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("errors")) == ("3", "1")
    assert suite.get("name") == "guest linux-6.1"


def test_panic_after_the_last_test_is_not_green(run) -> None:
    """All tests passed, but the status is that of a panic."""
    result = run(
        """
    import pytest

    @pytest.fixture(scope="session", autouse=True)
    def module_unload():
        yield
        import atexit
        atexit.register(panic, "in rmmod")

    def test_a(): pass
    """
    )
    result.assert_outcomes(passed=1)
    assert result.ret == ExitStatus.PANIC
    result.stdout.fnmatch_lines(
        [
            "*outside of any test*",
            "*guest kernel panic: in rmmod*",
            "earlier tests there: test_toy.py::test_a",
        ]
    )


def test_panic_in_session_finish_is_not_green(run) -> None:
    """The worker had not ended yet: xdist notices, but its status is still 0."""
    result = run(
        """
    import pytest

    class Late:
        def pytest_sessionfinish(self): panic("late")

    @pytest.fixture(autouse=True)
    def late(request):
        if not request.config.pluginmanager.hasplugin("late"):
            request.config.pluginmanager.register(Late(), "late")

    def test_a(): pass
    """
    )
    assert result.ret == ExitStatus.PANIC
    result.stdout.fnmatch_lines(["*guest kernel panic: late*"])


def test_splat_that_no_test_reported_is_not_green(run) -> None:
    """The console is read once more at the end."""
    result = run(
        """
    def test_a():
        with open(os.environ["FAKE_CONSOLE"], "a") as console:
            console.write("[ 1.0] WARNING: CPU: 0 PID: 1 at lib/x.c:1 f+0x1/0x2 [kfabric]\\n")
    """
    )
    result.assert_outcomes(passed=1)
    assert result.ret == ExitStatus.SPLAT


RETIRING = """
    from kfabric.guest.retirement import Retirement

    def pytest_configure(config):
        if hasattr(config, "workerinput"):
            config.pluginmanager.register(Retirement(), "retirement")
"""
HARM = """
    import pytest

    def note(text):
        with open(os.environ["FAKE_CONSOLE"], "a") as console:
            console.write(f"{text}\\n")

    @pytest.fixture(scope="session", autouse=True)
    def end():
        yield
        note("fixtures ended")

    @pytest.mark.parametrize("number", range(6))
    def test_harm(number, request):
        request.config.pluginmanager.getplugin("retirement").harm()
        note("harm")

    def test_behind():
        note("no harm")
"""


@pytest.mark.parametrize("guests", [1, 2])
def test_a_harmed_guest_runs_no_other_test(run, pytester, guests) -> None:
    """All tests run, harm is the last that its guest sees; fixtures are torn down."""
    pytester.makeconftest(RETIRING)
    result = run(HARM, guests=guests)
    result.assert_outcomes(passed=7)
    assert result.ret == ExitStatus.OK
    consoles = [path.read_text() for path in pytester.path.glob("guests/*/console.log")]
    seen = [console.splitlines() for console in consoles if console]
    # The harmless test may run first in a guest that is harmed afterwards.
    assert all(lines[-1] == "fixtures ended" and "harm" not in lines[:-2] for lines in seen)
    assert sum("harm" in lines for lines in seen) == 6


def test_a_harmed_guest_that_cannot_tear_down_loses_no_tests(run, pytester) -> None:
    """The harm also makes a wider fixture's teardown fail, which is reported."""
    pytester.makeconftest(RETIRING)
    broken = "    yield\n        raise RuntimeError('in use')\n"
    result = run(HARM.replace("    yield\n", broken))
    result.assert_outcomes(passed=7, errors=1)
    result.stdout.fnmatch_lines(["*RuntimeError: in use*"])


def test_guest_that_comes_when_all_seems_done_does_not_end_the_run(run, pytester) -> None:
    """It was told to end; then another guest retires with a test left, which has to run.

    gw0 and gw1 retire. gw2 runs one of two tests and retires slowly. gw3 comes meanwhile, and
    has collected when gw4 replaces gw2.
    """
    pytester.makeconftest(
        RETIRING
        + """
    import os, time
    from pathlib import Path
    import pytest

    WORKER = os.environ.get("PYTEST_XDIST_WORKER")

    def wait_for(name):
        for _ in range(2000):
            if Path(name).exists():
                return
            time.sleep(0.01)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart():
        if WORKER:
            Path(f"{WORKER}-began").touch()

    if WORKER == "gw3":
        wait_for("gw2-ends")
    """
    )
    result = run(
        """
    import pytest
    from pathlib import Path
    from conftest import WORKER, wait_for

    @pytest.fixture(scope="session", autouse=True)
    def end():
        yield
        Path(f"{WORKER}-ends").touch()
        if WORKER == "gw2":
            wait_for("gw3-began")

    @pytest.mark.parametrize("number", range(4))
    def test_harm(number, request):
        request.config.pluginmanager.getplugin("retirement").harm()

    if WORKER == "gw3":
        wait_for("gw4-began")
    """,
        guests=2,
    )
    result.assert_outcomes(passed=4)
    assert result.ret == ExitStatus.OK


def test_a_report_in_a_tests_failure_is_not_repeated(run) -> None:
    """Nor does it fail the guest's end; a report that no test has shown does."""
    result = run(
        """
    def test_a():
        splat = "WARNING: CPU: 0 PID: 1 at lib/x.c:1 f+0x1/0x2 [kfabric]"
        with open(os.environ["FAKE_CONSOLE"], "a") as console:
            console.write(f"[    1.0] {splat}\\n")
        raise AssertionError(f"kernel splat (warning): {splat}\\n")
    """
    )
    result.assert_outcomes(failed=1)
    assert result.ret == ExitStatus.TEST_FAILED
    result.stdout.no_fnmatch_line("*outside of any test*")


def test_kernel_reports_of_a_failure_have_lines_of_source(run, pytester) -> None:
    """Those that are the failure, and those that kfabric.guest adds to another one."""
    pytester.makeconftest("""
    import pytest
    from kfabric.guest import phases

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(item):
        report = yield
        if report.when == "call" and item.name == "test_a":
            phases.fail(report, "kernel", ["WARNING: x", " f+0x1/0x2 [mine]"])
        elif report.failed:
            phases.add(report, "kernel log", " f+0x1/0x2 [mine]")
        return report
    """)
    result = run("def test_a(): pass\ndef test_b(): assert 1 == 2\n")
    result.assert_outcomes(failed=2)
    texts = [str(case.findtext("failure")) for case in cases(pytester).values()]
    assert ["f+0x1/0x2 [mine] (mine.c:7)" in text for text in texts] == [True, True]
    assert "assert 1 == 2" in texts[1]
    assert result.stdout.str().count("f+0x1/0x2 [mine] (mine.c:7)") == 2
    assert (pytester.path / "test.ktap").read_text().count("[mine] (mine.c:7)") == 2


def test_dead_test_process_is_no_dead_guest(run) -> None:
    """No panic on the console: the failure shows the process's status and output."""
    result = run(
        """
    def test_a():
        os.write(2, b"double free or corruption")
        os.kill(os.getpid(), signal.SIGSEGV)
    """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the test process ended with signal 11*"])


def test_stray_bytes_harm_no_result(run) -> None:
    """Output of a test or its processes does not mix with the results."""
    result = run(
        """
    import subprocess

    def test_a():
        for stream in (0, 1, 2):
            try:
                os.write(stream, bytes(range(256)) * 100)
            except OSError:
                pass
        subprocess.run(["sh", "-c", "echo noise; echo noise >&2"], check=True)

    def test_b(): pass
    """,
        "-s",
    )
    result.assert_outcomes(passed=2)
    assert result.ret == ExitStatus.OK


def test_killed_bridge_ends_its_guest_and_nothing_else(run, pytester) -> None:
    """The test that ran is the one that failed; the others run in a new guest."""
    pytester.makeconftest(
        "import kfabric.runner.controller\nkfabric.runner.controller.FINISH_SECONDS = 1.0"
    )
    result = run(
        """
    from pathlib import Path

    def test_a():
        host = str(os.getppid())
        for stat in Path("/proc").glob("[0-9]*/stat"):
            parent = stat.read_text().rpartition(")")[2].split()[1]
            if parent == host and b"bridge.py" in (stat.parent / "cmdline").read_bytes():
                os.kill(int(stat.parent.name), signal.SIGKILL)
        signal.sigwait([signal.SIGUSR1])

    def test_b(): pass
    """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*the test process did not end within 1 s*"])


def test_silent_tests_end_their_guest(run, pytester) -> None:
    """A hang that no signal can end: the guest shows its state, then it is killed.

    Earlier reports of the kernel are shown, however old.
    """
    result = run(
        """
    def test_a():
        with open(os.environ["FAKE_CONSOLE"], "a") as console:
            console.write("[    1.0] BUG: KASAN: use-after-free in f+0x1/0x2\\n" + "words\\n" * 99)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        signal.sigwait([signal.SIGUSR1])

    def test_b(): pass
    """,
        "--kfabric-silence=8",
        "--timeout=0",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*guest hangs: *printed nothing for 8 s*"])
    result.stdout.fnmatch_lines(["*earlier kernel report:*", "*KASAN: use-after-free*"])
    assert "sysrq-trigger" in (pytester.path / "guests/guest0.0/console.log").read_text()


@pytest.mark.parametrize("quiet", [False, True])
def test_test_that_does_not_end_is_named_while_it_runs(run, pytester, quiet) -> None:
    """Unless the run is quiet. The test waits until the host has looked."""
    pytester.makeconftest("""
    from pathlib import Path
    from kfabric.runner import standstill

    look = standstill.Standstill.look

    def look_and_record(self):
        look(self)
        if self._began:
            Path("looked").touch()

    standstill.FIRST_SECONDS = 0.0
    standstill.Standstill.look = look_and_record
    """)
    result = run(
        """
    from pathlib import Path
    from kfabric.guest.waiting import wait_until

    def test_a():
        wait_until(Path("looked").exists, "the host to look", 50.0)
    """,
        *(["-q"] if quiet else []),
    )
    result.assert_outcomes(passed=1)
    found = "kfabric: guest0.0: test_toy.py::test_a has run for " in result.stdout.str()
    assert found != quiet


def test_guest_that_has_nothing_left_to_do_may_be_silent(run) -> None:
    """While others still test; that is no hang."""
    result = run(
        """
    import pytest, time

    @pytest.mark.parametrize("number", range(4))
    def test_long_in_one_of_them(number, worker_id):
        time.sleep(0 if worker_id == "gw0" else 5)
    """,
        "--kfabric-silence=8",
        guests=2,
    )
    result.assert_outcomes(passed=4)
    assert result.ret == ExitStatus.OK


def test_report_that_cannot_be_sent_is_not_green(run, pytester) -> None:
    """pytest breaks in the guest's last test, for which xdist does not wait any more."""
    result = run(
        """
    def test_a(record_property):
        record_property("anything", object())
    """
    )
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    text = (pytester.path / "test.ktap").read_text()
    assert "not ok 1 test_a # ERROR did not end" in text


def test_session_that_cannot_end_in_its_guest_is_not_green(run, pytester) -> None:
    """xdist has all results before the last hooks run."""
    pytester.makeconftest("""
    def pytest_sessionfinish(session):
        if hasattr(session.config, "workerinput"):
            raise RuntimeError("the module cannot be unloaded")
    """)
    result = run("def test_a(): pass")
    assert result.ret == ExitStatus.TEST_FAILED
    result.stdout.fnmatch_lines(["*RuntimeError: the module cannot be unloaded*"])


def test_file_that_cannot_be_imported_is_not_ok_in_ktap(run, pytester) -> None:
    """Nor is the run."""
    assert run("import nothing_of_this_name").ret == ExitStatus.TEST_FAILED
    assert "not ok 1 test_toy.py" in (pytester.path / "test.ktap").read_text().splitlines()


def test_crash_in_collection_ends(run) -> None:
    """Every new guest crashes at once: the run stops, and fails."""
    result = run('panic("while collecting")\n')
    assert result.ret == ExitStatus.PANIC
    result.stdout.fnmatch_lines(["*maximum crashed workers reached*"])


CRASHES = """
    import pytest

    @pytest.mark.parametrize("number", range(6))
    def test_crash(number): panic(f"number {number}")
"""


def test_abandoned_run_lists_the_tests_that_did_not_run(run, pytester) -> None:
    """No report may look complete without these tests."""
    result = run(CRASHES)
    result.assert_outcomes(failed=4)
    assert result.ret == ExitStatus.TEST_FAILED
    result.stdout.fnmatch_lines(["*maximum crashed workers reached*"])
    result.stdout.fnmatch_lines(["2 tests did not run", "4 guests had crashed*", "test_toy.py::*"])
    lines = (pytester.path / "test.ktap").read_text().splitlines()
    assert lines[-1] == "not ok 2 run # ERROR 2 tests did not run"
    error = cases(pytester)["run"].find("error")
    assert error is not None and error.get("message") == "2 tests did not run"
    assert str(error.text).count("test_toy.py::test_crash") == 2


def test_run_abandoned_in_collection_lists_the_known_tests(run, pytester) -> None:
    """The first guest has collected the tests, and no later one does."""
    result = run(
        """
    import pytest

    def test_a(worker_id): panic("first")
    def test_b(): pass
    def test_c(): pass
    if os.environ["PYTEST_XDIST_WORKER"] != "gw0":
        panic("while collecting")
    """
    )
    assert result.ret == ExitStatus.TEST_FAILED
    assert {*cases(pytester)} == {"test_a", "guest0.1", "guest0.2", "guest0.3", "run"}
    error = cases(pytester)["run"].find("error")
    assert error is not None and error.get("message") == "2 tests did not run"


def test_run_that_was_asked_to_stop_is_not_one_that_gave_up(run, pytester) -> None:
    """Tests that -x leaves out are left out on purpose."""
    result = run(CRASHES.replace("panic(f", "pytest.fail(f"), "-x")
    result.assert_outcomes(failed=1)
    assert "did not run" not in result.stdout.str()
    assert "run" not in cases(pytester)
    assert "did not run" not in (pytester.path / "test.ktap").read_text()


def test_run_that_is_to_end_with_a_failure_ends_with_a_guests(run, pytester) -> None:
    """-x: the tests after it do not run, as requested."""
    result = run(CRASHES, "-x")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])
    assert "run" not in cases(pytester)


def test_guest_that_does_not_boot_is_one_clear_line(run) -> None:
    """No test failed: the status is that of a failed boot."""
    result = run("def test_a(): pass\n", "--fake-boots=0")
    assert result.ret == ExitStatus.BOOT
    text = result.stdout.str() + result.stderr.str()
    assert "guest did not boot: no sign of life after 60 s" in text
    assert text.count("guest did not boot") == 1
    assert "the last words of init" in text
    assert "INTERNALERROR" not in text


def test_run_without_guests_leaves_its_results(run, pytester) -> None:
    """Files without a test, and with the reason: a CI system does not miss them."""
    run("def test_a(): pass\n", "--fake-boots=0", "--kcidb=test.kcidb.json")
    why = "guest did not boot: no sign of life after 60 s"
    error = cases(pytester)["run"].find("error")
    assert error is not None and (error.get("message"), error.text) == (
        why,
        "the last words of init",
    )
    suite = ElementTree.parse(pytester.path / "junit.xml").find("testsuite")
    assert suite is not None and (suite.get("name"), suite.get("tests"), suite.get("errors")) == (
        "guest linux-6.1",
        "1",
        "1",
    )
    lines = (pytester.path / "test.ktap").read_text().splitlines()
    assert lines[-2:] == ["# the last words of init", f"not ok 1 run # ERROR {why}"]
    (missed,) = json.loads((pytester.path / "test.kcidb.json").read_text())["tests"]
    assert (missed["status"], missed["comment"]) == ("MISS", why)


def test_guest_that_cannot_be_replaced_is_one_clear_line(run, pytester) -> None:
    """The first one crashes, the second does not boot."""
    result = run(
        """
    def test_a(): panic("x")
    def test_b(): pass
    """,
        "--fake-boots=1",
    )
    assert result.ret == ExitStatus.BOOT
    text = result.stdout.str() + result.stderr.str()
    assert "guest did not boot: no sign of life after 60 s" in text
    assert "INTERNALERROR" not in text
    assert text.count("guest did not boot") == 1
    assert "guest0.0: guest kernel panic: x" in text, "what had failed before is shown"
    error = cases(pytester)["run"].find("error")
    assert error is not None and error.get("message") == "1 test did not run"
    assert "guest did not boot: no sign of life after 60 s; what did not run" in str(error.text)


def test_all_skipped_is_an_error(run) -> None:
    """A run without tests proves nothing; each skip prints its reason."""
    result = run("import pytest\ndef test_a(): pytest.skip('no rxe')\n")
    result.assert_outcomes(skipped=1)
    assert result.ret == ExitStatus.TEST_FAILED
    result.stdout.fnmatch_lines(["*nothing was tested*", "SKIPPED*no rxe*"])


@contextmanager
def in_foreground(argv: Sequence[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process group as a terminal makes it; gone at the end in any case.

    A shell that starts us in the background lets us ignore SIGINT, which a process
    inherits and Python respects.
    """
    argv = ["env", "--default-signal=INT", *argv]
    process = subprocess.Popen(argv, cwd=directory, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_interrupt_leaves_no_process(pytester, monkeypatch) -> None:
    """Ctrl-C reaches all processes of the terminal except the guests, which still end."""
    monkeypatch.setenv("PYTHONPATH", python_path(ROOT))
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("tmp")))
    pytester.makepyfile(
        """
        import os, threading

        def test_a():
            with open(os.environ["FAKE_CONSOLE"], "a") as console:
                console.write(f"pid {os.getpid()}\\n")
            threading.Event().wait()
        """
    )
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "kfabric.runner.plugin",
        "-p",
        "tests.unit.support.fake_guest",
    ]
    argv += ["--kfabric-vms=1", "--kfabric-dir=guests"]
    console = pytester.path / "guests/guest0.0/console.log"
    with in_foreground(argv, pytester.path) as process:
        wait_until(lambda: console.exists() and "pid" in console.read_text(), "the test to run", 30)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == pytest.ExitCode.INTERRUPTED
    guest = int(console.read_text().split()[1])
    assert not Path(f"/proc/{guest}").exists()
    assert list((pytester.path / "tmp").glob("kfabric-*")) == []


def test_own_workers_cannot_be_mixed_with_guests(run) -> None:
    """-n and --kfabric-vms both choose the workers."""
    assert run("def test_a(): pass\n", "-n2").ret == pytest.ExitCode.USAGE_ERROR


def test_temporary_directory_is_the_guests_own(run, tmp_path) -> None:
    """xdist names one below the host's, which a guest does not have."""
    workers_here = str(tmp_path).count("popen-gw")
    result = run(
        f"""
    def test_a(tmp_path, tmp_path_factory):
        assert str(tmp_path).count("popen-gw") == {workers_here}
    """
    )
    result.assert_outcomes(passed=1)


def test_guest_tests_are_kept_away_from_this_machine(pytester, monkeypatch) -> None:
    """Without guests, a test marked 'guest' is skipped with a reason."""
    monkeypatch.setenv("PYTHONPATH", python_path(ROOT))
    pytester.makepyfile("import pytest\n@pytest.mark.guest\ndef test_a(): assert 0\n")
    result = pytester.runpytest_subprocess("-p", "kfabric.runner.plugin", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*needs a guest*--kfabric-vms*"])
