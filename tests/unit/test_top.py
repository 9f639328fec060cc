# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric top`: lines of the module's list, their order, the table, the JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from kfabric.top import command, guest, table
from kfabric.top.objects import ObjectCounts, decode, order, parse
from kfabric.trace.summary import percentile

LINES = """\
domain id=2 parent=0 set=0 pid=812 comm=pingpong unexp_msg_cnt=0 completions=9 latency=0,0,4
wait id=3 parent=1 set=0 pid=812 comm=ping\\040pong signals=497 wakes=490 overtaken=1 spurious=0 \
timeouts=2 interrupts=3 handed_on=0 overruns=0 deepest_fill=2 sleeps=491 asleep=1 most_asleep=1 \
asleep_ns=2500000 longest_ns=1500000 latency=0,0,0,0,0,0,0,0,0,0,0,0,480,10,0
cq id=4 parent=2 set=3 pid=812 comm=ping\\040pong completions=9 errors=0 signals=0 wakes=0
cq id=5 parent=2 set=0 pid=9 comm=x signals=3 wakes=3 asleep=1 asleep_ns=9 longest_ns=7
"""


def seen() -> list[ObjectCounts]:
    """The objects of LINES."""
    return parse(LINES)


def test_lines_are_taken_apart() -> None:
    """Class, ids, who, and values by name; names with blanks survive."""
    _, wait, member, _ = seen()
    assert (wait.name, wait.comm, wait.pid) == ("wait set 3", "ping pong", 812)
    assert wait.number("signals") == 497 and wait.latency[12] == 480
    assert (member.owner, member.parent, member.latency) == (3, 2, ())
    assert member.number("longest_ns") == 0
    assert decode(json.loads(json.dumps(wait.encode()))) == wait


def test_what_is_waited_on_longest_comes_first() -> None:
    """By the age of the oldest sleep, then by all sleep."""
    assert [one.id for one in order(seen())] == [3, 5, 2, 4]


def test_percentile_is_an_upper_bound() -> None:
    """Of a histogram by powers of two; nothing measured is 0."""
    assert percentile(seen()[1].latency, 0.5) == 2**13
    assert percentile(seen()[1].latency, 0.99) == 2**14
    assert percentile((), 0.5) == percentile((0, 0), 0.5) == 0


def history() -> table.History:
    """Two looks, a second apart; the last object has gone between them."""
    found = table.History()
    found.add(seen(), 1.0)
    later = parse(LINES.replace("signals=497", "signals=507"))
    found.add(later[:-1], 2.0)
    return found


def test_rate_is_that_of_the_last_second() -> None:
    """Signals between two looks, over the time between them."""
    found = history()
    assert found.rate(found.now[0]) == 10
    assert [one.id for one in found.now] == [3, 2, 4]


def test_the_end_shows_what_was_ever_seen() -> None:
    """Objects that have gone as of their last look; the quiet ones as a number."""
    lines = list(table.plain(history()))
    assert [line.split()[-4:] for line in lines[1:2]] == [["3", "ping", "pong", "(812)"]]
    assert "CQ 5" in lines[2] and "7ns" in lines[2]
    assert lines[3] == "besides: 2 objects without waiters"


def test_live_table_names_heads_and_objects() -> None:
    """Rendered by rich, cut to the rows that fit."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=240)
    console.print(table.live(history(), 2.0, rows=1))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "kfabric top: 2 s, 3 objects, 1 thread asleep" in text
    assert "wait set 3" in text and "1.5ms" in text and "CQ 4" not in text


def test_json_has_every_object(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each look, ordered, flat."""
    display = command.Display(as_json=True)
    display.add({"seconds": 1.5, "objects": [one.encode() for one in seen()]})
    display.finish()
    told = json.loads(capsys.readouterr().out)
    assert told["seconds"] == 1.5
    assert [one["id"] for one in told["objects"]] == [3, 5, 2, 4]
    assert told["objects"][0]["latency"][12] == 480


def test_looks_are_written_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a command runs, and its status is the result."""
    objects = tmp_path / "objects"
    objects.write_text(LINES)
    monkeypatch.setattr(guest, "OBJECTS", objects)
    monkeypatch.setattr(guest, "prepare", lambda: None)
    output = tmp_path / "out"
    words = [f"--output={output}", "--interval=0.01", "--"]
    assert guest.main([*words, "sh", "-c", "sleep 0.1; exit 7"]) == 7
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(lines) > 1
    assert all([one["id"] for one in line["objects"]] == [3, 5, 2, 4] for line in lines)
    assert guest.main([f"--output={output}", "--duration=0.02"]) == 0
    assert guest.main([*words[:1], "--duration=0.02", "--", "sleep", "30"]) == guest.TIMED_OUT


def test_missing_modules_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file to read: an error and not an empty table."""
    monkeypatch.setattr(guest, "OBJECTS", tmp_path / "absent")
    monkeypatch.setattr(guest, "prepare", lambda: None)
    assert guest.main([f"--output={tmp_path / 'out'}"]) != 0


@pytest.mark.parametrize("words", [[], ["--interval=0", "--", "true"]])
def test_words_that_make_no_sense(words: list[str]) -> None:
    """A guest needs a command; looks need time between them."""
    with pytest.raises(SystemExit):
        command._parse(words)
