# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The waits, the wake call and the publication of each finding, and a headline for it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kfabric.recording.records import MarkRecord
from kfabric.report.words import counted, duration, short_name
from kfabric.verdict.backlog import Sleep, sleeps_of
from kfabric.verdict.kinds import Finding, Kind, Rules
from kfabric.verdict.ledger import Ledger, Queue, Signal, Wait
from kfabric.verdict.story import event_of, publication_of
from kfabric.verdict.words import Analysis, context_name

_HERD = 8
_NAMED_WAIT = re.compile(r"wait (\d+) of thread (?:[^ ].*?/)?(\d+) on ")


@dataclass(frozen=True, slots=True)
class Case:
    """A finding with its records.

    ``waits`` are the wait that the finding names, then others that its sentence names.
    ``call`` is the wake call at fault, ``mark`` the publication that was missed.
    """

    finding: Finding
    queue: Queue
    waits: tuple[Wait, ...] = ()
    call: Signal | None = None
    mark: MarkRecord | None = None

    @property
    def sleeper(self) -> Wait | None:
        """The wait that slept; of a wake-up that was not handed on, the one that missed it."""
        at = 1 if self.finding.kind is Kind.NOT_HANDED_ON and len(self.waits) > 1 else 0
        return self.waits[at] if self.waits else None

    def sleep(self, t_stop: int) -> Sleep | None:
        """The sleep that the finding is about: the one that its event should have ended."""
        if self.sleeper is None:
            return None
        sleeps = list(sleeps_of(self.queue, self.sleeper, t_stop))
        moment = self.mark.t if self.mark else self.call.record.t if self.call else 0
        later = [sleep for sleep in sleeps if sleep.end >= moment > 0]
        return later[0] if later else max(sleeps, key=lambda s: s.end - s.begin, default=None)


class Cases:
    """Makes the cases of findings, and their headlines."""

    def __init__(self, ledger: Ledger, names: Mapping[int, str]) -> None:
        self._ledger = ledger
        self._analysis = Analysis(ledger, Rules(names=names))
        self._waits = {
            (queue.id, wait.record.tid, wait.number): wait for queue, wait in ledger.waits()
        }

    def of(self, finding: Finding) -> Case:
        """The case of a finding. A part of a recording may lack its records."""
        queue = self._ledger.queues.get(finding.queue, Queue(finding.queue))
        own = self._waits.get((finding.queue, finding.tid, finding.wait))
        call = event_of(queue, finding, [own] if own else [])
        waits = dict.fromkeys([own] if own else [])
        waits |= dict.fromkeys(self._named(queue, finding.text))
        if finding.kind is Kind.HERD and call:
            tids = {wake.tid for wake in call.wakes[:_HERD]}
            waits |= dict.fromkeys(_woken(queue, call, tids))
        return Case(finding, queue, tuple(waits), call, publication_of(self._ledger, finding))

    def _named(self, queue: Queue, text: str) -> Iterable[Wait]:
        """The waits that a sentence names."""
        for number, tid in _NAMED_WAIT.findall(text):
            wait = self._waits.get((queue.id, int(tid), int(number)))
            if wait and self._analysis.wait(queue, wait) in text:
                yield wait

    def headline(self, case: Case) -> str:
        """The finding in a few words: ``LOST on ulog_wq: ulog-consumer slept 520 ms``."""
        finding = case.finding
        what = self._happened(case)
        where = short_name(self._analysis.object(finding.queue))
        return f"{finding.kind.upper()} on {where}{f': {what}' if what else ''}"

    def _happened(self, case: Case) -> str:
        who = self._who(case)
        match case.finding.kind:
            case Kind.SPURIOUS:
                return f"{who or 'a thread'} was woken in vain"
            case Kind.HERD if case.call:
                return f"one publication woke {counted(len(case.call.wakes), 'thread')}"
            case Kind.WRONG_CONTEXT if case.call:
                return f"woken from {context_name(case.call.record.context)}"
            case Kind.NEVER_RAN:
                return f"{who} did not run for {self._off_cpu(case)}"
        sleep = case.sleep(self._ledger.t_stop)
        if sleep is None or case.sleeper is None:
            return who
        has = "slept" if case.sleeper.finished else "has slept"
        return f"{who} {has} {duration(sleep.end - sleep.begin)}"

    def _who(self, case: Case) -> str:
        tid = case.sleeper.record.tid if case.sleeper else case.finding.tid
        return (self._ledger.threads.get(tid) or f"thread {tid}") if tid else ""

    def _off_cpu(self, case: Case) -> str:
        wakes = case.sleeper.wakes if case.sleeper else []
        stop = self._ledger.t_stop
        longest = [(w.t_running or stop) - (w.t_waking or w.t_wake) for w in wakes]
        return duration(max(longest, default=0))


def _woken(queue: Queue, call: Signal, tids: set[int]) -> Iterable[Wait]:
    """The waits of these threads that a wake call woke."""
    ids = {id(wake) for wake in call.wakes}
    for wait in queue.waits:
        if wait.record.tid in tids and any(id(wake) in ids for wake in wait.wakes):
            yield wait
