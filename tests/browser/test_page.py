# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The report's page in a real browser: its numbers, its safety, its picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import shown
from report_support import HOSTILE, plain, recording_of, saved
from webdriver import Browser, file_url

from kfabric.recording.records import Recording
from kfabric.report import Material, load, write_page
from kfabric.verdict.ledger import Ledger
from kfabric.verdict.stats import latency, row
from kfabric.verdict.story import story
from kfabric.verdict.verdict import Kind

RECORDINGS = ("good", "lost", "lost-for-ever", "herd", "timeout-ready", "recorded-pingpong")

_NUMBERS = """
return Object.fromEntries([...document.querySelectorAll("#queues tbody tr")].map(row => [
    row.dataset.queue,
    Object.fromEntries([...row.querySelectorAll("td[data-name]")].map(
        cell => [cell.dataset.name, Number(cell.dataset.value)])),
]));
"""
_FINDINGS = """
return [...document.querySelectorAll("#findings article")].map(card => [
    card.dataset.kind, ...["queue", "tid", "wait", "seq"].map(name => Number(card.dataset[name])),
    card.innerText,
]);
"""
_SHAPES = """
return [...document.querySelectorAll("#timeline rect.wait")].map(shape => ({
    key: ["queue", "tid", "wait"].map(name => Number(shape.dataset[name])),
    from: Number(shape.dataset.from), to: shape.dataset.to ?? null,
    right: Number(shape.getAttribute("x")) + Number(shape.getAttribute("width")),
    shown: shape.style.display !== "none",
}));
"""
_VIEW = """
const svg = document.getElementById("timeline");
return [Number(svg.dataset.viewFrom), Number(svg.dataset.viewTo)];
"""


def opened(browser: Browser, recording: Recording, directory: Path) -> Material:
    """Show the page of a recording; what it was made of."""
    material = load(saved(recording, directory))
    browser.go(file_url(write_page(material, directory)))
    return material


def recording(name: str) -> Recording:
    """A recorded trace, or waits on a plain queue."""
    return plain() if name == "plain" else recording_of(name)


def expected(ledger: Ledger, findings: Any) -> dict[str, dict[str, float]]:
    """The queues' numbers, counted from the ledger."""
    numbers: dict[str, dict[str, float]] = {}
    for queue in ledger.queues.values():
        line = row(ledger, "", queue.id, 0, findings)
        wakes = queue.all_wakes()
        times = latency(w.t_running - w.t_wake for w in wakes if w.t_waking and w.t_running)
        signals = queue.every_signal()
        numbers[str(queue.id)] = {
            "waits": line.waits,
            "never": sum(not wait.finished for wait in queue.waits),
            "timeouts": line.timeouts,
            "signals": len(signals),
            "wakes": len(wakes),
            "spurious": line.spurious,
            "lost": line.lost,
            "deepest": max((signal.record.sleepers for signal in signals), default=0),
            "p50_ns": times.p50,
            "p99_ns": times.p99,
            "max_ns": times.max,
        }
    return numbers


@pytest.mark.parametrize("name", [*RECORDINGS, "plain"])
def test_page_has_the_numbers_of_the_ledger(browser: Browser, tmp_path: Path, name: str) -> None:
    """Read back from the page, every number is what the ledger says."""
    material = opened(browser, recording(name), tmp_path)
    wanted = expected(material.ledger, material.verdict.findings)
    shown = browser.run(_NUMBERS)
    assert {q: {n: shown[q][n] for n in numbers} for q, numbers in wanted.items()} == wanted
    assert set(shown) == set(wanted)
    sums = browser.run("return {...document.getElementById('sums').dataset}")
    assert int(sums["waits"]) == sum(numbers["waits"] for numbers in wanted.values())
    assert int(sums["findings"]) == len(material.verdict.findings)
    outcome = browser.run("return document.getElementById('verdict').dataset.outcome")
    assert outcome == material.verdict.outcome.value


def test_expression_of_the_document_is_a_number(browser: Browser, tmp_path: Path) -> None:
    """As it is printed there: the wakes of queue 6, which this recording has, too."""
    material = opened(browser, recording("recorded-pingpong"), tmp_path)
    wakes = browser.run("return " + shown("tests/browser/test_page.py").text)
    assert int(wakes) == len(material.ledger.queues[6].all_wakes())


@pytest.mark.parametrize("name", [*RECORDINGS, "plain"])
def test_page_tells_every_finding(browser: Browser, tmp_path: Path, name: str) -> None:
    """Each with its kind, wait and publication, and the verdict's own words."""
    material = opened(browser, recording(name), tmp_path)
    findings = [
        *material.verdict.findings,
        *(note for note in material.verdict.notes if note.kind is not Kind.OVERTAKEN),
    ]
    shown = browser.run(_FINDINGS)
    assert [tuple(found[:5]) for found in shown] == [
        (f.kind.value, f.queue, f.tid, f.wait, f.seq) for f in findings
    ]
    sentence = browser.run("return document.getElementById('verdict').innerText")
    for n, (found, finding) in enumerate(zip(shown, findings, strict=True)):
        assert finding.text in (found[5] if n else sentence + found[5])
    stories = browser.run(
        "return [...document.querySelectorAll('#findings pre.story')].map(s => s.textContent)"
    )
    assert stories == [story(material.ledger, finding).partition("\n")[2] for finding in findings]
    if name == "lost":
        assert findings[0].kind is Kind.LOST


def test_page_shows_stacks_of_sleeper_and_waker(browser: Browser, tmp_path: Path) -> None:
    """A wait that never ended shows the place of its sleep."""
    opened(browser, plain(), tmp_path)
    never = "return document.querySelector('#never tbody tr')."
    assert browser.run(never + "dataset.wait") == "4"
    assert browser.run(never + "querySelector('td[data-name=age_ns]').dataset.value") == "900000"
    assert browser.run(never + "querySelector('pre.sleeper').textContent").split("\n") == [
        "schedule+0x5a",
        "pipe_read+0x12",
        "ksys_read+0x6f",
    ]


@pytest.mark.parametrize("name", [*RECORDINGS, "plain"])
def test_picture_has_every_wait_at_its_time(browser: Browser, tmp_path: Path, name: str) -> None:
    """Begin and end in microseconds; a wait that never ended reaches the picture's end."""
    material = opened(browser, recording(name), tmp_path)
    browser.run("document.querySelector('button[data-act=all]').click()")
    shapes = {tuple(shape["key"]): shape for shape in browser.run(_SHAPES)}
    waits = {
        (queue.id, wait.record.tid, wait.number): wait
        for queue in material.ledger.queues.values()
        for wait in queue.waits
    }
    assert set(shapes) == set(waits)
    first = min(
        [wait.record.t_begin for wait in waits.values()]
        + [s.record.t for q in material.ledger.queues.values() for s in q.every_signal()]
    )
    for key, wait in waits.items():
        assert shapes[key]["from"] == pytest.approx((wait.record.t_begin - first) / 1000)
        if wait.finished:
            to = pytest.approx((wait.record.t_end - first) / 1000)
            assert float(shapes[key]["to"]) == to
        else:
            right = browser.run("const d = document.getElementById('timeline').dataset;"
                                "return Number(d.left) + Number(d.width)")  # fmt: skip
            assert shapes[key]["to"] is None and shapes[key]["right"] == pytest.approx(right)


def test_picture_moves_and_zooms(browser: Browser, tmp_path: Path) -> None:
    """Buttons, keys, and the way from a finding to its moment."""
    opened(browser, recording_of("lost"), tmp_path)
    first = browser.run(_VIEW)
    assert browser.run("return document.querySelector('.wait.suspect').style.display") == ""
    browser.run("document.querySelector('button[data-act=all]').click()")
    whole = browser.run(_VIEW)
    assert whole[0] == 0 and whole[1] >= first[1]
    browser.run("document.querySelector('button[data-act=in]').click()")
    closer = browser.run(_VIEW)
    assert closer[1] - closer[0] == pytest.approx((whole[1] - whole[0]) / 2)
    browser.run(
        "document.getElementById('timeline').dispatchEvent("
        "new KeyboardEvent('keydown', {key: 'ArrowLeft'}))"
    )
    assert browser.run(_VIEW)[0] < closer[0]
    browser.run("document.querySelector('button[data-show-from]').click()")
    assert browser.run(_VIEW) == pytest.approx(first)


def test_page_needs_nothing_but_itself(browser: Browser, tmp_path: Path) -> None:
    """From a file, offline: one request, which is the page's own, and a silent console."""
    opened(browser, recording_of("recorded-pingpong"), tmp_path)
    assert browser.requests() == [file_url(tmp_path / "report.html")]
    assert browser.logs("browser") == []


def test_hostile_names_are_only_shown(browser: Browser, tmp_path: Path) -> None:
    """Threads, queues and symbols may be called what they like: nothing of it runs."""
    hostile = replace(
        plain(name=f"q{HOSTILE}"),
        threads={11: f"t{HOSTILE}", 12: "w\x1b[31m\x00"},
        stacks={1: (f"f{HOSTILE}+0x1",), 2: ()},
    )
    title = "kfabric: NOT JUDGED: 4 waits traced"
    opened(browser, hostile, tmp_path)
    assert browser.run("return document.title") == title
    assert browser.run("return document.images.length + document.scripts.length") == 1
    shown = browser.run("return document.body.textContent")
    for letter in "qtf":
        assert f"{letter}{HOSTILE}" in shown
    assert "\x1b" not in shown
    assert browser.logs("browser") == []
    # Should markup get in all the same, the page's own policy stops it.
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'document.title = 2';"
        "document.body.append(s); document.body.append(Object.assign(new Image(), {src: '/x'}))"
    )
    assert browser.run("return document.title") == title
    assert all("Content Security Policy" in entry["message"] for entry in browser.logs("browser"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_can_be_read_in_light_and_dark(browser: Browser, tmp_path: Path, scheme: str) -> None:
    """Text stands out from its background by 4.5 to 1 at least, as WCAG asks."""
    browser.emulate(scheme)
    opened(browser, recording_of("lost"), tmp_path)
    colors = browser.run(
        "return ['body', '#verdict', '.soft', '#findings dd', '#findings dt'].map(name => {"
        "const node = document.querySelector(name);"
        "return [getComputedStyle(node).color, getComputedStyle(document.body).backgroundColor]})"
    )
    light = [[_luminance(color) for color in pair] for pair in colors]
    assert (light[0][1] > 0.5) == (scheme == "light")
    for text, back in light:
        assert (max(text, back) + 0.05) / (min(text, back) + 0.05) >= 4.5


def _luminance(color: str) -> float:
    """Of a colour like ``rgb(1, 2, 3)``, by WCAG."""
    parts = [int(part) / 255 for part in color.strip("rgb()").split(",")]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_page_can_be_read_without_seeing_it(browser: Browser, tmp_path: Path) -> None:
    """Headers say what they head, pictures have words, buttons names."""
    opened(browser, plain(), tmp_path)
    assert browser.run("return document.querySelectorAll('th:not([scope])').length") == 0
    said = browser.run(
        "return [...document.querySelectorAll('svg')].map(svg => svg.ariaLabel || "
        "document.getElementById(svg.getAttribute('aria-labelledby'))?.textContent)"
    )
    assert len(said) == 2 and all(said)
    assert "1.02 µs to 2.05 µs: 1" in said[1]
    names = browser.run("return [...document.querySelectorAll('button')].map(b => b.innerText)")
    assert names and all(names)


def test_histogram_counts_every_wake(browser: Browser, tmp_path: Path) -> None:
    """A bar for each power of two, as high as there are wakes between it and the next."""
    opened(browser, plain(5), tmp_path)
    bars = browser.run(
        "return [...document.querySelectorAll('.histogram rect')].map("
        "bar => ['from', 'to', 'count'].map(name => Number(bar.dataset[name])))"
    )
    # 1, 2, 4, 8 and 16 us.
    assert bars == [
        [512, 1024, 1], [1024, 2048, 1], [2048, 4096, 1], [4096, 8192, 1], [8192, 16384, 1],
    ]  # fmt: skip


def test_page_of_many_waits_stays_small_and_says_so(browser: Browser, tmp_path: Path) -> None:
    """The first thousands and the suspicious ones can be drawn; all are counted."""
    opened(browser, plain(6000), tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 4_000_000
    assert len(browser.run(_SHAPES)) < 100
    browser.run("document.querySelector('button[data-act=all]').click()")
    shapes = browser.run(_SHAPES)
    assert len(shapes) == 2001 and [7, 11, 6001] in [shape["key"] for shape in shapes]
    assert browser.run(_NUMBERS)["7"]["waits"] == 6001
    said = browser.run("return document.getElementById('left-out').textContent")
    assert "4,000 waits" in said
