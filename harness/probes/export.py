# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a run leaves behind: a report, and a timeline that trace viewers open.

Files appear complete or not at all: a viewer refuses a truncated timeline.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.probes.ledger import Ledger, Queue, Signal, Wait
from harness.probes.records import Context, Why
from harness.probes.stats import Row
from harness.probes.verdict import Finding, Verdict

REPORT_SCHEMA = 1

# The timeline's first process: one track for each CPU, with what was signalled there.
_SIGNALS_PID = 0


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    """Write ``value`` to ``path`` by way of a temporary file next to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=indent)
            file.write("\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def report(verdict: Verdict, rows: Iterable[Row], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The report: verdict, table, and what the run adds (limits, versions)."""
    return {
        "schema": REPORT_SCHEMA,
        "verdict": verdict.outcome.value,
        "line": verdict.line(),
        "waits_matched": verdict.matched,
        "overtaken": verdict.overtaken,
        "findings": [asdict(f) | {"kind": f.kind.value} for f in verdict.findings],
        "doubts": list(verdict.doubts),
        "table": [asdict(row) for row in rows],
        **extra,
    }


def timeline(
    ledger: Ledger, names: Mapping[int, str], verdict: Verdict, versions: Mapping[str, str]
) -> dict[str, Any]:
    """The timeline as Chrome trace JSON.

    Waits are asynchronous (begin and end with an id), since calls may overlap on
    what a viewer takes for one track; one that never returned has no end and is
    drawn to the end of the picture. Arrows lead from signal to running thread.
    """
    events = [*_threads(ledger), *_signal_slices(ledger, names)]
    ids = iter(range(1, 1 << 62))
    for queue in ledger.queues.values():
        for wait in queue.waits:
            events += _wait_events(ledger, names, queue, wait, next(ids), verdict.findings)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"verdict": verdict.line(), **versions},
    }


def _us(ns: int) -> float:
    """The format's unit, with nanoseconds kept as fraction."""
    return ns / 1000


def _signals(ledger: Ledger) -> list[Signal]:
    """All signals of all queues, by time."""
    return sorted(
        (
            signal
            for queue in ledger.queues.values()
            for signal in (*queue.signals.values(), *queue.others)
        ),
        key=lambda signal: signal.record.t,
    )


def _threads(ledger: Ledger) -> Iterator[dict[str, Any]]:
    """Names of the tracks."""
    yield _name("process_name", _SIGNALS_PID, 0, "signals")
    for cpu in sorted({signal.record.cpu for signal in _signals(ledger)}):
        yield _name("thread_name", _SIGNALS_PID, cpu, f"CPU {cpu}")
    seen = {
        (wait.record.tgid, wait.record.tid)
        for queue in ledger.queues.values()
        for wait in queue.waits
    }
    for tgid, tid in sorted(seen):
        name = ledger.threads.get(tid, f"thread {tid}")
        yield _name("thread_name", tgid, tid, name)
        if tgid == tid:
            yield _name("process_name", tgid, tid, name)


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _signal_slices(ledger: Ledger, names: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    """One short slice a signal, on its CPU's track; an arrow needs one to start at."""
    last: dict[int, int] = {}
    for signal in reversed(_signals(ledger)):
        rec = signal.record
        # Slices of one track must not overlap, or viewers drop the second.
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
                "why": Why(rec.why).name.lower(),
                "sleepers": rec.sleepers,
                "woken": len(signal.wakes),
                "context": Context(rec.context).name.lower(),
                "waker": ledger.thread_name(rec.waker),
            },
        }


def _wait_events(
    ledger: Ledger,
    names: Mapping[int, str],
    queue: Queue,
    wait: Wait,
    number: int,
    findings: Iterable[Finding],
) -> Iterator[dict[str, Any]]:
    """Begin and end of a wait, its thread's way back, and the arrow that led there."""
    rec = wait.record
    common = {
        "cat": "wait",
        "id": f"wait-{number}",
        "pid": rec.tgid,
        "tid": rec.tid,
        "name": f"wait {wait.number} on {ledger.object_name(queue.id, names)}",
    }
    found = [
        str(f) for f in findings if (f.queue, f.tid, f.wait) == (queue.id, rec.tid, wait.number)
    ]
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
    yield {
        "ph": "X",
        "cat": "return",
        "name": "woken",
        "pid": rec.tgid,
        "tid": rec.tid,
        "ts": _us(wake.t_running),
        "dur": _us(rec.t_end - wake.t_running),
        "args": {
            "by": ledger.thread_name(wake.waker),
            "waking_ns": wake.t_waking - signal.record.t if wake.t_waking else 0,
            "running_ns": wake.t_running - signal.record.t,
        },
    }
    arrow = {"cat": "wake", "name": "wake", "id": number}
    yield arrow | {
        "ph": "s",
        "pid": _SIGNALS_PID,
        "tid": signal.record.cpu,
        "ts": _us(signal.record.t),
    }
    yield arrow | {"ph": "f", "bp": "e", "pid": rec.tgid, "tid": rec.tid, "ts": _us(wake.t_running)}
