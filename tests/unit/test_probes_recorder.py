# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Cuts of a long recording, on a probe that a test plays."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from kfabric.probes import recorder as recorder_module
from kfabric.probes.loader import Counters
from kfabric.probes.recorder import Recorder
from kfabric.recording.records import (
    Change,
    Losses,
    ObjectRecord,
    Record,
    SignalRecord,
    Tally,
    TallyRecord,
    WaitRecord,
    count,
    pack,
)
from kfabric.verdict.ledger import build
from kfabric.verdict.verdict import Outcome, Rules, judge

CQ = 7


class FakeProbe:
    """The interface of Probe, with values from the test."""

    def __init__(self) -> None:
        self.log = io.BytesIO()
        self.fill = 0.0
        self.ring: list[bytes] = []
        self.losses = Losses()
        self.tallies: dict[int, Tally] = {}
        self.strays: dict[int, tuple[int, int]] = {}
        self.open: list[WaitRecord] = []
        self.attached = True
        self.restless = 0

    def put(self, *records: Record) -> None:
        """Something happens; it is counted, too."""
        self.ring += map(pack, records)
        for queue, tally in count(records).items():
            self.tallies[queue] = self.tallies.get(queue, Tally()) + tally

    def take(self) -> list[bytes]:
        taken, self.ring = self.ring, []
        return taken

    def pending(self) -> list[bytes]:
        return list(map(pack, self.open))

    def counters(self) -> Counters:
        if self.restless:
            self.restless -= 1
            self.put(SignalRecord(CQ, 1, 0, why=6))
        return Counters(self.losses, dict(self.tallies), dict(self.strays))

    def threads(self, tids: Iterable[int]) -> dict[int, str]:
        return {tid: f"name{tid}" for tid in tids if tid}

    def attach(self) -> None:
        self.attached = True

    def detach(self) -> None:
        if self.attached:
            self.attached = False
            self.on_detach()

    def on_detach(self) -> None:
        """What the probe still sees while it lets go."""

    def __exit__(self, *_: Any) -> None:
        self.attached = False


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> FakeProbe:
    """A probe; its reader comes by when it is asked to, not by the clock."""
    monkeypatch.setattr(recorder_module, "PERIOD_SECONDS", 3600)
    return FakeProbe()


@pytest.fixture
def recorder(probe: FakeProbe) -> Iterator[Recorder]:
    """A recorder of it."""
    with Recorder(probe) as recorder:  # type: ignore[arg-type]
        yield recorder


def wait(t: int, seq: int = 0, **more: int) -> WaitRecord:
    """A wait on the CQ that a publication ended, or that goes on."""
    if not seq:
        return WaitRecord(CQ, t, 101, fclass=14, t_slept=t + 1, sleeps=1, **more)
    return WaitRecord(
        CQ,
        t,
        101,
        fclass=14,
        t_slept=t + 1,
        t_wake=t + 2,
        t_waking=t + 2,
        t_running=t + 3,
        t_end=t + 4,
        seq=seq,
        source=CQ,
        why=1,
        ended=1,
        sleeps=1,
        wakes=1,
        kernel_wakes=1,
        **more,
    )


def signal(t: int, seq: int) -> SignalRecord:
    """A publication that finds the sleeper."""
    return SignalRecord(CQ, t, seq, source=CQ, have=1, sleepers=1, waker=7)


NEW = ObjectRecord(CQ, 1, Change.NEW, 14)


def test_cut_has_what_happened_in_it(probe: FakeProbe, recorder: Recorder) -> None:
    """No more and no less, and nothing about it is doubtful."""
    probe.put(NEW, signal(12, 1), wait(10, 1))
    cut = recorder.cut()
    probe.put(signal(22, 2), wait(20, 2))
    recording = cut.look()
    probe.put(signal(32, 3), wait(30, 3))
    assert recording.records == (NEW, signal(22, 2), wait(20, 2))
    assert recording.tallies == {CQ: Tally(1, 1, 1, 1)}
    assert recording.threads == {7: "name7", 101: "name101"}
    assert judge(build(recording)).outcome is Outcome.VERIFIED


def test_wait_from_before_is_in_the_cut_in_which_it_ends(
    probe: FakeProbe, recorder: Recorder
) -> None:
    """Its begin was counted before; its record says it again."""
    probe.put(NEW)
    probe.open = [wait(10)]
    probe.tallies[CQ] = Tally(0, 0, 1, 0)
    cut = recorder.cut()
    probe.open = []
    probe.ring += [pack(signal(12, 1)), pack(wait(10, 1))]
    probe.tallies[CQ] = Tally(1, 1, 1, 1)
    recording = cut.look()
    assert build(recording).doubts == ()
    assert judge(build(recording), Rules(since=cut.t_begin)).outcome is Outcome.VERIFIED


def test_wait_that_goes_on_is_in_the_cut(probe: FakeProbe, recorder: Recorder) -> None:
    """With no end."""
    cut = recorder.cut()
    probe.open = [wait(10)]
    probe.tallies[CQ] = Tally(0, 0, 1, 0)
    recording = cut.look()
    assert recording.records == (wait(10),)
    assert build(recording).doubts == ()


def test_wait_that_ends_while_the_cut_ends_is_told_once(
    probe: FakeProbe, recorder: Recorder
) -> None:
    """It may be among those that go on and among the records."""
    cut = recorder.cut()
    probe.put(signal(12, 1), wait(10, 1))
    probe.open = [wait(10)]
    recording = cut.look()
    assert recording.records == (signal(12, 1), wait(10, 1))


def test_queue_that_goes_takes_its_counts_along(probe: FakeProbe, recorder: Recorder) -> None:
    """They come as a record, and count from the queue's begin."""
    probe.put(NEW, signal(12, 1), wait(10, 1))
    cut = recorder.cut()
    probe.put(signal(22, 2), wait(20, 2))
    del probe.tallies[CQ]
    probe.ring.append(pack(TallyRecord(CQ, 2, 2, 2, 2)))
    recording = cut.look()
    assert recording.tallies == {CQ: Tally(1, 1, 1, 1)}
    assert build(recording).doubts == ()


def test_record_that_the_ring_swallowed_is_a_doubt(probe: FakeProbe, recorder: Recorder) -> None:
    """It was counted where it happened."""
    cut = recorder.cut()
    probe.put(signal(12, 1), wait(10, 1), signal(22, 2), wait(20, 2))
    probe.ring.pop()
    assert "the probe counted" in build(cut.look()).doubts[0]


def test_losses_and_strays_are_those_of_the_cut(probe: FakeProbe, recorder: Recorder) -> None:
    """Earlier losses do not count for the cut."""
    probe.losses, probe.strays = Losses(ring=3), {5: (1, 1)}
    assert not recorder.cut().look().losses
    cut = recorder.cut()
    probe.losses, probe.strays = Losses(ring=5), {5: (1, 3), 6: (1, 0)}
    recording = cut.look()
    assert recording.losses == Losses(ring=2)
    assert recording.kernel is not None and recording.kernel.strays == {5: (0, 2), 6: (1, 0)}


def test_queue_that_never_rests_is_not_counted(probe: FakeProbe, recorder: Recorder) -> None:
    """Between two looks at its counts something happens, each time."""
    cut = recorder.cut()
    probe.restless = 1000
    recording = cut.look()
    assert build(recording).doubts == ()


def test_nothing_is_kept_without_a_cut(probe: FakeProbe, recorder: Recorder) -> None:
    """A long session keeps objects and memberships, only while they exist."""
    cut = recorder.cut()
    probe.put(NEW, signal(12, 1), wait(10, 1))
    cut.drop()
    probe.put(signal(22, 2), wait(20, 2), ObjectRecord(8, 1, Change.NEW, 14))
    recorder.collect()
    probe.put(ObjectRecord(CQ, 9, Change.FREE, 14))
    recorder.collect()
    assert probe.log.getvalue() == b""
    assert recorder.cut().look().records == (ObjectRecord(8, 1, Change.NEW, 14),)


def test_cuts_may_overlap(probe: FakeProbe, recorder: Recorder) -> None:
    """Each has its own part; a look does not end it."""
    outer = recorder.cut()
    probe.put(signal(12, 1), wait(10, 1))
    inner = recorder.cut()
    probe.put(signal(22, 2), wait(20, 2))
    assert len(inner.look().records) == 2
    inner.drop()
    assert len(outer.look().records) == 4
    assert len(outer.look().records) == 4
    outer.drop()
    outer.drop()
    assert probe.log.getvalue() == b""


def test_objects_that_go_are_no_news(probe: FakeProbe, recorder: Recorder) -> None:
    """After a test that is all that happens, as a rule; waits, signals and losses are news."""
    cut = recorder.cut()
    probe.put(NEW, signal(12, 1), wait(10, 1))
    assert cut.news()
    cut.look()
    probe.put(ObjectRecord(CQ, 9, Change.FREE, 14))
    probe.ring.append(pack(TallyRecord(CQ, 1, 1, 1, 1)))
    assert not cut.news()
    probe.losses = Losses(ring=1)
    assert cut.news()
    cut.look()
    probe.put(signal(22, 2))
    assert cut.news()


def test_module_can_be_let_go_of(probe: FakeProbe, recorder: Recorder) -> None:
    """And taken up again."""
    recorder.suspend()
    assert not probe.attached
    recorder.resume()
    assert probe.attached


def test_cut_knows_that_the_probe_let_go_of_the_module(recorder: Recorder) -> None:
    """However often it is suspended, and only if it was attached meanwhile."""
    early = recorder.cut()
    assert not early.blind
    recorder.suspend()
    assert early.blind
    recorder.resume()
    late = recorder.cut()
    assert (early.blind, late.blind) == (True, False)
    early.drop()
    late.drop()


def test_blind_cut_compares_nothing(probe: FakeProbe, recorder: Recorder) -> None:
    """The kernel's functions still count for a module whose tracepoints are detached.

    The waits that are open then are counted, but never recorded.
    """
    seeing, blind = recorder.cut(), recorder.cut()
    probe.strays = {101: (0, 1)}
    kernel = seeing.look().kernel
    assert kernel is not None
    assert kernel.strays == {101: (0, 1)}
    probe.put(signal(12, 1))
    probe.tallies[CQ] += Tally(0, 0, 1, 0)
    recorder.suspend()
    recording = blind.look()
    assert recording.kernel is None
    assert recording.tallies == count(recording.records)


def test_waits_that_are_seen_in_parts_while_the_probe_lets_go_do_not_count(
    probe: FakeProbe, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wake is not seen any more, but the wait's end is; or the begin, but not the end."""

    def seen_in_parts() -> None:
        probe.put(signal(20, 2), WaitRecord(CQ, 15, 101, t_slept=16, t_end=25, ended=1))
        probe.open = [WaitRecord(CQ, 24, 102, seen=3)]
        probe.losses = Losses(unpaired=2)

    probe.losses = Losses(unpaired=1)
    cut = recorder.cut()
    probe.put(signal(12, 1))
    monkeypatch.setattr(probe, "on_detach", seen_in_parts)
    recorder.suspend()
    recording = cut.look()
    assert [r.t for r in recording.records if isinstance(r, SignalRecord)] == [12]
    assert not any(isinstance(r, WaitRecord) for r in recording.records)
    assert not recording.losses


def test_objects_that_end_while_the_probe_lets_go_are_noted(
    probe: FakeProbe, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.put(ObjectRecord(CQ, 10, Change.NEW, fclass=3))
    recorder.collect()
    assert recorder.objects()
    freed = ObjectRecord(CQ, 20, Change.FREE, fclass=3)
    monkeypatch.setattr(probe, "on_detach", lambda: probe.put(freed))
    recorder.suspend()
    assert not recorder.objects()


def test_letting_go_of_nothing_blinds_nobody(recorder: Recorder) -> None:
    """A probe that is off is not taken off again."""
    recorder.suspend()
    cut = recorder.cut()
    recorder.suspend()
    assert not cut.blind
    cut.drop()
