# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Folded stacks: one line for each pair of stacks, with the time that it cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from report_support import TRACES, plain, recording_of

from kfabric.recording.records import Recording, StackRecord
from kfabric.report.folded import Folded, asleep_ns, function
from kfabric.verdict.ledger import build

LINE = "reader-2;ksys_read;pipe_read;schedule;--;__wake_up;pipe_write;ksoftirqd/1"


def lines(recording: Recording) -> dict[str, int]:
    """Line by line, what stands before the count and the count."""
    folded = Folded(build(recording), {}, recording.t_stop)
    for record in recording.records:
        folded.add(record)
    return {head: int(count) for head, _, count in (x.rpartition(" ") for x in folded.lines())}


def test_sleeps_with_the_same_stacks_are_one_line() -> None:
    """Sleeper outermost first, then the waker upside down; microseconds asleep.

    Three sleeps of 40 us and 1, 2 and 4 us until it ran; one that never ended.
    """
    assert lines(plain(3)) == {
        LINE: 127,
        "reader-2;ksys_read;pipe_read;schedule;--;[nobody]": 895,
    }


def test_order_of_a_wait_and_its_stacks_does_not_matter() -> None:
    """A stack's record may come before or after its wait, or in two parts."""
    recording = plain(3, never=False)
    backwards = replace(recording, records=tuple(reversed(recording.records)))
    assert lines(backwards) == lines(recording)
    parts = [
        part
        for record in recording.records
        for part in (
            (replace(record, waker=-1), replace(record, sleeper=-1))
            if isinstance(record, StackRecord)
            else (record,)
        )
    ]
    assert lines(replace(recording, records=tuple(parts))) == lines(recording)


def test_wait_without_stacks_stands_for_its_queue() -> None:
    """Without stacks in the recording the queue takes their place."""
    recording = plain(1, never=False)
    bare = replace(
        recording, records=tuple(r for r in recording.records if not isinstance(r, StackRecord))
    )
    assert lines(bare) == {"reader-2;[pipe_read];--;ksoftirqd/1": 41}


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_all_time_asleep_is_in_some_line(path: Path) -> None:
    """The counts add up to what the waits slept, but for the rounding."""
    recording = recording_of(path.stem)
    asleep = sum(
        asleep_ns(wait.record, recording.t_stop) // 1000
        for queue in build(recording).queues.values()
        for wait in queue.waits
    )
    found = lines(recording)
    assert asleep <= sum(found.values()) <= asleep + len(recording.records)


def test_names_cannot_break_a_line() -> None:
    """Semicolons separate, and the last space comes before the count."""
    recording = replace(plain(1, never=False), threads={11: "a b;c\n1", 12: ""})
    assert list(lines(recording)) == [
        "a_b_c_1;ksys_read;pipe_read;schedule;--;__wake_up;pipe_write;_"
    ]


@pytest.mark.parametrize(
    ("frame", "name"),
    [("schedule+0x5a", "schedule"), ("pipe_write+0x99 [fs]", "pipe_write"), ("0x12", "0x12")],
)
def test_frames_lose_their_offsets(frame: str, name: str) -> None:
    """Two places in one function are one box of a flame graph."""
    assert function(frame) == name
