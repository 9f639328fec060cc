# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The gallery's host side: cutting runs out of a recording, and judging them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from queue_scenes import NAMES, US, WAITER, WAITER_2, WAKER, Scene

from kfabric.commands import gallery
from kfabric.errors import ExitStatus
from kfabric.gallery import check, guest, host
from kfabric.gallery.cut import FullRecording, Run
from kfabric.gallery.entries import BY_NAME, ENTRIES, HEALTHY, KINDS, RACES
from kfabric.recording import HEAD, RECORDS
from kfabric.recording.records import WaitRecord, WorkRecord

KMOD = Path(__file__).parents[1] / "gallery/kmod"
TIMEOUT = 250_000


def lost(start: int = 0) -> Scene:
    """The waiter sleeps beside what the waker published in silence."""
    scene = Scene()
    scene.wait(start + 50, slept=start + 60, timeout=start + TIMEOUT)
    scene.publish(start + 100)
    return scene


def healthy(start: int = 0) -> Scene:
    """The waiter is woken and takes it."""
    scene = Scene()
    scene.publish(start + 100)
    scene.call(start + 101)
    scene.wait(start + 50, slept=start + 60, wakes=(start + 101,), end=start + 104)
    scene.take(start + 105)
    return scene


def pack(record) -> bytes:
    """A record as the kernel part writes it."""
    values = {name: getattr(record, name, 0) for name in record.MEMBERS.split()}
    return record.FORMAT.pack(*(values | {"kind": record.KIND}).values())


def leave(directory: Path, *scenes: Scene, losses: int = 0) -> FullRecording:
    """A recording of scenes, one after the other."""
    chunks = [pack(record) for scene in scenes for record in scene.records]
    (directory / RECORDS).write_bytes(b"".join(chunks))
    head = {
        "t_stop": 10**12,
        "tallies": {},
        "threads": NAMES,
        "queues": {"1": "the_queue [gallery]", "2": "other_queue [gallery]"},
        "losses": {"ring": losses, "waits": 0, "queues": 0, "unpaired": 0},
    }
    (directory / HEAD).write_text(json.dumps(head))
    return FullRecording(directory)


def run_of(
    scene: Scene,
    first: int = 0,
    variant: str = "buggy",
    name: str = "waitqueue-active",
    **more: Any,
) -> Run:
    """What the guest tells of a scene."""
    times = [getattr(r, "t_begin", 0) or getattr(r, "t", 0) for r in scene.records]
    threads = {NAMES[tid]: tid for tid in (WAITER, WAKER)}
    return Run(
        variant,
        name,
        first,
        len(scene.records),
        0.1,
        begin=min(times),
        end=max(times) + US,
        threads=threads,
    )


def judged(directory: Path, scene: Scene, **more) -> check.Judged:
    """The verdict on a scene as a run."""
    one = run_of(scene, **more)
    return check.examine(one, leave(directory, scene).cut(one), BY_NAME.get(one.name))


def slow(after: int) -> Scene:
    """The waker is stopped between publishing and waking."""
    scene = Scene()
    scene.publish(100)
    scene.call(100 + after)
    scene.wait(50, slept=60, wakes=(100 + after,), end=104 + after)
    scene.take(105 + after)
    return scene


def test_healthy_thread_that_a_busy_host_stops_for_a_second_is_not_late(tmp_path) -> None:
    assert judged(tmp_path, slow(1_000_000), variant="healthy", name="softirq").complaints == ()


def test_healthy_thread_is_late_once_no_sleeper_would_have_waited_for_it(tmp_path) -> None:
    (complaint,) = judged(tmp_path, slow(11_000_000), variant="healthy", name="softirq").complaints
    assert "late" in complaint.lower()


def test_every_entry_is_one_file_of_the_module() -> None:
    names = [
        found
        for path in KMOD.glob("*.c")
        for found in re.findall(r'\.name = "([a-z-]+)"', path.read_text())
    ]
    assert sorted(names) == sorted(BY_NAME)


def test_every_race_of_the_module_is_searched() -> None:
    """Those that it plays unstepped, and no others."""
    entry = re.compile(r'\.name = "([a-z-]+)",\n(?:(?!^\};).*\n)*?\t\.race = true,', re.MULTILINE)
    races = [name for path in KMOD.glob("*.c") for name in entry.findall(path.read_text())]
    assert sorted(races) == sorted(RACES)


def test_every_healthy_kind_is_in_the_module() -> None:
    text = (KMOD / "healthy.c").read_text()
    assert re.findall(r'^\t\{ "([a-z-]+)", \{$', text, re.MULTILINE) == list(HEALTHY)


def test_output_of_an_earlier_run_is_removed_and_nothing_else(tmp_path) -> None:
    """--output may name a directory in which the user keeps other things."""
    mine = tmp_path / "notes/today.txt"
    theirs = [tmp_path / name / HEAD for name in ("guest", ENTRIES[0].name, KINDS[0])]
    for path in (mine, *theirs):
        path.parent.mkdir()
        path.write_text("x")
    host.clear(tmp_path)
    assert mine.exists() and [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_names_of_entries_are_unique() -> None:
    assert len(BY_NAME) == len(ENTRIES) >= 14


def test_a_play_is_read_from_what_the_module_says() -> None:
    line = {
        "variant": "buggy",
        "name": "herd",
        "first": 7,
        "records": 9,
        "seconds": 0.5,
        "losses": {},
    }
    output = "begin 100\nend 300\nthread waiter 11 1\nthread waiter-2 12 -110\n"
    one = Run.of({**line, "output": output})
    assert (one.begin, one.end, one.stuck) == (100, 300, False)
    assert one.threads == {"waiter": 11, "waiter-2": 12}
    assert Run.of({**line, "output": output + "stuck\n"}).stuck


def test_a_play_without_its_times_is_refused() -> None:
    with pytest.raises(ValueError, match="herd"):
        Run.of(
            {
                "variant": "buggy",
                "name": "herd",
                "output": "",
                "first": 0,
                "records": 0,
                "seconds": 0,
            }
        )


def test_cut_does_not_have_the_calls_of_other_runs(tmp_path) -> None:
    """A function that this run does not call would be one that was never called."""
    scene = lost()
    whole = leave(tmp_path, scene)
    whole.head["marks"] = {"gallery_publish": 7}
    assert whole.cut(run_of(scene)).recording().marked == {}


def test_plays_are_cut_at_their_own_records(tmp_path) -> None:
    first, second = healthy(), lost(10**6)
    runs = [run_of(first), run_of(second, first=len(first.records))]
    whole = leave(tmp_path, first, second)
    one, two = (whole.cut(p) for p in runs)
    assert set(one.recording().records) == set(first.records)
    assert set(two.recording().records) == set(second.records)
    assert two.head["tallies"] == {1: {"signals": 0, "wakes": 0, "begins": 1, "ends": 1}}


def test_what_began_before_a_play_is_not_its_own(tmp_path) -> None:
    scene = lost(1000)
    scene.publish(10, WAITER_2)
    one = replace(run_of(lost(1000)), begin=500 * US, records=len(scene.records))
    cut = leave(tmp_path, scene).cut(one)
    assert len(cut.chunks) == len(scene.records) - 1


def test_verdict_of_a_play_is_about_the_moment_that_it_names(tmp_path) -> None:
    """A wait that ends only then, to clean up, is open; later events are not in the cut."""
    scene = lost()
    scene.call(TIMEOUT + 100)
    one = replace(run_of(scene, name="folio-late"), judged=1000 * US)
    (wait,) = (
        record
        for record in leave(tmp_path, scene).cut(one).recording().records
        if isinstance(record, WaitRecord)
    )
    assert (wait.t_end, wait.ret, wait.ended) == (0, 0, 0)
    whole = leave(tmp_path, scene).cut(one)
    assert whole.head["t_stop"] == one.judged
    assert len(whole.chunks) == len(scene.records) - 1


def test_cut_keeps_the_names_of_work_items(tmp_path) -> None:
    """They are no queues, so no tally has their numbers; and an item that runs later is open."""
    scene = lost()
    scene.records.append(WorkRecord(2, 200 * US, WAITER, 200 * US, t_end=2000 * US))
    one = replace(run_of(scene), judged=1000 * US)
    recording = leave(tmp_path, scene).cut(one).recording()
    (work,) = (record for record in recording.records if isinstance(record, WorkRecord))
    assert (work.t_queued, work.t_end) == (200 * US, 0)
    assert recording.queues[work.queue] == "other_queue [gallery]"


def test_missing_records_are_noticed(tmp_path) -> None:
    scene = lost()
    one = run_of(scene, first=1)
    with pytest.raises(ValueError, match="records"):
        leave(tmp_path, scene).cut(one)


def test_a_bug_that_is_named_rightly_is_well(tmp_path) -> None:
    one = judged(tmp_path, lost())
    assert one.complaints == ()
    assert (one.waiter, one.waker, one.status) == ("waiter", "waker", ExitStatus.OK)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("late", "waker waker instead of kworker/"),
        ("one-wake-for-two", "waiter waiter instead of waiter-2"),
        ("herd", "lost instead of herd"),
        ("timer", "waker waker instead of softirq"),
        ("wrong-queue", "the finding does not say"),
    ],
)
def test_a_bug_that_is_misnamed_is_a_failure(tmp_path, name, complaint) -> None:
    one = judged(tmp_path, lost(), name=name)
    assert any(complaint in text for text in one.complaints), one.complaints
    assert one.status is ExitStatus.TEST_FAILED


def test_a_bug_that_is_not_found_is_a_failure(tmp_path) -> None:
    one = judged(tmp_path, healthy())
    assert one.complaints == ("nothing was found",)
    assert one.status is ExitStatus.TEST_FAILED


def test_an_alarm_on_a_repaired_twin_is_a_fault(tmp_path) -> None:
    one = judged(tmp_path, lost(), variant="fixed")
    assert one.complaints[0].startswith("false alarm: LOST")
    assert one.status is ExitStatus.FAULT_FOUND


def test_a_silent_twin_is_well(tmp_path) -> None:
    assert judged(tmp_path, healthy(), variant="fixed").status is ExitStatus.OK


def test_lost_records_leave_nothing_verified(tmp_path) -> None:
    scene = lost()
    one = run_of(scene)
    found = check.examine(one, leave(tmp_path, scene, losses=1).cut(one), BY_NAME[one.name])
    assert found.status is ExitStatus.NOT_VERIFIED
    own = replace(one, losses={"ring": 0, "waits": 0, "queues": 0, "unpaired": 0})
    unharmed = check.examine(own, leave(tmp_path, scene, losses=1).cut(own), BY_NAME[one.name])
    assert unharmed.status is ExitStatus.OK
    assert check.status([found, judged(tmp_path, lost())]) is ExitStatus.NOT_VERIFIED


def test_alarms_outweigh_misnamed_bugs(tmp_path) -> None:
    alarm = judged(tmp_path, lost(), variant="fixed")
    misnamed = judged(tmp_path, lost(), name="herd")
    assert check.status([misnamed, alarm]) is ExitStatus.FAULT_FOUND
    assert check.status([misnamed]) is ExitStatus.TEST_FAILED
    assert check.status([]) is ExitStatus.OK


class FakeTracer:
    """Loses a record in each of its first plays."""

    def __init__(self, bad_plays: int) -> None:
        self._bad = bad_plays
        self._lost = 0
        self._ring = [3, 0]

    def drain(self) -> int:
        taken, self._ring = self._ring[0], self._ring[1:] or [0]
        if not taken:
            self._ring = [3, 0]
        return taken

    def losses(self) -> dict[str, int]:
        return {"ring": self._lost}

    def play(self) -> None:
        if self._bad:
            self._bad -= 1
            self._lost += 1


def runner(tmp_path, monkeypatch, bad_plays: int, lines: list) -> guest.Runner:
    """A stage on which reading the entry's file is playing it."""
    tracer = FakeTracer(bad_plays)
    file = tmp_path / "gallery/buggy/herd"
    file.parent.mkdir(parents=True)
    file.write_text("begin 1\nend 2\n")
    monkeypatch.setattr(guest, "DEBUGFS", tmp_path)
    monkeypatch.setattr(guest, "ROUNDS", tmp_path / "rounds")
    read_text = Path.read_text

    def played(path: Path, *args, **kwargs) -> str:
        tracer.play()
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", played)
    return guest.Runner(cast(guest.Tracer, tracer), lines.append)


def test_a_play_that_lost_records_is_played_again(tmp_path, monkeypatch) -> None:
    lines: list = []
    runner(tmp_path, monkeypatch, 1, lines).run("buggy", "herd")
    again, line = lines
    assert again == {"again": "herd", "losses": {"ring": 1}}
    assert (line["tries"], line["losses"]) == (2, {"ring": 0})


def test_a_play_that_always_loses_records_says_so(tmp_path, monkeypatch) -> None:
    lines: list = []
    runner(tmp_path, monkeypatch, 9, lines).run("buggy", "herd")
    assert len(lines) == 3
    assert (lines[2]["tries"], lines[2]["losses"]) == (3, {"ring": 1})


def test_many_rounds_are_played_in_parts(tmp_path, monkeypatch) -> None:
    lines: list = []
    on = runner(tmp_path, monkeypatch, 0, lines)
    (tmp_path / "gallery/healthy").mkdir()
    (tmp_path / "gallery/healthy/timeout").write_text("begin 1\nend 2\n")
    on.run_rounds("timeout", 45_000)
    assert len(lines) == 3
    assert (tmp_path / "rounds").read_bytes() == b"5000"


@pytest.mark.parametrize(
    ("words", "names", "kinds"),
    [
        ("", list(BY_NAME), list(KINDS)),
        ("herd", ["herd"], []),
        ("herd --healthy locks kfi_wait", ["herd"], ["locks", "kfi_wait"]),
        ("--rounds 0", list(BY_NAME), []),
    ],
)
def test_entries_and_healthy_kinds_are_chosen_by_name(
    monkeypatch: pytest.MonkeyPatch, words: str, names: list[str], kinds: list[str]
) -> None:
    """All without a name; with names of entries no healthy kinds that are not named, too."""
    seen: list[object] = []
    monkeypatch.setattr(host, "run", lambda names, kinds, *_: seen.extend([names, list(kinds)]))
    gallery.main(words.split())
    assert seen == [names, kinds]
