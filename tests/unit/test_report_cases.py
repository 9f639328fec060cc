# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The headlines of findings, their place in the timeline, and the sums of the page's lists."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from queue_scenes import OTHER, TIMEOUT, WAITER, WAITER_2, Scene
from report_support import TRACES, plain, recording_of, saved

from kfabric.recording.records import Context, WaitRecord
from kfabric.report import load, matrix, picture, queue_table, webpage
from kfabric.report.cases import Case, Cases
from kfabric.report.markup import wrapped
from kfabric.report.material import judged
from kfabric.report.numbers import Numbers, Sums, merged
from kfabric.report.words import counted
from kfabric.verdict import queues
from kfabric.verdict.kinds import Finding, Kind, Outcome
from kfabric.verdict.ledger import Ledger, build


def case_of(ledger: Ledger) -> tuple[Case, str]:
    """The case of the first finding of plain queues, and its headline."""
    cases = Cases(ledger, {})
    case = cases.of(queues.judge(ledger).findings[0])
    return case, cases.headline(case)


def late() -> Ledger:
    """A wait of 1016 ms, whose publication was 134 ms after its begin."""
    scene = Scene()
    scene.wait(10, WAITER_2, slept=20, timeout=30, queue=OTHER)
    scene.publish(334_000)
    scene.call(1_216_000)
    scene.wait(200_000, slept=200_100, wakes=(1_216_000,), end=1_216_100)
    scene.take(1_216_050)
    scene.wait(3_000_000, WAITER_2, slept=3_000_020, timeout=3_000_030, queue=OTHER)
    return scene.ledger()


def test_headline_names_fault_queue_sleeper_and_time() -> None:
    """In a few words; the queue without its module."""
    _, headline = case_of(late())
    assert headline == "LATE on the_queue: waiter slept 1.02 s"


def test_headline_of_a_wait_without_end_says_that_it_still_sleeps() -> None:
    scene = Scene()
    scene.wait(50, slept=60)
    scene.publish(100)
    _, headline = case_of(scene.ledger(stop=520_060))
    assert headline == "LOST on the_queue: waiter has slept 520 ms"


def test_headline_has_the_accused_sleep_of_several() -> None:
    """An earlier, longer sleep of the same wait ended rightly."""
    scene = Scene()
    scene.publish(400_000)
    scene.call(400_001)
    scene.take(400_003)
    scene.publish(500_000)
    scene.wait(50, slept=400_100, wakes=(400_001,), timeout=650_100)
    _, headline = case_of(scene.ledger())
    assert headline == "LOST on the_queue: waiter slept 250 ms"


def test_wake_up_that_was_not_handed_on_is_about_the_thread_that_slept_on() -> None:
    """Both waits belong to the case: the one that left, and the one that missed it."""
    scene = Scene()
    scene.publish(99)
    scene.call(100, sleepers=2)
    scene.wait(10, slept=20, wakes=(100,), end=105)
    scene.wait(30, WAITER_2, slept=40, timeout=TIMEOUT)
    case, headline = case_of(scene.ledger())
    assert case.finding.kind is Kind.NOT_HANDED_ON
    assert [wait.record.tid for wait in case.waits] == [WAITER, WAITER_2]
    assert headline == "WAKE NOT HANDED ON on the_queue: waiter-2 slept 250 ms"


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_every_finding_has_a_headline_of_one_line(path: Path) -> None:
    """Its kind, its object, and something about the thread."""
    ledger = build(recording_of(path.stem))
    cases = Cases(ledger, {})
    for finding in judged(ledger).findings:
        headline = cases.headline(cases.of(finding))
        assert headline.startswith(f"{finding.kind.upper()} on ")
        assert len(headline) <= 80 and "\n" not in headline


def test_view_of_a_finding_has_its_wait_its_events_and_a_margin() -> None:
    """Of a wait of a second that was woken late, all of it."""
    ledger = late()
    case, _ = case_of(ledger)
    times = picture.clock(ledger, ledger.t_stop)
    begin, end = picture.window(times, case)
    rec, margin = case.waits[0].record, (end - begin) * 0.05
    assert begin + margin < times.us(rec.t_begin) and times.us(rec.t_end) < end - margin
    assert case.mark and case.call
    for t in (case.mark.t, case.call.record.t, rec.t_wake):
        assert begin + margin < times.us(t) < end - margin
    assert end - begin < 1.2 * (rec.t_end - rec.t_begin) / 1000


def test_waits_around_the_finding_are_drawn_before_early_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of too many waits, those that explain the finding."""
    monkeypatch.setattr(picture, "MAX_WAITS", 4)
    scene = Scene()
    for n in range(20):
        scene.wait(1000 * n + 1, WAITER_2, slept=1000 * n + 2, timeout=1000 * n + 3, queue=OTHER)
    scene.wait(18_500, slept=18_510)
    scene.publish(18_600)
    ledger = scene.ledger()
    case, _ = case_of(ledger)
    begun = {wait.record.t_begin // 1_000_000 for _, wait in picture.choose(ledger, [case]).waits}
    assert begun == {0, 1, 18}


def test_status_has_one_word_of_its_own_for_each_outcome() -> None:
    """The page colours by it; the style sheet knows verified and fault alone."""
    words = {webpage.status(outcome) for outcome in Outcome}
    assert words == {"verified", "fault", "not-verified", "not-judged"}
    style = (Path(webpage.__file__).with_name("page") / "page.css").read_text(encoding="utf-8")
    assert set(re.findall(r"data-status=([\w-]+)", style)) == {"verified", "fault"}
    green = [line for line in style.splitlines() if "var(--good)" in line]
    assert green == ["#verdict[data-status=verified] { --status: var(--good); }"]


def test_queues_of_one_name_share_a_line(tmp_path: Path) -> None:
    """Their sums, the highest depth, and the latencies of all."""
    recording = plain(3, never=False)
    again = tuple(
        replace(r, queue=8) for r in plain(5, never=False).records if isinstance(r, WaitRecord)
    )
    both = replace(recording, records=recording.records + again, queues={7: "q [m]", 8: "q [m]"})
    material = load(saved(both, tmp_path))
    rows = Sums(both.records).rows
    (group,) = queue_table.groups_of(material, rows)
    assert [row.queue for row in group.members] == [7, 8]
    assert (group.total.waits, group.total.signals, group.total.wakes) == (8, 3, 8)
    assert len(group.total.latencies) == 8 and rows[7].waits == 3


def test_sum_of_queues_leaves_them_as_they_are() -> None:
    """The deepest counts once, the rest is added."""
    rows = [Numbers(1, waits=2, deepest=3), Numbers(2, waits=5, deepest=1, never=1)]
    assert merged(rows) == Numbers(1, waits=7, deepest=3, never=1)
    assert rows[0].waits == 2


def test_pairs_of_sleeper_and_waker_count_every_wake() -> None:
    """In an interrupt the current thread is unrelated, so the interrupt counts as the waker."""
    softirq = Sums(plain(5).records)
    assert list(softirq.pairs) == [(11, (Context.SOFTIRQ, 0))]
    (pair,) = softirq.pairs.values()
    assert (pair.wakes, pair.slowest) == (5, 16_000)
    waits = [r for r in plain(3).records if isinstance(r, WaitRecord)]
    waits = [replace(r, context=Context.PROCESS, waker=20 + n) for n, r in enumerate(waits)]
    threads = Sums(waits)
    assert list(threads.pairs) == [(11, (0, 20)), (11, (0, 21)), (11, (0, 22))]


def test_matrix_of_many_threads_groups_them_by_name_and_loses_no_wake() -> None:
    """The rarest names share the last line."""
    threads = {n: f"thread-{n % 30}" for n in range(1, 201)}
    waits = [
        WaitRecord(1, n, n, t_slept=n, t_wake=n + 1, t_waking=n + 1, t_running=n + 9, t_end=n + 9,
                   waker=1 + n % 7, context=Context.PROCESS, sleeps=1, wakes=1, ended=1)
        for n in range(1, 201)
    ]  # fmt: skip
    ledger = replace(build(replace(plain(), records=tuple(waits))), threads=threads)
    made = matrix.section(ledger, Sums(waits).pairs)
    assert sum(map(int, re.findall(r'data-wakes="(\d+)"', made))) == 200
    assert made.count("<tr ") == matrix.MAX_SLEEPERS and "(7 threads)" in made
    assert 'data-sleeper="all others"' in made


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 findings"), (1, "1 finding"), (2, "2 findings")]
)
def test_counts_agree_with_their_nouns(count: int, words: str) -> None:
    """One is singular."""
    assert counted(count, "finding") == words


def test_names_wrap_after_separators_and_numbers_nowhere() -> None:
    """Nothing but the places changes."""
    name = "p9_virtio_zc_request [9pnet_virtio], kworker/0:1, 2000.5 ms & more"
    assert wrapped(name).replace("<wbr>", "") == name.replace("&", "&amp;")
    assert "p9_<wbr>virtio_<wbr>zc_<wbr>request" in wrapped(name)
    assert "kworker/<wbr>0:<wbr>1" in wrapped(name) and "2000.5 ms" in wrapped(name)


def test_case_of_a_finding_without_records_is_empty() -> None:
    """A part of a big recording may lack them; the page is made all the same."""
    cases = Cases(build(plain()), {})
    case = cases.of(Finding(Kind.LOST, 99, "somewhere", tid=5, wait=3, seq=4))
    assert case.waits == () and case.call is None
    assert cases.headline(case) == "LOST on object 99: thread 5"
