# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The summary of a trace, and its table."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from kfabric.recording.records import WaitRecord
from kfabric.trace import table
from kfabric.trace.summary import (
    Row,
    Stuck,
    Summary,
    by_name,
    current_stack,
    decode,
    parse_stack,
    sleeping_stack,
    spread,
    stuck,
)

READERS = Row(
    name="queue slept on in pipe_read",
    number=7,
    address=0xFFFF888001234560,
    waits=499,
    slept=499,
    wakes=500,
    calls=503,
    found=499,
    spurious=5,
    timeouts=2,
    deepest=3,
    latency=(0,) * 14 + (1, 2, 96),
)
QUIET = Row(name="queue woken in pipe_release", number=8, calls=11)
STUCK = Stuck(7, READERS.name, 812, 811, "reader", 4_200_000_000, ("pipe_read+0x329",), wakes=3)


def test_shares_and_percentiles() -> None:
    """Of what was counted; of nothing they are 0."""
    assert READERS.wakes_per_call == 500 / 499
    assert READERS.spurious_share == 0.01
    assert READERS.percentile(0.01) == 2**15
    assert READERS.percentile(0.5) == 2**17
    empty = Row("x")
    assert (empty.wakes_per_call, empty.spurious_share, empty.percentile(0.5)) == (0, 0, 0)


def test_histogram_ends_with_its_last_entry() -> None:
    """Thirty-two buckets for each queue, most of them empty, are a waste of a line."""
    assert spread([0, 3, 0, 1, 0, 0]) == (0, 3, 0, 1)
    assert spread([0, 0]) == ()


def test_queues_of_one_name_are_one_row() -> None:
    """Sums, but for the deepest queue."""
    other = Row(READERS.name, 9, waits=1, slept=1, deepest=5, latency=(1,))
    (row,) = by_name([READERS, other])
    assert (row.waits, row.slept, row.deepest, row.queues) == (500, 500, 5, 2)
    assert row.latency[0] == 1 and row.latency[16] == 96


def test_waits_that_have_not_ended_are_waits() -> None:
    """The kernel part counts a wait at its end; a thread that still sleeps has waited, too."""
    open_waits = [WaitRecord(7, 1, 812, sleeps=2), WaitRecord(7, 1, 813)]
    row = Row("a queue", 7, waits=3, slept=1, deepest=2).with_open(open_waits)
    assert (row.waits, row.slept, row.deepest) == (5, 2, 2)


def test_busiest_comes_first() -> None:
    """In any order of the rows."""
    assert [row.name for row in by_name([QUIET, READERS])] == [READERS.name, QUIET.name]


def test_summary_survives_its_file() -> None:
    """It is read as it was written."""
    summary = Summary(
        rows=(READERS,),
        stuck=(STUCK,),
        losses={"ring": 0},
        load_seconds=9.5,
        seconds=3.25,
        steps={"compile": 8.0},
        missing=("siw",),
    )
    assert decode(json.loads(json.dumps(asdict(summary)))) == summary


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0ns"),
        (870, "870ns"),
        (1500, "1.5µs"),
        (131072, "131µs"),
        (8.4e6, "8.4ms"),
        (4.2e9, "4.2s"),
        (75e9, "75s"),
    ],
)
def test_durations_are_short(ns: float, text: str) -> None:
    """Two or three digits and a unit."""
    assert table.duration(ns) == text


def test_bars_show_what_is_there_at_all() -> None:
    """One of a thousand still has a bar; values outside are in the first or last column."""
    assert table.bars(()) == ""
    assert table.bars((0,) * 12 + (1000, 0, 1)) == " █▁     "
    assert table.bars((5,) + (0,) * 30 + (5,)) == "█      █"


def test_plain_table_tells_every_number() -> None:
    """In the order of its heads, the name at the end."""
    head, line, rest = table.plain([READERS, QUIET])
    assert head.split()[:4] == ["waits", "slept", "calls", "wakes"]
    expected = ["499", "499", "503", "500", "1.00", "1%", "2", "3", "131µs", "131µs"]
    assert line.split()[:10] == expected
    assert line.endswith("queue slept on in pipe_read")
    assert rest == "in addition: 11 wake calls on 1 queue without sleepers"


def test_long_tables_say_what_they_leave_out() -> None:
    """No row vanishes without a word."""
    rows = [Row(f"queue {number}", number, waits=1) for number in range(table.ROWS_LIMIT + 3)]
    assert list(table.plain(rows))[-1] == "and 3 more names"


def test_waits_that_nobody_ended_come_with_age_and_stack() -> None:
    """The oldest first."""
    younger = Stuck(7, "log_wait", 5, 5, "", 1_000_000, ())
    lines = list(table.stuck_lines([younger, STUCK]))
    assert lines[0] == "never ended: 2 waits"
    assert lines[1].strip() == (
        "reader (812) waits for 4.2s on queue slept on in pipe_read, woken 3 times in vain"
    )
    assert lines[2].strip() == "pipe_read+0x329"
    assert lines[3].strip() == "thread 5 waits for 1.0ms on log_wait"


def test_losses_are_shown() -> None:
    """Nothing that was counted with losses is verified."""
    assert table.verdict_line(Summary(losses={"ring": 0})) == "complete: no record was lost"
    line = table.verdict_line(Summary(losses={"ring": 5, "waits": 0, "queues": 1}))
    assert line == "not verified: the tracer lost records (5 ring, 1 queues)"
    assert list(table.report(Summary(missing=("siw",))))[1].startswith("not found: siw")


STACK = """[<0>] pipe_read+0x329/0x450
[<0>] kfi_waitq_sleep+0x4f/0x120 [kfabric]
[<0>] entry_SYSCALL_64_after_hwframe+0x6e/0xd8
"""


def test_stack_of_a_thread_is_read_as_frames() -> None:
    """As they are written in recordings."""
    assert parse_stack(STACK) == (
        "pipe_read+0x329",
        "kfi_waitq_sleep+0x4f [kfabric]",
        "entry_SYSCALL_64_after_hwframe+0x6e",
    )
    assert parse_stack("") == ()


@pytest.mark.parametrize(("state", "sleeps"), [("S", True), ("D", True), ("R", False)])
def test_only_a_sleeping_thread_has_a_stack_of_its_sleep(
    tmp_path: Path, state: str, sleeps: bool
) -> None:
    """The stack of a running thread changes while it is read."""
    place = tmp_path / "7/task/7"
    place.mkdir(parents=True)
    (place / "stack").write_text(STACK)
    (tmp_path / "7/stat").write_text(f"7 (a) R b) {state} 1 7 7 0\n")
    assert bool(sleeping_stack(7, tmp_path)) is sleeps
    assert sleeping_stack(8, tmp_path) == ()


def test_thread_that_is_gone_keeps_the_stack_it_began_with(tmp_path: Path) -> None:
    """A command that has ended takes its threads along."""
    assert current_stack(1, 2, tmp_path) == ()
    record = WaitRecord(queue=7, t_begin=1000, tid=2, tgid=4_000_000, wakes=1)
    found = stuck(record, "log_wait", {2: "reader"}, ("pipe_read+0x329",), 5000)
    assert (found.stack, found.age_ns, found.comm) == (("pipe_read+0x329",), 4000, "reader")
