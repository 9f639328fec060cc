# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Two witnesses of the same wakes: our tracepoints, and the kernel's own functions.

The second one knows nothing of queues and publications. It sees the kernel's wake
function run for a thread, and a thread being put to sleep, in the module's text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from harness.verdict.ledger import Wait
from harness.verdict.words import Court


def differences(court: Court) -> Iterator[str]:
    """Where the two views differ, in words; nothing if there is no second view."""
    if court.ledger.kernel is None:
        return
    yield from _of_waits(court)
    yield from _outside_waits(court)


def _of_waits(court: Court) -> Iterator[str]:
    """Wakes within waits, by thread; in one still open, the last may be on its way."""
    for queue in court.ledger.queues.values():
        sums: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        for wait in queue.waits:
            rec = wait.record
            if rec.wakes != rec.kernel_wakes and not _on_its_way(court, wait):
                sums[rec.tid][0] += rec.wakes
                sums[rec.tid][1] += rec.kernel_wakes
        for tid, (told, seen) in sums.items():
            yield (
                f"the two views differ: the tracepoints saw {told} wakes of "
                f"{court.ledger.thread_name(tid)} on {court.object(queue.id)}, the kernel's "
                f"wait functions {seen}"
            )


def _on_its_way(court: Court, wait: Wait) -> bool:
    """Has the kernel's wake function perhaps not run yet? It runs behind the tracepoint."""
    rec = wait.record
    recent = court.ledger.t_stop - rec.t_wake <= court.rules.late_ns
    return not wait.finished and recent and rec.wakes == rec.kernel_wakes + 1


def _outside_waits(court: Court) -> Iterator[str]:
    """Wakes and sleeps of threads that were in no wait, as far as the tracepoints tell."""
    assert court.ledger.kernel is not None
    told: defaultdict[int, int] = defaultdict(int)
    for queue in court.ledger.queues.values():
        for wake in queue.strays:
            told[wake.tid] += 1
    strays = court.ledger.kernel.strays
    for tid in sorted(set(told) | set(strays)):
        wakes, sleeps = strays.get(tid, (0, 0))
        if wakes != told[tid]:
            yield (
                f"the two views differ: outside any wait the tracepoints saw {told[tid]} wakes of "
                f"{court.ledger.thread_name(tid)}, the kernel's wait functions {wakes}"
            )
        if sleeps:
            yield (
                f"the two views differ: {court.ledger.thread_name(tid)} slept {sleeps} times in "
                "the module, as the kernel saw, and the tracepoints told of no wait"
            )
