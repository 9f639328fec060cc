# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Going back to an event of a story: the words for it, its time, and the frames there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from queue_scenes import Scene

from kfabric import names
from kfabric.errors import SetupError, UsageError
from kfabric.guest import symbols as guest_symbols
from kfabric.replay import again, counter, execution, frames, gdb, moments, symbols
from kfabric.replay.execution import About, Execution
from kfabric.replay.frames import Kind, Row
from kfabric.replay.gdb import Stop
from kfabric.replay.moments import Moment
from kfabric.verdict.story import events_of, story

CLOCK = "ktime_get_mono_fast_ns"
KALLSYMS = f"""\
ffffffff81000000 T {CLOCK}
ffffffff81000090 T after_it
ffffffff81000200 T arch_rethook_trampoline
ffffffffc0001000 t ring\t[bell]
ffffffffc0002000 t bpf_prog_6deef7357e7b4530\t[bpf]
ffffffffc0002080 t bpf_prog_0123456789abcdef_on_wake\t[bpf]
"""
EVENTS = [
    [5_000, "      0.000 ms", "thread guest/12 begins wait 3 on guests [bell]"],
    [17_000, "      0.012 ms", "publication 7 (event on object 0) by thread porter/14 in process"],
    [18_000, "      0.013 ms", "thread guest/12 begins wait 37 on guests [bell]"],
]


@pytest.fixture
def kept(tmp_path: Path) -> Execution:
    """An execution with one story."""
    out = tmp_path / execution.OUT
    place = out / names.WAKEUPS / "test_bell"
    place.mkdir(parents=True)
    (place / names.EVENTS).write_text(json.dumps(EVENTS))
    (out / names.KALLSYMS).write_text(KALLSYMS)
    about = About("test", 1, "6.1.0", "QEMU", "", "", "", "", 640)
    return Execution(tmp_path, about)


@pytest.mark.parametrize(
    ("words", "time"),
    [
        ("wait 3", 5_000),
        ("wait 3 of guest/12", 5_000),
        ("publication 7", 17_000),
        ("publication 7 of porter/14", 17_000),
        ("at 0.012 ms", 17_000),
        ("wait 37", 18_000),
    ],
)
def test_event_is_found_by_its_words(kept: Execution, words: str, time: int) -> None:
    """The time is that of the record, and the clock's function ends where the next one begins."""
    moment = Moment.parse(words)
    assert (moment.function, str(moment)) == (CLOCK, words)
    assert moments.clock(kept, moment)[:2] == (time, 0xFFFFFFFF81000090)


@pytest.mark.parametrize("words", ["wait 4", "publication 7 of guest/12", "at 0.014 ms"])
def test_event_that_no_story_has_is_wrong_usage(kept: Execution, words: str) -> None:
    """A part of a number is none."""
    with pytest.raises(UsageError, match=f"no story of the execution has '{words}'"):
        moments.clock(kept, Moment.parse(words))


def test_execution_without_a_story_says_how_to_get_one(kept: Execution) -> None:
    """The verdict tells them."""
    (kept.directory / execution.OUT / names.WAKEUPS / "test_bell" / names.EVENTS).unlink()
    with pytest.raises(UsageError) as caught:
        moments.clock(kept, Moment.parse("wait 3"))
    assert "--verify-wakeups" in caught.value.line()


@pytest.mark.parametrize("text", ["wait", "wait x", "at 1 ms", "at 0.1 ms", "publication -1"])
def test_other_words_are_no_event(text: str) -> None:
    """They are refused while the command line is read."""
    with pytest.raises(ValueError, match="is not like"):
        Moment.parse(text)


def test_events_are_those_that_the_story_tells() -> None:
    """Each with its time, so that a line of the story leads to it."""
    scene = Scene()
    scene.wait(50, slept=60, timeout=250_000)
    scene.publish(100)
    ledger = scene.ledger()
    (finding,) = scene.verdict().findings
    told = story(ledger, finding) + "\n"
    events = events_of(ledger, finding)
    assert [time for time, _, _ in events] == sorted(time for time, _, _ in events)
    assert events and all(f"{after}  {text}\n" in told for _, after, text in events)


@pytest.mark.parametrize("recorded", [True, False])
def test_recorded_guest_leaves_the_times_of_events(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded: bool
) -> None:
    """And the symbols of its probes, which were loaded after the module."""
    monkeypatch.setenv(names.OUT, str(tmp_path))
    monkeypatch.delenv(names.RECORDED, raising=False)
    if recorded:
        monkeypatch.setenv(names.RECORDED, "1")
    place = tmp_path / "story"
    place.mkdir()
    guest_symbols.tell(place, iter([(5, "0.000 ms", "begins")]))
    assert (place / names.EVENTS).exists() == (tmp_path / names.KALLSYMS).exists() == recorded
    if recorded:
        assert json.loads((place / names.EVENTS).read_text()) == [[5, "0.000 ms", "begins"]]


def test_programs_have_frames_of_their_own(kept: Execution) -> None:
    """gdb names a place only in a section, and finds its caller by RBP."""
    programs = symbols.programs(kept.directory / execution.OUT / names.KALLSYMS)
    first, second = 0xFFFFFFFFC0002000, 0xFFFFFFFFC0002080
    assert programs == [range(first, second), range(second, second + 4096)]
    call = (Kind.CALL, frames._BP, 16, frames._PREV_SP, -16)
    assert frames.of_programs(programs) == [
        Row(first, *call),
        Row(second, *call),
        Row(second + 4096, Kind.END),
    ]
    elf = symbols.elf([("on_wake", second)], b"", programs)
    assert elf.count(b".bpf0") == elf.count(b".bpf1") == 1


def test_frames_of_the_tracer_are_left_out(kept: Execution) -> None:
    """They keep their numbers; what a probe of the return hides is not guessed."""
    inner = f"#0  0xffffffff81000000 in {CLOCK} ()\n#1  0xffffffffc0002010 in bpf_prog_6d ()\n"
    rest = "#2  0xffffffffc0001004 in ring ()\n"
    hidden = "#3  0xffffffff81000200 in some_function ()\n#4  0xffffffff8100 in other ()\n"
    ours = gdb._INNER.format(2) + rest
    assert gdb.without_tracer(kept, inner + rest) == ours
    assert gdb.without_tracer(kept, inner + rest + hidden) == ours + gdb._HIDDEN
    assert gdb.without_tracer(kept, inner) == inner


def test_plugin_looks_for_a_value_only_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An older QEMU lets no plugin read registers."""
    monkeypatch.setattr(counter.plugins, "ensure", lambda _: Path("/p.so"))
    board = tmp_path / "calls"
    assert ",value=" not in counter.Counter(board, 16).argv()[1]
    assert counter.Counter(board, 16, value=9, end=32).argv()[1].endswith(",value=9,end=0x20")
    board.write_bytes(counter.BOARD.pack(40, 0, 17, 5))
    assert counter.Counter(board, 16).calls() == 40
    assert counter.Counter(board, 16).returned() == 17
    assert counter.Counter(board, 16).others() == 5
    assert counter.Counter(board, 16, other=32, at=7).argv()[1].endswith(",other=0x20,at=7")


@pytest.mark.parametrize("returned", [0, 3])
def test_moment_is_the_call_that_returned_its_time(
    monkeypatch: pytest.MonkeyPatch, kept: Execution, returned: int
) -> None:
    """W1: the first replay finds the call, the second one stops there."""
    asked: list[tuple[int, int]] = []
    stops: list[Stop] = []

    @contextlib.contextmanager
    def replaying(
        _: Execution, _function: int = 0, near: int = 0, value: int = 0, end: int = 0
    ) -> Iterator[Any]:
        assert not near
        asked.append((value, end))
        count = SimpleNamespace(returned=lambda: returned, calls=lambda: 0)
        machine = SimpleNamespace(
            finish=lambda _: None, kept_awake=contextlib.nullcontext, debugger=""
        )
        yield SimpleNamespace(machine=machine, place=None, counter=count)

    def look(_commands: object, stop: Stop, _seconds: float) -> str:
        stops.append(stop)
        return "#0  0xffffffffc0001004 in ring ()\n"

    monkeypatch.setattr(again, "replaying", replaying)
    monkeypatch.setattr(gdb, "connecting", lambda *_: [])
    monkeypatch.setattr(gdb, "look", look)
    moment = Moment.parse("publication 7")
    if not returned:
        with pytest.raises(SetupError, match="has not shown the time of publication 7"):
            again.look(kept, moment, 1.0)
        return
    assert again.look(kept, moment, 1.0) == "#0  0xffffffffc0001004 in ring ()\n"
    assert asked == [(17_000, 0xFFFFFFFF81000090), (0, 0)]
    assert stops == [Stop(0xFFFFFFFF81000000, returned - 1)]
