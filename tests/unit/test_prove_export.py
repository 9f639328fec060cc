# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A counterexample as a guest test, and the calls that stand for the threads of the scenarios."""

from __future__ import annotations

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kfabric import cli
from kfabric.errors import ExitStatus
from kfabric.prove import build, export, session
from kfabric.prove.export import NotExportable, Translation
from kfabric.prove.output import Finding, Scenario, Step
from kfabric.root import ROOT

NEEDS_GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this host")
SCENARIO = Scenario(
    "sread-two", "two read", ("Q3",), (4,), threads=("reader 1", "reader 2", "publisher")
)
ASLEEP = Finding("asleep", "reader 2 sleeps for ever")
CALLS = Translation(
    lines="cq = mock.cq()",
    threads={"reader 1": "read()", "reader 2": "cq.sread(1)", "publisher": "mock.inject(ep)"},
    check="reader_1.result()",
    sleeps="cq",
    publishes="ep",
)


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The translations are canned, unless the test is about the real ones."""
    if not request.node.get_closest_marker("skipif"):
        monkeypatch.setattr(export, "translations", lambda checkout: {"sread-two": CALLS})


def steps(*lines: str) -> list[Step]:
    """Steps of lines such as ``reader 1: hook D1``."""
    made = []
    for line in lines:
        thread, _, rest = line.partition(": ")
        op, _, thing = rest.partition(" ")
        made.append(Step(thread, op, thing))
    return made


def body(*lines: str, finding: Finding = ASLEEP) -> list[str]:
    """The lines of the exported test after those that open the objects."""
    text = export.guest_test(SCENARIO, finding, steps(*lines), "again", ROOT)
    ast.parse(text)
    inner = text.partition("    cq = mock.cq()\n\n")[2]
    return [line.strip() for line in inner.splitlines()]


def test_thread_is_held_at_the_hook_where_others_pass() -> None:
    """It is armed before the thread runs, and released when its turn comes."""
    assert body(
        "reader 1: lock queue",
        "reader 1: hook D1",
        "publisher: hook D3",
        "publisher: end ",
        "reader 1: sleep state of reader 1",
    ) == [
        'd1 = mock.hook("D1", cq)',
        "reader_1 = in_thread(read)",
        "d1.stopped()",
        "publisher = in_thread(lambda: mock.inject(ep))",
        "publisher.settle()",
        "d1.go()",
        "in_thread(lambda: cq.sread(1))",
        "reader_1.result()",
    ]


def test_woken_thread_is_held_after_its_sleep() -> None:
    """So that the waker ends first; the docstring says what no hook decides."""
    lines = (
        "reader 1: sleep state of reader 1",
        "publisher: update state of reader 1",
        "publisher: end ",
        "reader 1: hook D4",
        "reader 1: end ",
        "reader 2: sleep state of reader 2",
    )
    assert body(*lines) == [
        "reader_1 = in_thread(read)",
        "reader_1.at_rest()",
        'd4 = mock.hook("D4", cq)',
        "publisher = in_thread(lambda: mock.inject(ep))",
        "publisher.settle()",
        "d4.stopped()",
        "d4.go()",
        "reader_1.settle()",
        "in_thread(lambda: cq.sread(1))",
        "reader_1.result()",
    ]
    text = export.guest_test(SCENARIO, ASLEEP, steps(*lines), "again", ROOT)
    assert "From its wake-up to the hook D4, reader 1 runs beside publisher." in text


def test_woken_thread_that_stays_at_its_hook_is_armed_once() -> None:
    """It stands there already when its turn comes."""
    lines = body(
        "reader 1: sleep state of reader 1",
        "publisher: update state of reader 1",
        "publisher: end ",
        "reader 1: hook D4",
        "reader 2: end ",
        "reader 1: end ",
    )
    assert lines.count('d4 = mock.hook("D4", cq)') == lines.count("d4.go()") == 1
    assert lines.index("reader_2.settle()") < lines.index("d4.go()")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            ["reader 1: lock queue", "publisher: end ", "reader 1: end "],
            "publisher runs while reader 1 is at no hook, after: lock queue",
        ),
        (
            ["reader 1: hook D1", "reader 2: hook D1", "publisher: end ", "reader 1: end "],
            "reader 2 would stop at D1, where a thread stands already",
        ),
        (
            ["reader 1: hook D1", "reader 1: read x", "reader 1: hook D1", "publisher: end "],
            "reader 1 passes D1 before reader 1 would stop there",
        ),
        (
            ["reader 1: hook D6", "publisher: end "],
            "tests/prove/guest.toml names no object for the hook D6",
        ),
        (
            ["reader 1: sleep state of reader 1", "timer: end ", "reader 1: end "],
            "timer takes a turn, and no call of a test is that",
        ),
        (
            [
                "reader 1: sleep state of reader 1",
                "publisher: update state of reader 1",
                "publisher: end ",
                "reader 2: end ",
                "reader 1: end ",
            ],
            "no hook holds reader 1 from its wake-up to its next turn",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_hook_can_hold_is_not_exported(lines: list[str], reason: str) -> None:
    """With the reason in one line."""
    with pytest.raises(NotExportable) as refused:
        body(*lines)
    assert str(refused.value) == reason


def test_finding_that_a_guest_cannot_see_is_not_exported() -> None:
    """A race has no result that a call returns."""
    with pytest.raises(NotExportable, match="cannot see the finding race"):
        body("reader 1: end ", finding=Finding("race", "x"))


def test_allocation_that_fails_is_not_exported() -> None:
    """No hook makes it fail."""
    failing = [replace(step, value="1") for step in steps("reader 1: choice ")]
    with pytest.raises(NotExportable, match="an allocation that fails"):
        export.guest_test(SCENARIO, ASLEEP, failing, "again", ROOT)


def test_scenario_without_calls_is_not_exported() -> None:
    """The line names the file that lacks them."""
    with pytest.raises(NotExportable, match=r"guest\.toml has no calls for .* of poll-one"):
        export.guest_test(replace(SCENARIO, name="poll-one"), ASLEEP, [], "again", ROOT)


# --- The real scenarios ----------------------------------------------------------------------


@NEEDS_GCC
def test_calls_are_those_of_threads_that_exist() -> None:
    """Each scenario of guest.toml exists, and each of its threads has a call of Python."""
    known = {scenario.name: scenario for scenario in session.listing(build.of_kfabric(ROOT))}
    for name, translation in export.translations(ROOT).items():
        assert tuple(translation.threads) == known[name].threads, name
        for text in (translation.lines, translation.check, *translation.threads.values()):
            ast.parse(text.strip())


# The state is set after the look: see tests/mutants/state-after-look.patch.
HOOK = "\t\tkfi_test_hook_point(KFI_HOOK_D1, w->queue->id);\n"
LATE = "\t\tset_current_state(TASK_INTERRUPTIBLE);\n"


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait core with a lost wake-up."""
    sources = build.of_kfabric(ROOT)
    (waitq,) = [path for path in sources.tested if path.name == "waitq.c"]
    text = waitq.read_text()
    assert HOOK in text
    (tmp_path / "waitq.c").write_text(text.replace(HOOK, HOOK + LATE))
    tested = [path for path in sources.tested if path != waitq]
    changed = replace(sources, tested=(*tested, tmp_path / "waitq.c"))
    monkeypatch.setattr(build, "of_kfabric", lambda checkout: changed)


LIKE_BY_HAND = """\
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)

    d1 = mock.hook("D1", cq)
    reader = in_thread(lambda: cq.sread(1, timeout=LIMIT))
    d1.stopped()
    publisher = in_thread(lambda: mock.inject(ep))
    publisher.settle()
    d1.go()
    assert len(reader.result()) == 1
"""
"""Compare tests/guest/test_cq.py, test_entry_that_comes_before_the_sleep_is_not_lost."""


@NEEDS_GCC
@pytest.mark.usefixtures("broken")
def test_lost_wake_up_becomes_the_test_that_was_written_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The test is exported from the exploration, and once more from the schedule it names."""
    file = tmp_path / "test_found.py"
    words = ["--output", str(tmp_path / "out"), "--export", str(file)]
    assert cli.main(["prove", "sread-one", *words]) == ExitStatus.FAULT_FOUND
    text = file.read_text()
    assert text.endswith(LIKE_BY_HAND)
    again = next(line for line in text.splitlines() if "--replay" in line).split()
    file.unlink()
    assert cli.main([*again[1:], *words]) == ExitStatus.FAULT_FOUND
    assert file.read_text().endswith(LIKE_BY_HAND)
    assert "exported: " in capsys.readouterr().out


@NEEDS_GCC
def test_nothing_found_is_nothing_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says so, and writes no file."""
    file = tmp_path / "test_found.py"
    words = ["--output", str(tmp_path / "out"), "--export", str(file)]
    assert cli.main(["prove", "sread-one", *words]) == ExitStatus.OK
    assert "not exported: no fault was found" in capsys.readouterr().out
    assert not file.exists()
