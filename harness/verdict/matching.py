# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Matches the messages of a job with the waits that they ended."""

from collections.abc import Sequence

from kfabric.recording.records import Why
from kfabric.verdict.kinds import Finding, Kind, Match, Side
from kfabric.verdict.ledger import Queue, Signal, Wait
from kfabric.verdict.words import Analysis


def match_side(
    analysis: Analysis, queue: Queue, side: Side, faulty: bool
) -> tuple[Match, list[Finding]]:
    """Match each message's publication with the one wait that it ended, in order.

    ``faulty``: waits of this queue have faults of their own, so an unmatched message
    next to them proves nothing more.
    """
    messages = [
        signal
        for signal in queue.signals.values()
        if signal.record.source == side.source and signal.record.why == Why.EVENT
    ]
    waits = queue.waits_of(side.tid)
    pairs = _pair(messages, [wait for wait in waits if wait.succeeded])
    findings = []
    for index, signal in enumerate(messages):
        if pairs[index] is not None:
            continue
        other = _awake_for(signal, waits, side)
        if other and other.record.ended:
            pairs[index] = other
        elif not other and not faulty:
            text = (
                f"{analysis.event(signal)}, message {index + 1} of {side.name}, ended no wait "
                f"on {analysis.object(queue.id)}"
            )
            findings.append(Finding(Kind.ORDER, queue.id, text, seq=signal.record.seq))
    if len(messages) != side.messages:
        text = (
            f"{side.name}: {len(messages)} publications on "
            f"{analysis.object(side.source)}, {side.messages} were to come"
        )
        findings.append(Finding(Kind.ORDER, queue.id, text))
    return Match(tuple(messages), tuple(pairs)), findings


def _awake_for(signal: Signal, waits: Sequence[Wait], side: Side) -> Wait | None:
    """The wait after which a thread was awake when a message came that ended no wait.

    The thread had left the queue for an event of another member, or at its
    deadline. It may look at all members then, and need not wait for this one.
    """
    begun = [wait for wait in waits if wait.record.t_begin < signal.record.t]
    if signal.record.sleepers or not begun:
        return None
    last = begun[-1]
    other = last.timed_out or (last.last_wake and last.record.source != side.source)
    return last if other else None


def _pair(messages: Sequence[Signal], waits: Sequence[Wait]) -> list[Wait | None]:
    """For each publication the wait that it ended, in order.

    A wait names the publication that woke it. A wait that found its message without
    sleeping names none, and belongs to the last message that is left: the thread read
    earlier messages before that wait, while it was awake for another event. Hence the
    order from the last message to the first.
    """
    named = {wait.record.seq for wait in waits if wait.record.ended}
    pairs: list[Wait | None] = []
    left = list(waits)
    for signal in reversed(messages):
        seq, found = signal.record.seq, None
        for index in range(len(left) - 1, -1, -1):
            rec = left[index].record
            if rec.seq == seq if rec.ended else seq not in named:
                found = left[index]
                del left[index:]
                break
            if rec.ended and rec.seq < seq:
                break
        pairs.append(found)
    return pairs[::-1]
