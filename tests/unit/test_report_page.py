# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The page's text, as far as it can be judged without a browser (see tests/browser)."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from queue_scenes import NAMES, QUEUE, TIMEOUT, WAITER_2, Scene
from report_support import HOSTILE, TRACES, plain, recording_of, saved

from kfabric.commands import report as command
from kfabric.errors import ExitStatus, KfabricError
from kfabric.recording.records import Recording, count
from kfabric.report import load, write_page
from kfabric.report.markup import tag, text
from kfabric.report.numbers import Sums
from kfabric.report.words import duration

VOID = frozenset(("meta", "input", "wbr"))


class Reader(HTMLParser):
    """Checks that what is opened is closed; collects elements and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page_of(recording: Recording, directory: Path) -> tuple[str, Reader]:
    """The page of a recording, read."""
    path = write_page(load(saved(recording, directory)), directory)
    page = path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return page, reader


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_page_is_well_formed_and_has_each_id_once(path: Path, tmp_path: Path) -> None:
    """Of every recorded trace, good or bad."""
    _, reader = page_of(recording_of(path.stem), tmp_path)
    ids = [attrs["id"] for _, attrs in reader.seen if "id" in attrs]
    assert len(set(ids)) == len(ids)


def test_page_refers_to_nothing_outside(tmp_path: Path) -> None:
    """No address in it but its own findings' and the names of SVG's own vocabulary."""
    page, reader = page_of(recording_of("lost"), tmp_path)
    assert not [attrs for _, attrs in reader.seen if "src" in attrs]
    links = {attrs["href"] for _, attrs in reader.seen if "href" in attrs}
    assert links == {"#finding-1"}
    assert set(re.findall(r"https?://[^\"' ]*", page)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in page and "@import" not in page


def test_page_of_hostile_names_has_the_elements_of_any_other(tmp_path: Path) -> None:
    """Names change the text, never the markup."""
    _, usual = page_of(plain(), tmp_path / "usual")
    bad = replace(plain(name=HOSTILE), threads={11: HOSTILE}, stacks={1: (HOSTILE,)})
    _, hostile = page_of(bad, tmp_path / "hostile")
    elements = [[name for name, _ in page.seen if name != "wbr"] for page in (usual, hostile)]
    assert elements[0] == elements[1]


def test_finding_about_two_waits_shows_both(tmp_path: Path) -> None:
    """The wait that left with a wake-up, and the one that slept on."""
    scene = Scene()
    scene.publish(99)
    scene.call(100, sleepers=2)
    scene.wait(10, slept=20, wakes=(100,), end=105)
    scene.wait(30, WAITER_2, slept=40, timeout=TIMEOUT)
    records = tuple(scene.records)
    recording = Recording(
        records, tallies=count(records), threads=NAMES, queues={QUEUE: "q [m]"}, t_stop=10**9
    )
    page, _ = page_of(recording, tmp_path)
    words = re.sub("<[^>]*>", "", page)
    assert "threadwaiter/11, wait 1" in words
    assert "slept onwaiter-2/12, wait 1: asleep since 0.030 ms; returned -110 after 250 ms" in words


def test_empty_recording_has_a_page(tmp_path: Path) -> None:
    """Nothing was used: the page says so."""
    page, _ = page_of(Recording(()), tmp_path)
    assert "Nothing was recorded." in page and "None was used." in page


def test_attributes_and_text_are_escaped() -> None:
    """Quotes, brackets and control characters."""
    made = tag("td", text("<b>&\x07"), data_name="\" onclick='x'", class_=None)
    assert made == (
        '<td data-name="&quot; onclick=&#x27;x&#x27;">&lt;b&gt;&amp;\N{REPLACEMENT CHARACTER}</td>'
    )


def test_histogram_has_no_holes() -> None:
    """A power of two that nothing reached is a bar of height 0."""
    sums = Sums(plain(3, never=False).records)
    (numbers,) = sums.rows.values()
    numbers.latencies.append(1_000_000)
    bars = numbers.histogram()
    assert list(bars) == list(range(9, 20)) and sum(bars.values()) == 4
    assert bars[15] == 0 and bars[19] == 1


@pytest.mark.parametrize(
    ("ns", "words"),
    [(0, "0 ns"), (999, "999 ns"), (1500, "1.5 µs"), (2_000_000, "2 ms"), (3 * 10**9, "3 s")],
)
def test_durations_are_told_in_the_unit_that_fits(ns: int, words: str) -> None:
    """Three digits say enough."""
    assert duration(ns) == words


def test_command_makes_the_page_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page alone, or everything; the last line is the verdict."""
    directory = saved(recording_of("lost"), tmp_path)
    assert command.main([str(directory)]) == ExitStatus.FAULT_FOUND
    said = capsys.readouterr().out.splitlines()
    assert said[0] == str(directory / "report.html") and said[1].startswith("LOST: ")
    assert command.main([str(directory), "--all"]) == ExitStatus.FAULT_FOUND
    said = capsys.readouterr().out.splitlines()
    assert all(Path(line).exists() for line in said[:-1]) and len(said) == 5


def test_command_refuses_a_directory_without_a_recording(tmp_path: Path) -> None:
    """Wrong usage, in one line."""
    with pytest.raises(KfabricError, match=r"recording\.json"):
        command.main([str(tmp_path)])
