# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The probes against a known workload: what they count is what happened.

One recording for the whole module, since loading the probe is what costs::

    main thread                     reader
    inject (from each context) ──►  asleep in wait() on a set with one CQ
    wait until it sleeps again      reads the entry, waits again
    ... 97 times; then the probe is stopped while the reader sleeps
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from guest_support import LIMIT, Call, Mock

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest.sleeping import wait_until_asleep
from kfabric.probes import compiled
from kfabric.probes.loader import HEAD, RECORDS, Probe
from kfabric.recording.records import Context, FClass, Recording, from_guest
from kfabric.verdict.ledger import Ledger, Queue, build
from kfabric.verdict.verdict import Outcome, Rules, Side, judge

InThread = Callable[[Callable[[], Any]], Call[Any]]

EVENTS = 97
CONTEXTS = ("process", "softirq", "workqueue")


class Reader(threading.Thread):
    """Waits on a set and reads its CQ until it is told to end."""

    def __init__(self, wait_set: kp.WaitSet, cq: kp.CompletionQueue) -> None:
        super().__init__(daemon=True)
        self.read = 0
        self._wait_set = wait_set
        self._cq = cq

    def run(self) -> None:
        while self.read <= EVENTS:
            self._wait_set.wait(timeout=LIMIT)
            self.read += len(self._cq.read())


@dataclass(frozen=True)
class Watched:
    """The recording, and who did what in it."""

    recording: Recording
    ledger: Ledger
    wait_set: int
    cq: int
    reader: int
    injector: int

    @property
    def queue(self) -> Queue:
        """The wait set's side of the ledger."""
        return self.ledger.queues[self.wait_set]


def play(mock: Mock) -> tuple[Reader, kp.WaitSet, kp.CompletionQueue, kp.Endpoint]:
    """Complete from each context in turn, each time on a sleeping reader."""
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.QUEUE)
    cq = mock.cq(wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    reader = Reader(wait_set, cq)
    reader.start()
    assert reader.native_id is not None
    for context in islice(cycle(CONTEXTS), EVENTS):
        wait_until_asleep(reader.native_id, deadline=LIMIT)
        mock.inject(ep, context=context)
    wait_until_asleep(reader.native_id, deadline=LIMIT)
    return reader, wait_set, cq, ep


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Load the probe, play, stop it; the reader ends afterwards, unseen."""
    guest_modules.Modules.from_environment().load()
    directory: Path = tmp_path_factory.mktemp("recording")
    with ExitStack() as stack:
        probe = stack.enter_context(Probe())
        device = stack.enter_context(kp.Device())
        info = device.getinfo(provider="mock")[0]
        fabric = stack.enter_context(device.fabric(info))
        domain = stack.enter_context(fabric.domain(info))
        mock = Mock(device, info, fabric, domain, stack.enter_context(ExitStack()))
        reader, wait_set, cq, ep = play(mock)
        probe.stop(directory)
        mock.inject(ep)
        reader.join(LIMIT)
        head = json.loads((directory / HEAD).read_text())
        recording = from_guest(head, (directory / RECORDS).read_bytes())
        yield Watched(
            recording,
            build(recording),
            wait_set.trace_id,
            cq.trace_id,
            reader.native_id or 0,
            threading.get_native_id(),
        )


def test_every_event_is_counted_once(watched: Watched) -> None:
    """F7: a prime number of events gives exactly that many signals, wakes and waits."""
    assert not watched.recording.losses
    assert watched.ledger.doubts == ()
    assert list(watched.queue.signals) == list(range(1, EVENTS + 1))
    assert len(watched.queue.all_wakes()) == EVENTS
    assert sum(wait.finished for wait in watched.queue.waits) == EVENTS


def test_run_is_verified(watched: Watched) -> None:
    """Each event ended the wait of the thread that it was for."""
    side = Side("reader", watched.reader, watched.wait_set, watched.cq, EVENTS)
    verdict = judge(watched.ledger, Rules(sides=(side,)))
    assert verdict.findings == () and verdict.outcome is Outcome.VERIFIED
    assert verdict.matched == EVENTS


def test_wait_that_goes_on_is_recorded(watched: Watched) -> None:
    """What has not ended when the probe stops is in the recording, as not ended."""
    (open_wait,) = [wait for wait in watched.queue.waits if not wait.finished]
    assert open_wait.record.tid == watched.reader
    assert open_wait.slept and not open_wait.wakes


def test_wakers_are_told_with_their_context(watched: Watched) -> None:
    """W10: process, softirq and workqueue are told apart, and so is who woke."""
    told = [Context(signal.record.context) for signal in watched.queue.signals.values()]
    expected = {
        "process": Context.PROCESS,
        "softirq": Context.SOFTIRQ,
        "workqueue": Context.PROCESS,
    }
    assert told == [expected[context] for context in islice(cycle(CONTEXTS), EVENTS)]
    wakers = [signal.record.waker for signal in watched.queue.signals.values()]
    assert set(wakers[::3]) == {watched.injector}
    assert watched.injector not in wakers[2::3]


def test_scheduler_agrees_with_every_wake(watched: Watched) -> None:
    """Cross-check: the scheduler woke each sleeper once, after our wake, for no other reason."""
    ended = [wait.record for wait in watched.queue.waits if wait.finished]
    assert Counter((rec.sleeps, rec.wakes, rec.foreign) for rec in ended) == {(1, 1, 0): EVENTS}
    for rec in ended:
        assert rec.t_begin < rec.t_slept < rec.t_wake <= rec.t_waking <= rec.t_running < rec.t_end


def test_objects_and_memberships_are_told(watched: Watched) -> None:
    """The ledger knows what the set is, and that the CQ is in it."""
    assert watched.ledger.objects[watched.wait_set].fclass == FClass.WAIT
    assert watched.ledger.objects[watched.cq].fclass == FClass.CQ
    assert watched.ledger.members[watched.wait_set] == {watched.cq}


def test_reader_of_the_probe_is_not_in_it(watched: Watched) -> None:
    """Only threads inside a wait are followed, so the probe does not feed on itself."""
    waiters = {wait.record.tid for queue in watched.ledger.queues.values() for wait in queue.waits}
    assert waiters == {watched.reader}


def test_detached_probe_counts_no_wakes(mock: Mock, in_thread: InThread) -> None:
    """It has not seen the wait, so the kernel's wake would look like one outside any wait."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    with Probe() as probe:
        probe.detach()
        call = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
        mock.inject(ep)
        call.result()
        assert probe.counters().strays == {}


def test_probe_is_compiled_at_most_once(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later probe with other options loads what an earlier one has left, without bcc."""

    def fail(source: compiled.Source) -> compiled.Compiled:
        raise AssertionError("the probe is compiled again")

    monkeypatch.setattr(compiled, "compile_source", fail)
    with Probe(stacks=True, quiet=True) as probe:
        assert not probe.compiled
