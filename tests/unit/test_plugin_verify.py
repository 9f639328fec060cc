# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""--verify-wakeups on toy tests, each of which plays a recorded trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONFTEST = f"""
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfabric.guest.verify import VerifyWakeups
from kfabric.runner.outcome import Watched
from kfabric.recording.records import Recording
from record_lines import load_lines

TRACES = Path({str(ROOT / "tests/data/traces")!r})


class Session:
    def __init__(self):
        self.played = []
        self.attached = True
        self.probe = SimpleNamespace(frames=lambda numbers: {{}})

    def recorder(self):
        self.attached = True
        return self

    def detach(self):
        self.attached = False

    def cut(self):
        self.played.clear()
        self.open = SimpleNamespace(
            t_begin=0,
            recorder=self,
            look=self.look,
            news=lambda: True,
            drop=lambda: None,
            blind=False,
        )
        return self.open

    def look(self):
        return self.played[-1] if self.played else Recording(())


SESSION = Session()


def pytest_configure(config):
    config.pluginmanager.register(VerifyWakeups(SESSION), "verify")
    config.pluginmanager.register(Watched(), "watched")


@pytest.fixture
def session():
    return SESSION


@pytest.fixture
def play():
    def play(name):
        lines = (TRACES / f"{{name}}.jsonl").read_text().splitlines()
        SESSION.played.append(load_lines(lines))

    return play
"""

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run toy tests with their wake-ups judged."""
    monkeypatch.setenv("KFABRIC_OUT", str(pytester.path / "out"))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest(CONFTEST)

    def run_text(text: str) -> pytest.RunResult:
        pytester.makepyfile(test_toy="import pytest\n" + text)
        return pytester.runpytest_inprocess("-p", "kfabric.runner.plugin")

    return run_text


def test_healthy_waits_pass_and_are_counted(run: Run) -> None:
    """The end of the run shows the number of judged waits."""
    result = run(
        """
def test_a(play): play("good")
def test_b(play): play("good")
def test_c(): pass
"""
    )
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["kfabric: the wake-ups of 4 waits in 3 tests were found right"])


@pytest.mark.parametrize("fault", ["lost", "timeout-ready", "spurious", "herd", "never-ran"])
def test_fault_fails_a_test_whose_assertions_pass(run: Run, fault: str) -> None:
    """The failure is the story."""
    result = run(f"def test_a(play): play({fault!r})")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*: *wait*", "* ms  thread *", "trace: *out/wakeups/*"])
    result.stdout.fnmatch_lines(
        [
            "kfabric: no wait was found right; the waits of 1 test that failed by wake-ups are "
            "not counted: *::test_a"
        ]
    )


@pytest.mark.parametrize("wrong", ["lost", "unsure-ring"])
def test_waits_of_a_test_with_findings_are_not_counted_as_right(run: Run, wrong: str) -> None:
    """Nor those of a test that could not be verified; those of the other tests are."""
    result = run(
        f"""
def test_a(play): play("good")
def test_b(play): play({wrong!r})
"""
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "kfabric: the wake-ups of 2 waits in 1 test were found right; the waits of 1 test "
            "that failed by wake-ups are not counted: test_toy.py::test_b"
        ]
    )


def test_wait_of_a_fault_on_purpose_is_not_counted_as_right(run: Run) -> None:
    """The test passes, and its wake-ups are wrong all the same."""
    result = run(
        """
@pytest.mark.wrong_wakeups("lost", reason="a fault point")
def test_a(play): play("lost")
"""
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["kfabric: no wait was found right"])


def test_recording_with_gaps_fails(run: Run) -> None:
    """Events that were not recorded may have been faults."""
    result = run("def test_a(play): play('unsure-ring')")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["NOT VERIFIED: the probe lost events*"])


def test_two_views_that_differ_fail(run: Run) -> None:
    """Both are shown."""
    result = run("def test_a(play): play('unsure-views')")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the two views differ: the tracepoints saw 1 *functions 2*"])


def test_judging_attaches_no_probe(run: Run) -> None:
    """After an unload, the waits of threads that go on would be seen in parts."""
    result = run(
        """
@pytest.fixture
def threads(session):
    yield
    assert not session.attached

def test_a(session, threads):
    session.detach()

def test_b(session):
    assert session.attached
"""
    )
    result.assert_outcomes(passed=2)


def test_overtaken_is_no_fault(run: Run) -> None:
    """Another thread may be faster."""
    run("def test_a(play): play('good-overtaken')").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("waits", "line"),
    [
        (3, "*3 of these waits were on the queues of wakeups.toml*"),
        (0, "*no wait on the queues of wakeups.toml was judged: no test called its functions*"),
    ],
)
def test_waits_on_the_users_queues_are_counted(run: Run, waits: int, line: str) -> None:
    """Also if there were none: the names in the file may be wrong."""
    result = run(
        f"""
@pytest.fixture(autouse=True)
def witness(request, play):
    plugin = request.config.pluginmanager.get_plugin("verify")
    case = plugin._cases
    def cases(report, cut):
        for one in case(report, cut):
            yield one
            yield SimpleNamespace(verdict=SimpleNamespace(right={waits}, findings=(), doubts=()))
    plugin._cases = cases
    yield
    plugin._cases = case

from types import SimpleNamespace

def test_a(play): play("good")
"""
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([line])


def test_fault_that_is_made_on_purpose_passes(run: Run) -> None:
    """If the test says so."""
    result = run(
        """
@pytest.mark.wrong_wakeups("lost", reason="a fault point")
def test_a(play): play("lost")

@pytest.mark.wrong_wakeups("not verified", reason="a stranger")
def test_b(play): play("unsure-views")

@pytest.mark.wrong_wakeups(may="lost", reason="a race")
def test_c(play): play("good")
"""
    )
    result.assert_outcomes(passed=3)


def test_fault_that_is_announced_must_be_found(run: Run) -> None:
    """Otherwise the verdict, or the fault point, does not work."""
    result = run(
        """
@pytest.mark.wrong_wakeups("lost", reason="a fault point")
def test_a(play): play("good")
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*makes this fault, and it was not found: lost"])


def test_only_the_announced_fault_passes(run: Run) -> None:
    """Another one is as bad as ever."""
    result = run(
        """
@pytest.mark.wrong_wakeups("spurious", reason="a fault point")
def test_a(play): play("lost")
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["LOST: *", "*not found: spurious"])


def test_fault_in_teardown_is_an_error(run: Run) -> None:
    """The test had passed by then; earlier findings are not reported again."""
    result = run(
        """
@pytest.fixture
def late(play):
    yield
    play("lost")

def test_a(late): pass

def test_b(play): play("lost")
"""
    )
    result.assert_outcomes(passed=1, failed=1, errors=1)


def test_failed_test_shows_its_wake_ups_too(run: Run) -> None:
    """They may be why it failed."""
    result = run("def test_a(play):\n    play('lost')\n    assert not 'own reason'")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*own reason*", "*- wake-ups -*", "LOST: *"])


def test_expected_failure_does_not_cover_a_lost_wake_up(run: Run) -> None:
    """An xfail is about an assertion."""
    result = run(
        """
@pytest.mark.xfail(reason="known")
def test_a(play):
    play("lost")
    assert False
"""
    )
    result.assert_outcomes(failed=1)


def test_unwatched_test_is_named_with_its_reason(run: Run) -> None:
    """Its wake-ups are not judged, and the report shows that."""
    result = run(
        """
@pytest.mark.unwatched(reason="it unloads the module")
def test_a(play, session):
    assert not session.attached
    play("lost")

def test_b(session): assert session.attached
"""
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*not watched: test_toy.py::test_a: it unloads the module"])


def test_tests_that_unload_the_module_are_counted_and_named(run: Run) -> None:
    """The probe is off from there on, be it in the test or in its teardown."""
    result = run(
        """
@pytest.fixture
def unloads(session):
    yield
    session.open.blind = True

def test_a(play, session):
    session.open.blind = True
    play("good")

def test_b(play, unloads): play("good")

def test_c(play): play("good")
"""
    )
    result.assert_outcomes(passed=3)
    names = "test_toy.py::test_a, test_toy.py::test_b"
    result.stdout.fnmatch_lines([f"*not watched from where they unload*: 2 tests: {names}"])


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [('"lots", reason="x"', "no such fault: lots"), ('"lost"', "wrong_wakeups needs a reason")],
)
def test_mark_that_means_nothing_is_a_usage_error(run: Run, mark: str, complaint: str) -> None:
    """Before anything runs."""
    result = run(f"@pytest.mark.wrong_wakeups({mark})\ndef test_a(): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert complaint in result.stderr.str() + result.stdout.str()
