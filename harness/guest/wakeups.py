# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The fixture ``wakeups``: records the wake-ups of a block, for assertions.

    def test_completion_wakes_its_reader(wakeups, mock, in_thread):
        cq = mock.cq()
        ep = mock.endpoint(cq=cq)
        with wakeups() as rec:
            call = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
            mock.inject(ep)
            call.result()
        rec.assert_each_wait_ended_by(cq)
        rec.woken_once()

All blocks of a process share one probe, which takes a second to load, and ten if it is compiled.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, Self

from kfabric.guest.evidence import Case, examine, leave
from kfabric.probes.recorder import Cut, Recorder
from kfabric.recording.records import Context, Why
from kfabric.verdict.kinds import Finding, Kind, Rules, Verdict
from kfabric.verdict.ledger import Ledger, Queue, Wait
from kfabric.verdict.stats import percentile, running_ns
from kfabric.verdict.story import story
from kfabric.verdict.words import Analysis

Reporter = Callable[[str, str], None]
BLIND = "the module was unloaded in this block, and the probe had let go of it"


class Traced(Protocol):
    """An object of kfabric_py on which threads wait or publish."""

    @property
    def trace_id(self) -> int:
        """Its id in traces."""


class Block:
    """The recording of one block, with assertions for use after the block.

    A context manager; ``start()`` and ``stop()`` do the same.
    """

    def __init__(self, recorder: Recorder, rules: Rules, test: str, report: Reporter) -> None:
        self._recorder = recorder
        self._rules = rules
        self._test = test
        self._report = report
        self._cut: Cut | None = None
        self._case: Case | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Begin to record."""
        if self._cut is not None or self._case is not None:
            raise RuntimeError("a block is recorded once")
        self._cut = self._recorder.cut()
        return self

    def stop(self) -> None:
        """End the recording, and judge it."""
        if self._cut is None:
            raise RuntimeError("the block was not begun")
        try:
            self._case = self._examine(self._cut)
        finally:
            self.drop()

    def _examine(self, cut: Cut) -> Case:
        """Judge the recording."""
        case = examine(self._recorder, cut.look(), replace(self._rules, since=cut.t_begin))
        return case.doubted(BLIND) if cut.blind else case

    def drop(self) -> None:
        """End the recording, if it has not ended."""
        if self._cut is not None:
            self._cut.drop()
        self._cut = None

    @property
    def case(self) -> Case:
        """Recording, ledger and verdict. Raises RuntimeError before the end of the block."""
        if self._case is None:
            raise RuntimeError("the block is not over")
        return self._case

    @property
    def ledger(self) -> Ledger:
        """Each wait with the event that ended it, each event with the threads that it woke."""
        return self.case.ledger

    @property
    def verdict(self) -> Verdict:
        """The verdict on the block."""
        return self.case.verdict

    def verified(self) -> None:
        """Assert that there is no finding at all."""
        __tracebackhide__ = True
        self._none_of(set(Kind))

    def no_lost(self) -> None:
        """Assert that each wait was woken for the event that it slept for."""
        __tracebackhide__ = True
        self._none_of({Kind.LOST, Kind.TIMEOUT_READY, Kind.NOT_HANDED_ON, Kind.NEVER_RAN})

    def no_spurious(self) -> None:
        """Assert that no thread was woken for nothing."""
        __tracebackhide__ = True
        self._none_of({Kind.SPURIOUS, Kind.WRONG_WAITER})

    def no_late(self) -> None:
        """Assert that no wake-up came long after its event."""
        __tracebackhide__ = True
        self._none_of({Kind.LATE})

    def no_herd(self, max: int = 1) -> None:
        """Assert that no event woke more than ``max`` threads, but for signal calls and losses."""
        __tracebackhide__ = True
        self._none_of({Kind.HERD} if max == 1 else set())
        for queue in self.ledger.queues.values():
            for signal in queue.every_signal():
                if signal.record.why in (Why.SIGNAL, Why.LOST):
                    continue
                woken = len({wake.tid for wake in signal.wakes})
                if woken > max:
                    text = f"one event woke {woken} threads"
                    self._fail(Finding(Kind.HERD, queue.id, text, seq=signal.record.seq))

    def woken_once(self) -> None:
        """Assert that each wait that slept was woken once, by one event."""
        __tracebackhide__ = True
        self._certain()
        for queue, wait in self._waits():
            rec = wait.record
            # The hard interrupt is the timer of the call's own deadline.
            past = rec.foreign if rec.foreign_context != Context.HARDIRQ else 0
            times = len(wait.wakes) + past
            if wait.slept and times != 1:
                kind = Kind.SPURIOUS if times else Kind.LOST
                text = f"was woken {times} times"
                self._fail(self._analysis().of_wait(kind, queue, wait, text))

    def assert_each_wait_ended_by(self, *objects: Traced) -> None:
        """Assert that each wait that slept was ended by an event on one of these objects."""
        __tracebackhide__ = True
        self._certain()
        wanted = {thing.trace_id for thing in objects}
        expected = ", ".join(self.ledger.object_name(oid, self._rules.names) for oid in wanted)
        if not self._waits():
            raise AssertionError("there was no wait in this block")
        for queue, wait in self._waits():
            wake = wait.last_wake
            if wait.succeeded and not wait.slept:
                continue
            if wake is None or wake.source not in wanted:
                text = f"should have been ended by {expected}; {_how_it_ended(self.ledger, wait)}"
                kind, seq = (Kind.ORDER, wake.seq) if wake else (Kind.LOST, 0)
                self._fail(self._analysis().of_wait(kind, queue, wait, text, seq))

    def latency(self, p: float = 99) -> int:
        """Nanoseconds from event to running thread, at percentile ``p``.

        The value is also reported with the test.

        Raises:
            AssertionError: No sleeper was woken.
        """
        __tracebackhide__ = True
        self._certain()
        found = sorted(ns for queue, wait in self._waits() if (ns := running_ns(queue, wait)))
        if not found:
            raise AssertionError("no sleeper was woken in this block: there is no latency")
        value = percentile(found, p / 100)
        self._report(f"wake-up latency p{p:g}", f"{value / 1000:.1f} us of {len(found)} wake-ups")
        return value

    def _waits(self) -> list[tuple[Queue, Wait]]:
        since = self.case.rules.since
        return [
            (queue, wait) for queue, wait in self.ledger.waits() if wait.record.t_begin >= since
        ]

    def _analysis(self) -> Analysis:
        return Analysis(self.ledger, self._rules)

    def _certain(self) -> None:
        """Fail if the recording has gaps: it proves nothing then."""
        __tracebackhide__ = True
        if self.verdict.doubts:
            raise AssertionError(self._with_trace(self.case.text(()), ()))

    def _none_of(self, kinds: set[Kind]) -> None:
        __tracebackhide__ = True
        self._certain()
        found = [finding for finding in self.verdict.findings if finding.kind in kinds]
        if found:
            raise AssertionError(self._with_trace(self.case.text(found), found))

    def _fail(self, finding: Finding) -> None:
        """Fail with this finding, or with the verdict's about the same wait."""
        __tracebackhide__ = True
        known = [
            other
            for other in self.verdict.findings
            if finding.wait
            and (other.queue, other.tid, other.wait) == (finding.queue, finding.tid, finding.wait)
        ]
        found = known or [finding]
        events = story(self.ledger, found[0], self.case.rules)
        raise AssertionError(self._with_trace(f"{finding.text}\n{events}", found))

    def _with_trace(self, text: str, findings: Iterable[Finding]) -> str:
        """The failure's text, with the path of its trace."""
        directory = leave(self.case, self._test, findings)
        return f"{text}\ntrace: {directory}" if directory else text


def _how_it_ended(ledger: Ledger, wait: Wait) -> str:
    if not wait.finished:
        return "it goes on"
    wake = wait.last_wake
    if wake:
        return f"{ledger.object_name(wake.source)} ended it"
    return f"nothing woke it, and it returned {wait.record.ret}"
