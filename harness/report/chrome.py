# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A timeline as Chrome trace JSON, a readable format that most viewers open.

Waits are asynchronous events (begin and end with an id), since calls on one viewer's
track may overlap. A wait that never returned has no end, and is drawn to the end of the
picture. Arrows lead from the signal to the running thread.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from kfabric.report.files import whole
from kfabric.report.words import context_name, why_name
from kfabric.verdict.ledger import Ledger, Queue, Wait
from kfabric.verdict.verdict import Verdict

# The timeline's first process: one track for each CPU, with what was signalled there.
_SIGNALS_PID = 0


def events(ledger: Ledger, names: Mapping[int, str], verdict: Verdict) -> Iterator[dict[str, Any]]:
    """The timeline's events, one at a time."""
    found: defaultdict[tuple[int, int, int], list[str]] = defaultdict(list)
    for finding in verdict.findings:
        found[finding.queue, finding.tid, finding.wait].append(str(finding))
    yield from _threads(ledger)
    yield from _signal_slices(ledger, names)
    widths = _return_widths(ledger)
    for number, (queue, wait) in enumerate(ledger.waits(), 1):
        mine = found.get((queue.id, wait.record.tid, wait.number), [])
        on = ledger.object_name(queue.id, names)
        yield from _wait_events(ledger, on, queue, wait, number, mine, widths.get(id(wait), 0))


def write(
    path: Path,
    ledger: Ledger,
    names: Mapping[int, str],
    verdict: Verdict,
    other: Mapping[str, Any] | None = None,
) -> None:
    """Write the timeline; ``other`` are further facts about the run, for the viewer.

    Raises:
        OSError: The file cannot be written.
    """
    about = json.dumps({"verdict": verdict.line(), **(other or {})})
    with whole(path) as file:
        file.write(f'{{"displayTimeUnit": "ns", "otherData": {about}, "traceEvents": ['.encode())
        for number, event in enumerate(events(ledger, names, verdict)):
            file.write((",\n" if number else "\n").encode() + json.dumps(event).encode())
        file.write(b"\n]}\n")


def _us(ns: int) -> float:
    """The format's unit: microseconds, with nanoseconds as fraction."""
    return ns / 1000


def _threads(ledger: Ledger) -> Iterator[dict[str, Any]]:
    yield _name("process_name", _SIGNALS_PID, 0, "signals")
    for cpu in sorted({signal.record.cpu for signal in ledger.signals()}):
        yield _name("thread_name", _SIGNALS_PID, cpu, f"CPU {cpu}")
    for tgid, tid in sorted({(wait.record.tgid, wait.record.tid) for _, wait in ledger.waits()}):
        name = ledger.threads.get(tid, f"thread {tid}")
        yield _name("thread_name", tgid, tid, name)
        if tgid == tid:
            yield _name("process_name", tgid, tid, name)


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _signal_slices(ledger: Ledger, names: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    """One short slice for each signal, on its CPU's track: an arrow must start at a slice."""
    last: dict[int, int] = {}
    for signal in reversed(ledger.signals()):
        rec = signal.record
        # If slices of one track overlap, viewers drop the second one.
        width = min(1000, last.get(rec.cpu, rec.t + 1000) - rec.t)
        last[rec.cpu] = rec.t
        yield {
            "ph": "X",
            "cat": "signal",
            "pid": _SIGNALS_PID,
            "tid": rec.cpu,
            "name": f"signal {ledger.object_name(rec.queue, names)}",
            "ts": _us(rec.t),
            "dur": _us(width),
            "args": {
                "seq": rec.seq,
                "source": ledger.object_name(rec.source, names),
                "why": why_name(rec.why),
                "sleepers": rec.sleepers,
                "woken": len(signal.wakes),
                "context": context_name(rec.context),
                "waker": ledger.thread_name(rec.waker),
            },
        }


def _return_widths(ledger: Ledger) -> dict[int, int]:
    """The drawn length of each wait's return, in nanoseconds, by the wait's identity.

    A thread that waited on several queues returns from all of them at once. Slices of
    one track must not overlap, so each one ends where the next one begins.
    """
    threads: defaultdict[int, list[Wait]] = defaultdict(list)
    for _, wait in ledger.waits():
        if wait.finished and wait.last_wake and wait.last_wake.t_running:
            threads[wait.record.tid].append(wait)
    widths = {}
    for waits in threads.values():
        waits.sort(key=lambda wait: wait.record.t_running)
        for wait, following in zip_longest(waits, waits[1:]):
            begin, end = wait.record.t_running, wait.record.t_end
            if following:
                end = min(end, following.record.t_running)
            widths[id(wait)] = max(0, end - begin)
    return widths


def _wait_events(
    ledger: Ledger, on: str, queue: Queue, wait: Wait, number: int, found: list[str], width: int
) -> Iterator[dict[str, Any]]:
    """Begin and end of a wait, the return of its thread, and the arrow to that."""
    rec = wait.record
    common = {
        "cat": "wait",
        "id": f"wait-{number}",
        "pid": rec.tgid,
        "tid": rec.tid,
        "name": f"wait {wait.number} on {on}",
    }
    args: dict[str, Any] = {"findings": found} if found else {}
    yield common | {"ph": "b", "ts": _us(rec.t_begin), "args": args}
    if wait.finished:
        yield common | {
            "ph": "e",
            "ts": _us(rec.t_end),
            "args": {"ret": rec.ret, "seq": rec.seq if rec.ended else 0, "ready": bool(rec.ready)},
        }
    wake = wait.last_wake
    signal = queue.signal_of(wake) if wake else None
    if wake is None or signal is None or not wake.t_running or not wait.finished:
        return
    thread = {"pid": rec.tgid, "tid": rec.tid, "ts": _us(wake.t_running)}
    yield thread | {
        "ph": "X",
        "cat": "return",
        "name": "woken",
        "dur": _us(width),
        "args": {
            "by": ledger.thread_name(wake.waker),
            "waking_ns": wake.t_waking - signal.record.t if wake.t_waking else 0,
            "running_ns": wake.t_running - signal.record.t,
        },
    }
    arrow = {"cat": "wake", "name": "wake", "id": number}
    start = {"pid": _SIGNALS_PID, "tid": signal.record.cpu, "ts": _us(signal.record.t)}
    yield arrow | start | {"ph": "s"}
    yield arrow | thread | {"ph": "f", "bp": "e"}
