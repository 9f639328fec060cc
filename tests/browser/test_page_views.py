# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The page as its readers use it: on a desk, on a phone, on paper, with a million waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from queue_scenes import NAMES, OTHER, QUEUE, US, WAITER_2, WAKER_2, Scene
from report_support import plain, recording_of, save_many, saved
from webdriver import Browser, file_url

from kfabric.recording.records import (
    Context,
    FClass,
    Recording,
    SignalRecord,
    WaitRecord,
    count,
)
from kfabric.report import Material, load, write_page
from kfabric.report.numbers import Sums

DESK, PHONE = 1280, 400
LONG = "queue slept on in p9_virtio_zc_request_of_a_long_name [9pnet_virtio]"


def recording(scene: Scene, stop: int = 2_000_000) -> Recording:
    """A scene's recording, up to ``stop``."""
    records = tuple(scene.records)
    return Recording(
        records, tallies=count(records), threads=NAMES, t_stop=stop * US,
        queues={QUEUE: "ulog_wq [ulog]", OTHER: LONG},
    )  # fmt: skip


def late() -> Recording:
    """A wait of 1016 ms among short ones; its publication comes 134 ms after its begin."""
    scene = Scene()
    for n in range(60):
        begin = 1000 + n * 3000
        scene.call(begin + 900, tid=WAKER_2, queue=OTHER)
        scene.wait(
            begin, WAITER_2, slept=begin + 50, wakes=(begin + 900,), end=begin + 950, queue=OTHER
        )
    scene.publish(334_000)
    scene.call(1_216_000)
    scene.wait(200_000, slept=200_100, wakes=(1_216_000,), end=1_216_100)
    scene.take(1_216_050)
    scene.wait(1_500_000, WAITER_2, slept=1_500_010, timeout=1_500_020, queue=OTHER)
    return recording(scene)


def lost(times: int = 1) -> Recording:
    """Waits of 520 ms; each ends at its limit although something was published."""
    scene = Scene()
    for n in range(times):
        begin = n * 1_000_000 + 50_000
        scene.wait(begin, slept=begin + 60, timeout=begin + 520_060)
        scene.publish(begin + 1000)
        scene.take(begin + 520_100)
    return recording(scene, times * 1_000_000)


def busy() -> Recording:
    """Thirty queues of two names, many threads, long names, and a wait that never ends."""
    names = {n: LONG if n < 28 else "queue slept on in p9_client_rpc [9pnet]" for n in range(1, 31)}
    threads = {100 + n: f"kworker/{n % 2}:{n}-events_freezable_power" for n in range(40)}
    records: list[WaitRecord | SignalRecord] = []
    numbers: Counter[int] = Counter()
    for n in range(300):
        queue, t, waker = 1 + n % 30, 10**6 + n * 90_000, 100 + n * 7 % 40
        numbers[queue] += 1
        records.append(SignalRecord(queue, t + 44_000, numbers[queue], sleepers=1, waker=waker,
                                    context=Context.PROCESS, cpu=n % 2))  # fmt: skip
        records.append(WaitRecord(
            queue, t, 100 + n % 40, fclass=FClass.QUEUE, t_slept=t + 3000, t_wake=t + 45_000,
            t_waking=t + 45_100, t_running=t + 46_000 + n * 100, t_end=t + 80_000, why=1, ended=1,
            seq=numbers[queue], waker=waker, context=Context.PROCESS, cpu=n % 2, sleeps=1, wakes=1,
            ret=-110 if queue == 30 else 0,
        ))  # fmt: skip
    open_wait = WaitRecord(3, 28_000_000, 100, fclass=FClass.QUEUE, t_slept=28_000_009, sleeps=1)
    records.append(open_wait)
    return Recording(
        tuple(records), tallies=count(records), threads=threads, queues=names, t_stop=30 * 10**6
    )


def opened(browser: Browser, recording: Recording, directory: Path, anchor: str = "") -> Material:
    """Show the page of a recording; what it was made of."""
    material = load(saved(recording, directory))
    browser.go(file_url(write_page(material, directory)) + anchor)
    return material


@pytest.fixture(params=[DESK, PHONE])
def sized(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Browser]:
    """The browser with the width of a desk's screen, then with that of a phone."""
    browser.resize(request.param)
    yield browser
    browser.resize(DESK)


# The first view.


def test_first_view_has_all_of_the_accused_wait(sized: Browser, tmp_path: Path) -> None:
    """Of a wait of 1016 ms its begin and end, the publication and the wake, with a margin."""
    opened(sized, late(), tmp_path)
    box, *shapes = sized.run(
        "const box = node => { const r = node.getBoundingClientRect();"
        " return [r.left, r.right, r.width, r.height]; };"
        "return ['.timeline', '.wait.suspect', '.mark.publish.suspect', '.signal.suspect',"
        " '.arrow.suspect'].map(name => box(document.querySelector(name)));"
    )
    wait = shapes[0]
    assert wait[2] > box[2] * 0.5
    for left, right, _, height in shapes:
        assert box[0] + 4 < left and right < box[1] - 4 and height > 0
    assert shapes[1][0] < shapes[2][0] and wait[0] < shapes[1][0]
    begin, end, *wait = sized.run(
        "const {viewFrom, viewTo} = document.getElementById('timeline').dataset;"
        "const {from, to} = document.querySelector('.wait.suspect').dataset;"
        "return [viewFrom, viewTo, from, to].map(Number)"
    )
    assert begin < wait[0] - 20_000 and wait[1] + 20_000 < end


def test_lanes_of_the_finding_are_the_first_ones(browser: Browser, tmp_path: Path) -> None:
    """The publication above its sleeper, however early other threads began."""
    opened(browser, late(), tmp_path)
    names = browser.run(
        "return [...document.querySelectorAll('#timeline text[data-lane]')]"
        ".map(t => t.firstChild.textContent)"
    )
    assert names == ["signals, CPU 0", "waiter/11", "waiter-2/12"]


# The verdict.


def test_headline_is_short_and_the_sentence_follows(sized: Browser, tmp_path: Path) -> None:
    """The whole line of the verdict, below a headline of one line, or two on a phone."""
    material = opened(sized, lost(), tmp_path)
    assert sized.run("return document.querySelector('h1').innerText") == (
        "LOST on ulog_wq: waiter slept 520 ms"
    )
    said = sized.run("return document.getElementById('sentence').innerText")
    assert said == material.verdict.line()
    lines = sized.run(
        "const h = document.querySelector('h1');"
        "return Math.round(h.offsetHeight / parseFloat(getComputedStyle(h).lineHeight))"
    )
    assert lines <= (1 if sized.run("return innerWidth") == DESK else 2)
    assert sized.run("return document.title") == "kfabric: LOST on ulog_wq: waiter slept 520 ms"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_only_a_verified_recording_is_green(browser: Browser, tmp_path: Path, scheme: str) -> None:
    """A fault is red. A status that the page does not know has the colour of a doubt."""
    browser.emulate(scheme)
    opened(browser, plain(), tmp_path)
    colour = "return getComputedStyle(document.querySelector('#verdict h1')).color"
    # Without marks nothing is judged.
    assert browser.run("return document.getElementById('verdict').dataset.status") == "not-judged"
    colours = {"not-judged": browser.run(colour)}
    for status in ("verified", "fault", "not-verified", "anything"):
        browser.run("document.getElementById('verdict').dataset.status = arguments[0]", status)
        colours[status] = browser.run(colour)
    greens = [status for status, value in colours.items() if _hue(value) == "green"]
    assert greens == ["verified"] and _hue(colours["fault"]) == "red"
    assert colours["not-verified"] == colours["not-judged"] == colours["anything"]


def _hue(colour: str) -> str:
    red, green, blue = (int(part) for part in colour.strip("rgb()").split(","))
    if green > red + 30 and green > blue + 30:
        return "green"
    return "red" if red > green + 60 and red > blue + 60 and abs(green - blue) < 60 else "other"


def test_counts_agree_with_their_nouns(browser: Browser, tmp_path: Path) -> None:
    """1 finding, 2 findings."""
    sums = "return document.getElementById('sums').innerText"
    opened(browser, lost(1), tmp_path / "one")
    assert browser.run(sums).startswith("1 wait, 0 signals, 0 wakes, 1 finding, 0 suspicions")
    opened(browser, lost(2), tmp_path / "two")
    assert browser.run(sums).startswith("2 waits, 0 signals, 0 wakes, 2 findings, 0 suspicions")


# Links.


def test_each_finding_has_a_link(browser: Browser, tmp_path: Path) -> None:
    """The link opens its story and shows its wait, of a finding that was not yet shown, too."""
    material = opened(browser, lost(25), tmp_path, "#finding-21")
    assert len(material.verdict.findings) == 25
    assert browser.run("return document.querySelectorAll('#findings article').length") == 25
    begin, end = browser.run(
        "const d = document.getElementById('timeline').dataset;"
        "return [Number(d.viewFrom), Number(d.viewTo)]"
    )
    assert begin < 20 * 10**6 < end and end - begin < 700_000
    shown = browser.run(
        "const card = document.getElementById('finding-21'), box = card.getBoundingClientRect();"
        "return [box.top < innerHeight && box.bottom > 0, card.querySelector('details').open,"
        " card.querySelector('h3 a').hash]"
    )
    assert shown == [True, True, "#finding-21"]
    links = browser.run(
        "return [...document.querySelectorAll('#findings h3 a')].map(a => a.hash.slice(1))"
    )
    ids = browser.run("return [...document.querySelectorAll('#findings article')].map(a => a.id)")
    assert links == ids and len(set(ids)) == 25


def test_first_findings_are_shown_and_others_on_demand(browser: Browser, tmp_path: Path) -> None:
    """The button says how many there are."""
    opened(browser, lost(25), tmp_path)
    cards = "return document.querySelectorAll('#findings article').length"
    assert browser.run(cards) == 10
    button = "document.querySelector('button[data-more=\"#findings\"]')"
    assert browser.run(f"return {button}.innerText") == "show 15 more rows"
    browser.run(f"{button}.click()")
    assert browser.run(cards) == 25 and browser.run(f"return {button}") is None


# The queues.

_SHOWN = """
const rows = [...document.querySelectorAll("#queues tbody tr")].filter(row => row.offsetHeight);
return rows.map(row => [
    row.dataset.queues ?? row.dataset.queue,
    Number(row.querySelector("[data-name=waits]").dataset.value), row.className,
]);
"""


def test_queues_are_grouped_and_unfold(browser: Browser, tmp_path: Path) -> None:
    """A line for each name, with the number of its queues; a click shows each of them."""
    opened(browser, busy(), tmp_path)
    assert browser.run(_SHOWN) == [["27", 271, ""], ["3", 30, ""]]
    button = "document.querySelectorAll('#queues button[data-members]')[1]"
    assert browser.run(f"return {button}.innerText") == "3 queues"
    browser.run(f"{button}.click()")
    single = [["28", 10, "member"], ["29", 10, "member"], ["30", 10, "member"]]
    assert browser.run(_SHOWN) == [["27", 271, ""], ["3", 30, ""], *single]
    browser.run(f"{button}.click()")
    assert len(browser.run(_SHOWN)) == 2


def test_queues_sort_with_their_members(browser: Browser, tmp_path: Path) -> None:
    """By a number the highest first, and back; by name."""
    opened(browser, busy(), tmp_path)
    browser.run("document.querySelectorAll('#queues button[data-members]')[1].click()")
    heads = "[...document.querySelectorAll('#queues thead button')]"
    click = heads + ".find(b => b.innerText === '%s').click()"
    browser.run(click % "waits")
    assert [row[0] for row in browser.run(_SHOWN)] == ["27", "3", "28", "29", "30"]
    browser.run(click % "waits")
    assert [row[0] for row in browser.run(_SHOWN)] == ["3", "28", "29", "30", "27"]
    sorted_by = "return document.querySelector('#queues [aria-sort]').ariaSort"
    assert browser.run(sorted_by) == "ascending"
    browser.run(click % "max µs")
    assert [row[0] for row in browser.run(_SHOWN)][:1] == ["3"]
    browser.run(click % "queue")
    assert [row[0] for row in browser.run(_SHOWN)] == ["3", "28", "29", "30", "27"]


def test_queues_are_searched_and_filtered(sized: Browser, tmp_path: Path) -> None:
    """By a part of the name, and by what happened on them; the page says how many are left."""
    opened(sized, busy(), tmp_path)

    def choose(text: str, what: str) -> tuple[list[str], str]:
        sized.run(
            "const s = document.getElementById('search'), f = document.getElementById('filter');"
            "s.value = arguments[0]; s.dispatchEvent(new Event('input'));"
            "f.value = arguments[1]; f.dispatchEvent(new Event('change'));",
            text, what,
        )  # fmt: skip
        said = sized.run("return document.getElementById('found').innerText")
        return [row[0] for row in sized.run(_SHOWN)], said

    assert choose("CLIENT_rpc", "") == (["3"], "1 of 2")
    assert choose("", "timeouts") == (["3"], "1 of 2")
    assert choose("", "never") == (["27"], "1 of 2")
    assert choose("client", "never") == ([], "0 of 2")
    assert choose("", "") == (["27", "3"], "")
    # Unfolded queues come and go with the line of their name.
    sized.run("document.querySelectorAll('#queues button[data-members]')[1].click()")
    assert choose("zc_request", "") == (["27"], "1 of 2")
    assert choose("client", "") == (["3", "28", "29", "30"], "1 of 2")


# Sleepers and wakers.


def test_matrix_shows_who_woke_whom(browser: Browser, tmp_path: Path) -> None:
    """How often, and the slowest time from wake to running."""
    both = plain(5)
    others = tuple(
        replace(rec, tid=14, context=Context.PROCESS, waker=15)
        for rec in plain(3, never=False).records
        if isinstance(rec, WaitRecord)
    )
    records = both.records + others
    threads = {**both.threads, 14: "writer", 15: "main"}
    both = replace(both, records=records, tallies=count(records), threads=threads)
    opened(browser, both, tmp_path)
    shown = browser.run(
        "return [...document.querySelectorAll('#wakers td[data-wakes]')].map(cell => ["
        "cell.parentNode.dataset.sleeper, cell.dataset.waker, Number(cell.dataset.wakes),"
        "Number(cell.dataset.slowestNs), cell.innerText])"
    )
    assert shown == [
        ["reader-2/11", "softirq", 5, 16_000, "5\n16 µs"],
        ["writer/14", "main/15", 3, 4_000, "3\n4 µs"],
    ]
    assert sum(pair.wakes for pair in Sums(records).pairs.values()) == 8


# Narrow pages, names, paper.

_BROKEN = """
const broken = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.offsetParent || node.parentElement.closest("svg, script"))
        continue;
    for (const word of node.data.matchAll(/[A-Za-z0-9]{2,}/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1)
            broken.push(word[0]);
    }
}
return broken;
"""


# The page hears of another medium before the next picture.
_FRAME = "return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.mark.parametrize("made", [busy, late, lost])
def test_names_are_never_broken_within_a_word(sized: Browser, tmp_path: Path, made: Any) -> None:
    """They wrap after separators alone."""
    opened(sized, made(), tmp_path)
    sized.run("document.querySelectorAll('button[data-members]').forEach(b => b.click())")
    assert sized.run(_BROKEN) == []


@pytest.mark.parametrize("made", [busy, late, lost])
def test_page_fits_a_phone(browser: Browser, tmp_path: Path, made: Any) -> None:
    """Nothing is wider than the screen, no text is small, and no cell is blank."""
    browser.resize(PHONE)
    opened(browser, made(), tmp_path)
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE
    wide = browser.run(
        "return [...document.querySelectorAll('.wide, .timeline')]"
        ".filter(n => n.scrollWidth > n.clientWidth + 1).map(n => n.innerText.slice(0, 60))"
    )
    assert wide == []
    sizes = browser.run(
        "return [...document.querySelectorAll('body *')].filter(n => [...n.childNodes].some("
        "c => c.nodeType === 3 && c.data.trim()) && n.getClientRects().length"
        " && !n.closest('script')).map(n => {"
        "const svg = n.closest('svg');"
        "const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;"
        "return [parseFloat(getComputedStyle(n).fontSize) * scale, n.textContent.slice(0, 40)]})"
    )
    assert sizes and [text for size, text in sizes if size < 11] == []
    blank = browser.run(
        "return [...document.querySelectorAll('td')].filter("
        "n => n.offsetHeight > 5 && n.offsetWidth > 30 && !n.innerText.trim()).length"
    )
    assert blank == 0
    # Each name above its bars, which then have the whole width.
    assert browser.run("return Number(document.getElementById('timeline').dataset.left)") < 20


def test_phone_names_each_number(browser: Browser, tmp_path: Path) -> None:
    """A line of the table is a block, whose numbers have the names of their columns."""
    browser.resize(PHONE)
    opened(browser, busy(), tmp_path)
    labels = browser.run(
        "return [...document.querySelectorAll('#queues tbody tr:first-child td')]"
        ".filter(n => n.offsetHeight).map(n => getComputedStyle(n, '::before').content)"
    )
    assert labels[:3] == ['"waits "', '"never ended "', '"signals "']


def test_paper_has_all_stories_and_no_controls(browser: Browser, tmp_path: Path) -> None:
    """Dark on white whatever the scheme, and nothing is cut off. Then the screen is as before."""
    opened(browser, lost(3), tmp_path)
    browser.resize(760)
    browser.emulate("dark", "print")
    state = (
        "return [[...document.querySelectorAll('details')].filter(d => d.open).length,"
        "[...document.querySelectorAll('.bar, summary')].filter(n => n.offsetHeight).length,"
        "getComputedStyle(document.body).backgroundColor,"
        "getComputedStyle(document.querySelector('.timeline')).maxHeight,"
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth]"
    )
    browser.run(_FRAME)
    assert browser.run(state) == [3, 0, "rgb(255, 255, 255)", "none", True]
    browser.emulate("dark")
    browser.run(_FRAME)
    assert browser.run(state)[0] == 1


# Size.


def test_a_million_waits_need_no_more_than_the_first_view(browser: Browser, tmp_path: Path) -> None:
    """All waits are counted; the page stays small, and builds details when they are asked for."""
    directory = save_many(1_000_000, tmp_path)
    page = write_page(load(directory), directory)
    assert page.stat().st_size < 2_000_000
    browser.go(file_url(page))
    nodes = "return document.querySelectorAll('*').length"
    assert browser.run(nodes) < 2500
    assert browser.run("return document.getElementById('sums').dataset.waits") == "1000001"
    assert browser.run("return document.querySelectorAll('#queues tbody tr').length") == 25
    browser.run(
        "const s = document.getElementById('search'); s.value = 'function_5';"
        "s.dispatchEvent(new Event('input'))"
    )
    assert browser.run("return document.getElementById('found').innerText") == "11 of 60"
    wakes = browser.run(
        "return [...document.querySelectorAll('#wakers td[data-wakes]')]"
        ".reduce((sum, cell) => sum + Number(cell.dataset.wakes), 0)"
    )
    assert wakes == 1_000_000


def test_part_of_a_page_without_script_is_the_first_view(tmp_path: Path) -> None:
    """The shapes of the first view are in the page itself, at their places."""
    page = write_page(load(saved(recording_of("lost"), tmp_path)), tmp_path).read_text("utf-8")
    before = page.partition("<template")[0] if "<template" in page else page
    assert 'class="wait suspect"' in before
