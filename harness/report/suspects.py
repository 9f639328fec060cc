# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The page's parts about single waits: suspicious waits, open waits, the timeline."""

from collections.abc import Iterator

from kfabric.report import picture
from kfabric.report.cases import Case, Cases
from kfabric.report.markup import (
    NOTHING,
    Html,
    header,
    joined,
    left_out,
    more,
    number,
    table,
    tag,
    text,
    wrapped,
)
from kfabric.report.material import Material
from kfabric.report.words import context_name, duration, thread, why_name
from kfabric.verdict.kinds import Finding, Kind, Outcome, Rules, Verdict
from kfabric.verdict.ledger import Ledger, Queue, Signal, Wait
from kfabric.verdict.story import story

MAX_FINDINGS = 500
MAX_NEVER = 500
MAX_STORIES = 200
FIRST_FINDINGS = 10
FIRST_NEVER = 10


def suspicions(verdict: Verdict) -> list[Finding]:
    """The notes of a verdict that may be faults after all."""
    return [note for note in verdict.notes if note.kind is not Kind.OVERTAKEN]


class Tables:
    """The suspicious and the open waits, and the timeline."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._ledger: Ledger = material.ledger
        self._faults = len(material.verdict.findings)
        findings = [*material.verdict.findings, *suspicions(material.verdict)]
        self._left_out = len(findings) - MAX_FINDINGS
        self._cases = Cases(self._ledger, material.names)
        self._all = [self._cases.of(finding) for finding in findings[:MAX_FINDINGS]]
        self._clock = picture.clock(self._ledger, material.source.head.t_stop)

    def headline(self) -> str:
        """The first fault in a few words; empty if there is none."""
        return self._cases.headline(self._all[0]) if self._faults else ""

    def timeline(self) -> Html:
        """The timeline, which shows all of the first finding at first."""
        choice = picture.choose(self._ledger, self._all)
        if self._all:
            first = picture.window(self._clock, self._all[0])
        else:
            first = picture.middle(self._clock, choice)
        return picture.section(self._ledger, self._material.names, choice, self._clock, first)

    def findings(self) -> Html:
        """The findings, then the suspicions, which are no certain faults."""
        if not self._all:
            return tag("p", text("None."))
        cards = [self._card(case, n) for n, case in enumerate(self._all)]
        rest = cards[FIRST_FINDINGS:]
        parts = [tag("div", joined(cards[:FIRST_FINDINGS]), id="findings")]
        if rest:
            parts.append(more("#findings", len(rest), tag("div", *rest, id="findings")))
        parts.append(left_out(max(0, self._left_out), "further ones"))
        return joined(parts)

    def _object(self, oid: int) -> str:
        return self._ledger.object_name(oid, self._material.names)

    def _card(self, case: Case, n: int) -> Html:
        finding, fault, anchor = case.finding, n < self._faults, f"finding-{n + 1}"
        words = self._cases.headline(case)
        first = n == 0 and self._material.verdict.outcome is Outcome.FAULT
        link = tag("a", wrapped(words if fault else f"perhaps {words}"), href=f"#{anchor}")
        facts = (
            tag("div", tag("dt", text(name)), tag("dd", wrapped(value)))
            for name, value in self._facts(case)
        )
        return tag(
            "article",
            tag("h3", link),
            # The page's head has the sentence of the first fault.
            NOTHING if first else tag("p", wrapped(finding.text), class_="sentence"),
            tag("dl", *facts),
            self._buttons(case, words),
            self._story(finding, n == 0) if n < MAX_STORIES else NOTHING,
            id=anchor, class_="finding fault" if fault else "finding",
            data_fault=int(fault), data_kind=finding.kind.value, data_queue=finding.queue,
            data_tid=finding.tid, data_wait=finding.wait, data_seq=finding.seq,
        )  # fmt: skip

    def _facts(self, case: Case) -> Iterator[tuple[str, str]]:
        finding = case.finding
        who = thread(self._ledger.thread_name(finding.tid)) if finding.tid else "no single thread"
        yield "thread", who + (f", wait {finding.wait}" if finding.wait else "")
        yield "on", self._object(finding.queue)
        wait = case.waits[0] if case.waits and finding.wait else None
        if wait:
            yield "since", "; ".join(self._since(wait))
        if case.sleeper and case.sleeper is not wait:
            other = thread(self._ledger.thread_name(case.sleeper.record.tid))
            told = "; ".join(self._since(case.sleeper))
            yield "slept on", f"{other}, wait {case.sleeper.number}: {told}"
        if case.call:
            yield "wake call", "; ".join(self._call(case.call))
        elif not case.mark:
            yield "wake call", "none is known"
        if case.mark:
            by = thread(self._ledger.thread_name(case.mark.tid))
            where = f"{context_name(case.mark.context)}, CPU {case.mark.cpu}"
            yield "publication", f"at {self._at(case.mark.t)}, by {by} ({where})"

    def _buttons(self, case: Case, words: str) -> Html:
        """To the whole wait, and to the moment of its event if that is a small part of it."""
        wait = picture.window(self._clock, case)
        places = [("show in the timeline", wait)]
        moment = picture.moment(self._clock, case)
        if moment and (moment[1] - moment[0]) * 8 < wait[1] - wait[0]:
            places.append(("zoom to the event", moment))
        buttons = (
            tag("button", text(name), type="button", data_show_from=f"{begin:.3f}",
                data_show_to=f"{end:.3f}", aria_label=f"{name}: {words}")
            for name, (begin, end) in places
        )  # fmt: skip
        return tag("div", *buttons, class_="bar")

    def _at(self, t: int) -> str:
        return f"{self._clock.us(t) / 1000:,.3f} ms"

    def _since(self, wait: Wait) -> Iterator[str]:
        rec = wait.record
        yield f"asleep since {self._at(rec.t_slept)}" if rec.t_slept else "never slept"
        end = rec.t_end or self._material.source.head.t_stop
        lasted = duration(max(0, end - rec.t_begin))
        yield f"returned {rec.ret} after {lasted}" if rec.t_end else f"open for {lasted}"

    def _call(self, call: Signal) -> Iterator[str]:
        rec = call.record
        of = f" of {self._object(rec.source)}" if rec.source else ""
        yield (
            f"signal {rec.seq} ({why_name(rec.why)}{of}) at "
            f"{self._at(rec.t)}, by {thread(self._ledger.thread_name(rec.waker))} "
            f"({context_name(rec.context)}, CPU {rec.cpu})"
        )
        woken = ", ".join(thread(self._ledger.thread_name(wake.tid)) for wake in call.wakes)
        yield f"found {rec.sleepers} asleep, woke {woken or 'nobody'}"

    def _story(self, finding: Finding, first: bool) -> Html:
        """The events in order, and the stacks. The first line is in the heading."""
        lines = story(self._ledger, finding, Rules(names=self._material.names))
        what = "the story, with stacks" if self._ledger.stacks else "the story"
        # Each line has its own block, so that a wrapped line keeps its indent.
        told = lines.partition("\n")[2].splitlines(keepends=True)
        blocks = (
            tag("span", wrapped(line), class_="event" if " ms  " in line else "frame")
            for line in told
        )
        events = tag("pre", *blocks, class_="story")
        return tag("details", tag("summary", text(what)), events, open="" if first else None)

    def _stacks(self, wait: Wait) -> Html:
        stacks = wait.stacks
        if stacks is None:
            return NOTHING
        parts = []
        for name, numbers in (("sleeper", stacks.sleeps), ("waker", stacks.wakes)):
            frames = "\n".join(self._ledger.frames(*numbers)) or "not recorded"
            parts += [tag("h4", text(name)), tag("pre", text(frames), class_=name)]
        return tag("details", tag("summary", text("stacks")), *parts)

    def never(self) -> Html:
        """The table of waits that were open at the end, the oldest first."""
        waits = [pair for pair in self._ledger.waits() if not pair[1].finished]
        if not waits:
            return tag("p", text("None."))
        waits.sort(key=lambda pair: pair[1].record.t_begin)
        head = header(("thread", None), ("on", None), ("since", None), ("age", "age_ns"),
                      ("where", None))  # fmt: skip
        rows = [self._open(queue, wait) for queue, wait in waits[:MAX_NEVER]]
        parts = [table("never", head, rows, FIRST_NEVER)]
        return joined([*parts, left_out(len(waits) - len(rows), "further ones")])

    def _open(self, queue: Queue, wait: Wait) -> Html:
        rec = wait.record
        age = max(0, self._material.source.head.t_stop - rec.t_begin)
        who = f"{thread(self._ledger.thread_name(rec.tid))}, wait {wait.number}"
        return tag(
            "tr",
            tag("th", wrapped(who), scope="row"),
            tag("td", wrapped(self._object(queue.id)), data_label="on"),
            tag("td", text(self._at(rec.t_begin)), data_label="since"),
            number("age_ns", age, duration(age), label="age"),
            tag("td", self._stacks(wait)),
            data_queue=queue.id, data_tid=rec.tid, data_wait=wait.number,
        )  # fmt: skip
