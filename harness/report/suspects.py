# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The page's parts about single waits: suspicious waits, open waits, the timeline."""

from collections.abc import Iterator

from harness.report import picture
from harness.report.markup import NOTHING, Html, header, joined, number, table, tag, text
from harness.report.material import Material
from harness.report.words import context_name, duration, why_name
from harness.verdict.kinds import Finding, Kind, Rules, Verdict
from harness.verdict.ledger import Ledger, Queue, Signal, Wait
from harness.verdict.story import event_of, story

MAX_FINDINGS = 500
MAX_NEVER = 500
MAX_STORIES = 200

_COLUMN_NAMES = ("what", "sleeper", "on", "since", "the event", "what happened", "picture")
_COLUMNS = len(_COLUMN_NAMES)


def suspicions(verdict: Verdict) -> list[Finding]:
    """The notes of a verdict that may be faults after all."""
    return [note for note in verdict.notes if note.kind is not Kind.OVERTAKEN]


class Tables:
    """The tables of suspicious and of open waits, and the timeline."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._ledger: Ledger = material.ledger
        self._findings = material.verdict.findings
        self._all = [*self._findings, *suspicions(material.verdict)]
        self._clock = picture.clock(self._ledger, material.source.head.t_stop)
        self._waits = {
            (queue.id, wait.record.tid, wait.number): wait for queue, wait in self._ledger.waits()
        }

    def timeline(self) -> Html:
        """The timeline, which shows the first finding at first."""
        choice = picture.choose(self._ledger, self._all)
        if self._all:
            first = self._window(self._all[0])
        else:
            first = picture.middle(self._clock, choice)
        return picture.section(self._ledger, self._material.names, choice, self._clock, first)

    def findings(self) -> Html:
        """The table of findings, then of suspicions that are no certain faults."""
        if not self._all:
            return tag("p", text("None."))
        head = header(*((name, False) for name in _COLUMN_NAMES))
        rows = [
            self._finding(finding, number < len(self._findings), number < MAX_STORIES)
            for number, finding in enumerate(self._all[:MAX_FINDINGS])
        ]
        return table("findings", head, rows, len(self._all) - len(rows), "further ones")

    def _window(self, finding: Finding) -> tuple[float, float]:
        queue = self._ledger.queues.get(finding.queue)
        return picture.window(self._clock, queue, self._wait(finding), finding.seq)

    def _wait(self, finding: Finding) -> Wait | None:
        return self._waits.get((finding.queue, finding.tid, finding.wait))

    def _object(self, oid: int) -> str:
        return self._ledger.object_name(oid, self._material.names)

    def _finding(self, finding: Finding, fault: bool, with_story: bool) -> Html:
        wait = self._wait(finding)
        queue = self._ledger.queues.get(finding.queue)
        signal = event_of(queue, finding, [wait] if wait else []) if queue else None
        begin, end = self._window(finding)
        who = self._ledger.thread_name(finding.tid) if finding.tid else "no single thread"
        show = tag("button", text("show"), type="button", data_show_from=f"{begin:.3f}",
                   data_show_to=f"{end:.3f}",
                   aria_label=f"show {finding.kind} in the timeline")  # fmt: skip
        row = tag(
            "tr",
            tag("th", text(finding.kind.value if fault else f"perhaps {finding.kind.value}"),
                scope="row"),
            tag("td", text(who + (f", wait {finding.wait}" if finding.wait else ""))),
            tag("td", text(self._object(finding.queue))),
            tag("td", *self._since(wait)),
            tag("td", *self._event(signal)),
            tag("td", text(finding.text)),
            tag("td", show),
            data_fault=int(fault), data_kind=finding.kind.value, data_queue=finding.queue,
            data_tid=finding.tid, data_wait=finding.wait, data_seq=finding.seq,
        )  # fmt: skip
        if not with_story:
            return row
        return joined([row, tag("tr", tag("td", self._story(finding), colspan=_COLUMNS))])

    def _at(self, t: int) -> str:
        return f"{self._clock.us(t) / 1000:,.3f} ms"

    def _since(self, wait: Wait | None) -> Iterator[Html]:
        if wait is None:
            yield text("-")
            return
        rec = wait.record
        since = f"asleep since {self._at(rec.t_slept)}" if rec.t_slept else "never slept"
        yield tag("p", text(since))
        end = rec.t_end or self._material.source.head.t_stop
        lasted = duration(max(0, end - rec.t_begin))
        how = f"returned {rec.ret} after {lasted}" if rec.t_end else f"open for {lasted}"
        yield tag("p", text(how))

    def _story(self, finding: Finding) -> Html:
        """The events in order, and the stacks. The first line is in the row above."""
        lines = story(self._ledger, finding, Rules(names=self._material.names))
        what = "the story, with stacks" if self._ledger.stacks else "the story"
        events = tag("pre", text(lines.partition("\n")[2]), class_="story")
        return tag("details", tag("summary", text(what)), events)

    def _event(self, signal: Signal | None) -> Iterator[Html]:
        if signal is None:
            yield text("none is known")
            return
        rec = signal.record
        yield tag("p", text(
            f"signal {rec.seq} ({why_name(rec.why)} of {self._object(rec.source)}) at "
            f"{self._at(rec.t)}, by {self._ledger.thread_name(rec.waker)} "
            f"({context_name(rec.context)}, CPU {rec.cpu})"
        ))  # fmt: skip
        woken = ", ".join(self._ledger.thread_name(wake.tid) for wake in signal.wakes) or "nobody"
        yield tag("p", text(f"found {rec.sleepers} asleep, woke {woken}"))

    def _stacks(self, wait: Wait | None) -> Html:
        stacks = wait.stacks if wait else None
        if stacks is None:
            return NOTHING
        parts = []
        for name, stack in (("sleeper", stacks.sleeper), ("waker", stacks.waker)):
            frames = "\n".join(self._ledger.frames(stack)) or "not recorded"
            parts += [tag("h3", text(name)), tag("pre", text(frames), class_=name)]
        return tag("details", tag("summary", text("stacks")), *parts)

    def never(self) -> Html:
        """The table of waits that were open at the end, the oldest first."""
        waits = [pair for pair in self._ledger.waits() if not pair[1].finished]
        if not waits:
            return tag("p", text("None."))
        waits.sort(key=lambda pair: pair[1].record.t_begin)
        head = header(
            ("thread", False), ("on", False), ("since", False), ("age", True), ("where", False)
        )
        rows = [self._open(queue, wait) for queue, wait in waits[:MAX_NEVER]]
        return table("never", head, rows, len(waits) - len(rows), "further ones")

    def _open(self, queue: Queue, wait: Wait) -> Html:
        rec = wait.record
        age = max(0, self._material.source.head.t_stop - rec.t_begin)
        who = f"{self._ledger.thread_name(rec.tid)}, wait {wait.number}"
        return tag(
            "tr",
            tag("th", text(who), scope="row"),
            tag("td", text(self._object(queue.id))),
            tag("td", text(self._at(rec.t_begin))),
            number("age_ns", age, duration(age)),
            tag("td", self._stacks(wait)),
            data_queue=queue.id, data_tid=rec.tid, data_wait=wait.number,
        )  # fmt: skip
