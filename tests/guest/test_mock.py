# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The mock provider's commands: what they do, from where, and what they refuse."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uapi_support as raw
from guest_support import LIMIT, MOCK, Call, Mock

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric_py.info import info_to_raw

InThread = Callable[[Callable[[], object]], Call[object]]

TRACING = Path("/sys/kernel/tracing")

#: Lines that are no command; {ep}, {eq} and {domain} are objects that exist.
GARBAGE = [
    "",
    "\n",
    " ",
    "nonsense",
    "INJECT {ep} recv",
    "inject",
    "inject {ep}",
    "inject {ep} recv 1 1",
    "inject {ep} recv 0",
    "inject {ep} recv -1",
    "inject {ep} recv 1.5",
    "inject {ep} recv 1048577",
    "inject {ep} recv 1025 context=softirq",
    "inject {ep} receive",
    "inject {ep} recv\nx",
    "inject\t{ep}\trecv",
    "inject 0 recv",
    "inject -1 recv",
    "inject 4294967296 recv",
    "inject {ep}x recv",
    "inject {ep} recv colour=1",
    "inject {ep} recv =1",
    "inject {ep} recv len",
    "inject {ep} recv len=",
    "inject {ep} recv len=x",
    "inject {ep} recv len=-1",
    "inject {ep} recv len=1 len=1",
    "inject {ep} recv len=18446744073709551616",
    "inject {ep} recv err=0",
    "inject {ep} recv err=4096",
    "inject {ep} recv prov=1",
    "inject {ep} recv olen=1",
    "inject {ep} recv err=5 prov=2147483648",
    "inject {ep} send data=1",
    "inject {ep} recv entry=2",
    "inject {ep} recv context=",
    "inject {ep} recv context=hardirq",
    "complete {ep} recv entry=0",
    "complete {ep} remote_write",
    "complete {ep} remote_read",
    "event {eq}",
    "event {eq} x",
    "event {eq} 1",
    "event {eq} -1",
    "event {eq} 4294967296",
    "event {eq} 0 0",
    "event {eq} 0 len=1",
    "event {eq} 0 err=1",
    "eqerr {eq}",
    "eqerr {eq} 5",
    "eqerr {eq} err=0",
    "eqerr {eq} err=5 len=1",
    "lose",
    "lose {domain} {domain}",
    "lose {domain} context=softirq",
    "hook",
    "hook arm",
    "hook arm D1",
    "hook arm D0 1",
    "hook arm D99 1",
    "hook arm 1 1",
    "hook arm D1 x",
    "hook go",
    "hook go D1 1",
    "hook stop D1",
    "fault",
    "fault lost",
    "fault odd {eq}",
    "fault lost {eq} x",
    "inject {ep} recv" + " " * 256,
    "inject {ep} recv\0",
]


class Objects:
    """An endpoint with everything bound to it."""

    def __init__(self, mock: Mock, wait_set: kp.WaitSet | None = None) -> None:
        """Open them, all members of ``wait_set`` if there is one."""
        self.cq = mock.cq(wait_set=wait_set)
        self.eq = mock.eq(wait_set=wait_set)
        self.cntr = mock.counter(wait_set=wait_set)
        self.ep = mock.endpoint(cq=self.cq, eq=self.eq, cntr=self.cntr)


def refusal(mock: Mock, line: str) -> int:
    """Return the error number that a command is refused with."""
    with pytest.raises(OSError) as refused:
        mock.command(line)
    assert refused.value.errno is not None
    return refused.value.errno


def nothing_happened(objects: Objects) -> bool:
    """Has nothing been reported to any of the objects?"""
    return (
        objects.cq.read() == []
        and objects.eq.read() is None
        and objects.cntr.read() == 0
        and objects.cntr.readerr() == 0
    )


def test_garbage_is_refused_and_does_nothing(mock: Mock) -> None:
    """X-like strictness: EINVAL for everything that is not a command, no side effect."""
    objects = Objects(mock)
    names = {
        "ep": objects.ep.trace_id,
        "eq": objects.eq.trace_id,
        "domain": mock.domain.trace_id,
    }
    before = mock.state()
    found = {line: refusal(mock, line.format(**names)) for line in GARBAGE}
    assert {line for line, code in found.items() if code != errno.EINVAL} == set()
    assert mock.state() == before
    assert nothing_happened(objects)


@pytest.mark.parametrize(
    "line",
    ["inject {} recv", "complete {} recv", "event {} 0", "eqerr {} err=5", "lose {}"],
)
def test_unknown_objects_are_refused(mock: Mock, line: str) -> None:
    """ENOENT for an id that no open object has, or one of another kind."""
    objects = Objects(mock)
    for number in (0xFFFFFFFF, objects.cq.trace_id):
        assert refusal(mock, line.format(number)) == errno.ENOENT
    assert nothing_happened(objects)


def test_a_closed_object_is_unknown(mock: Mock) -> None:
    """O1: after close no command finds it."""
    objects = Objects(mock)
    objects.ep.close()
    assert refusal(mock, f"inject {objects.ep.trace_id} recv") == errno.ENOENT
    objects.eq.close()
    assert refusal(mock, f"event {objects.eq.trace_id} 0") == errno.ENOENT


def test_an_endpoint_must_be_enabled(mock: Mock) -> None:
    """Bindings are final only then: KFI_EOPBADSTATE, for posts and commands."""
    cq = mock.cq()
    ep = mock.stack.enter_context(mock.domain.endpoint(mock.info))
    assert refusal(mock, f"inject {ep.trace_id} recv") == kp.KfabricErrno.KFI_EOPBADSTATE
    assert refusal(mock, f"event {ep.trace_id} 2") == kp.KfabricErrno.KFI_ENOEQ
    ep.bind(cq, recv=True, transmit=True)
    with pytest.raises(kp.BadState):
        ep.recv(mock.device.buffer(64))


def test_complete_takes_the_oldest_pending(mock: Mock) -> None:
    """Completions come in the order of posting, with context and posted length."""
    objects = Objects(mock)
    with mock.device.buffer(64) as buffer:
        for number in range(5):
            objects.ep.recv(buffer[: 10 + number], context=number)
        mock.complete(objects.ep, "recv", 2)
        assert [(e.context, e.len) for e in objects.cq.read()] == [(0, 10), (1, 11)]
        assert mock.state()[f"ep {objects.ep.trace_id}"]["recv"] == "3"
        mock.complete(objects.ep, "recv", 1, len=7, data=0x12345678)
        (entry,) = objects.cq.read()
        assert (entry.context, entry.len, entry.data) == (2, 7, 0x12345678)
        assert entry.flags == kp.CqFlags.MSG | kp.CqFlags.RECV | kp.CqFlags.REMOTE_CQ_DATA
        assert objects.cntr.read() == 3
        objects.ep.close()


def test_complete_takes_all_or_none(mock: Mock) -> None:
    """ENODATA if fewer are pending, and none of them is completed."""
    objects = Objects(mock)
    with mock.device.buffer(64) as buffer:
        objects.ep.recv(buffer)
        assert refusal(mock, f"complete {objects.ep.trace_id} recv 2") == errno.ENODATA
        assert refusal(mock, f"complete {objects.ep.trace_id} send") == errno.ENODATA
        assert nothing_happened(objects)
        mock.complete(objects.ep, "recv")
        assert len(objects.cq.read()) == 1


def test_complete_fails_an_operation(mock: Mock) -> None:
    """An error entry has context, err, prov_errno and lengths; the error counter counts."""
    objects = Objects(mock)
    with mock.device.buffer(64) as buffer:
        objects.ep.send(buffer, context="ours")
        mock.complete(objects.ep, "send", err=errno.EIO, prov=12, len=3, olen=4)
    with pytest.raises(kp.ErrorAvailable):
        objects.cq.read()
    error = objects.cq.readerr()
    assert error is not None
    assert (error.context, error.err, error.prov_errno) == ("ours", errno.EIO, 12)
    assert (error.len, error.olen) == (3, 4)
    assert (objects.cntr.read(), objects.cntr.readerr()) == (0, 1)


def test_selective_sends_complete_in_silence(mock: Mock) -> None:
    """Successes count without an entry unless asked for; failures always write one."""
    cq, cntr = mock.cq(), mock.counter()
    ep = mock.endpoint(cq=cq, cntr=cntr, selective=True)
    with mock.device.buffer(64) as buffer:
        for flags in (kp.OpFlags(0), kp.OpFlags.COMPLETION, kp.OpFlags(0)):
            ep.send(buffer, context=flags, flags=flags)
        ep.inject(buffer)
        mock.complete(ep, "send", 2)
        assert [entry.context for entry in cq.read()] == [kp.OpFlags.COMPLETION]
        assert cntr.read() == 2
        mock.complete(ep, "send", 2, err=errno.EIO)
        assert [cq.readerr() is None for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("field", ["tx_size", "rx_size"])
@pytest.mark.parametrize("size", [257, 1 << 32, 1 << 63])
def test_no_queue_is_deeper(mock: Mock, field: str, size: int) -> None:
    """X3: EINVAL for more than it offers; what is posted takes the kernel's memory."""
    info = info_to_raw(mock.info)
    setattr(info, field, size)
    arg = raw.sample("EP_OPEN", domain=mock.domain._handle, info=ctypes.addressof(info))
    assert raw.call(mock.device.fileno(), "EP_OPEN", arg) == -errno.EINVAL


def test_the_queue_is_as_deep_as_it_says(mock: Mock) -> None:
    """Again when as many are pending as rx_attr.size; a completion makes room."""
    objects = Objects(mock)
    with mock.device.buffer(64) as buffer:
        for _ in range(mock.info.rx_attr.size):
            objects.ep.recv(buffer)
        with pytest.raises(kp.Again):
            objects.ep.recv(buffer)
        mock.complete(objects.ep, "recv")
        objects.ep.recv(buffer)
        objects.ep.close()


@pytest.mark.parametrize("kind", ["send", "recv", "read", "write", "remote_read", "remote_write"])
def test_inject_makes_up_completions(mock: Mock, kind: str) -> None:
    """N entries of the kind, without a context."""
    objects = Objects(mock)
    mock.inject(objects.ep, kind, 3)
    what = kp.CqFlags.MSG if kind in ("send", "recv") else kp.CqFlags.RMA
    entries = objects.cq.read()
    assert [entry.flags for entry in entries] == [what | kp.CqFlags[kind.upper()]] * 3
    assert [entry.context for entry in entries] == [None] * 3


def test_inject_may_count_only(mock: Mock) -> None:
    """entry=0: as a remote write without data, which no CQ hears of."""
    objects = Objects(mock)
    mock.inject(objects.ep, count=4, entry=0)
    assert objects.cq.read() == []
    assert objects.cntr.read() == 4


def test_one_completion_is_one_publication(mock: Mock, in_thread: InThread) -> None:
    """Q8: CQ and counter in one set: the woken thread finds both, the next wait sleeps."""
    wait_set = mock.wait_set()
    objects = Objects(mock, wait_set)
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    mock.inject(objects.ep)
    call.result()
    assert len(objects.cq.read()) == 1
    assert objects.cntr.read() == 1
    with pytest.raises(kp.KfiTimeout):
        wait_set.wait(timeout=0)


def test_events_name_their_object(mock: Mock) -> None:
    """By EQ id: about the EQ, with data. By endpoint id: about the endpoint."""
    objects = Objects(mock)
    mock.command("event", objects.eq.trace_id, int(kp.Event.MR_COMPLETE), "data=7")
    event = objects.eq.read()
    assert event is not None
    assert (event.event, event.fid, event.data) == (kp.Event.MR_COMPLETE, objects.eq, 7)
    for number in (kp.Event.CONNECTED, kp.Event.SHUTDOWN):
        mock.command("event", objects.ep.trace_id, int(number))
        event = objects.eq.read()
        assert event is not None
        assert (event.event, event.fid) == (number, objects.ep)


def test_eqerr_is_read_with_readerr(mock: Mock) -> None:
    """The error has its number, the provider's and its data."""
    objects = Objects(mock)
    mock.command("eqerr", objects.ep.trace_id, "err=111", "prov=3", "data=9")
    with pytest.raises(kp.ErrorAvailable):
        objects.eq.read()
    error = objects.eq.readerr()
    assert error is not None
    assert (error.fid, error.err, error.prov_errno, error.data) == (objects.ep, 111, 3, 9)


def test_lose_tells_everyone(mock: Mock, in_thread: InThread) -> None:
    """O5: CQ and EQ get an error of ENODEV, the counter changes, sleepers return.

    What was pending is gone, later calls fail, closing works.
    """
    wait_set = mock.wait_set()
    objects = Objects(mock, wait_set)
    buffer = mock.stack.enter_context(mock.device.buffer(64))
    objects.ep.recv(buffer)
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    mock.command("lose", mock.domain.trace_id)
    call.result()
    for queue in (objects.cq, objects.eq):
        with pytest.raises(kp.ErrorAvailable):
            queue.read()
        error = queue.readerr()
        assert error is not None
        assert error.err == errno.ENODEV
    assert mock.state()[f"domain {mock.domain.trace_id}"]["lost"] == "1"
    assert mock.state()[f"ep {objects.ep.trace_id}"]["recv"] == "0"
    for later in (
        lambda: objects.ep.recv(buffer),
        lambda: mock.domain.endpoint(mock.info),
        mock.domain.cq,
    ):
        with pytest.raises(kp.DeviceLost):
            later()
    assert refusal(mock, f"lose {mock.domain.trace_id}") == errno.ENODEV


@contextlib.contextmanager
def tracing(event: str) -> Iterator[Callable[[], list[str]]]:
    """Trace one event of ours in a buffer of its own; the block gets a way to read it."""
    instance = TRACING / "instances" / f"kfabric-{os.getpid()}"
    instance.mkdir()
    try:
        enable = instance / "events/kfabric" / event / "enable"
        enable.write_text("1")
        yield lambda: [
            line for line in (instance / "trace").read_text().splitlines() if line[:1] != "#"
        ]
        enable.write_text("0")
    finally:
        instance.rmdir()


@pytest.mark.parametrize(
    ("context", "who", "softirq"),
    [("process", None, False), ("softirq", None, True), ("workqueue", "kworker/", False)],
)
def test_reports_come_from_where_they_should(
    mock: Mock, in_thread: InThread, context: str, who: str | None, softirq: bool
) -> None:
    """W10: the context in which the wake-up is made, as the tracer sees it."""
    wait_set = mock.wait_set()
    objects = Objects(mock, wait_set)
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    with tracing("signal") as trace:
        mock.inject(objects.ep, context=context)
        (line,) = [text for text in trace() if f"queue={wait_set.trace_id} " in text]
    call.result()
    # "comm-pid [cpu] irqs,need-resched,hardirq/softirq,preempt timestamp: ..."; with
    # PREEMPT_RT there is a second need-resched before the third.
    found = re.match(r"\s*(?P<comm>.+)-\d+\s+\[\d+\]\s+(?P<flags>\S+)", line)
    assert found is not None, line
    assert bool(re.match(r"..[.L]?[sSH]", found["flags"])) == softirq, line
    if who:
        assert found["comm"].startswith(who), line


def test_a_stopped_report_stops_nobody_else(mock: Mock, in_thread: InThread) -> None:
    """V1, hook D3: stored and not yet woken; other commands go on meanwhile."""
    first, second = Objects(mock), Objects(mock)
    hook = mock.hook("D3", first.cq)
    call = in_thread(lambda: mock.inject(first.ep))
    hook.stopped()
    assert len(first.cq.read()) == 1
    mock.inject(second.ep)
    assert len(second.cq.read()) == 1
    assert not call.done
    hook.go()
    call.result()
    assert refusal(mock, "hook go D3") == errno.ENOENT


def need_faults(mock: Mock) -> None:
    """Skip the test in a build without fault points."""
    if mock.state()["build"]["test"] != "1":
        pytest.skip("needs the modules' test-option build (KFABRIC_TEST=1)")


@pytest.mark.wrong_wakeups("lost", reason="a fault point makes it")
def test_fault_lost_wakes_nobody(mock: Mock, in_thread: InThread) -> None:
    """The publication is stored, its sleeper is not woken; the one after it is."""
    need_faults(mock)
    wait_set = mock.wait_set()
    objects = Objects(mock, wait_set)
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    mock.command("fault", "lost", wait_set.trace_id)
    mock.inject(objects.ep)
    assert not call.asleep().done
    mock.inject(objects.ep)
    call.result()
    assert len(objects.cq.read()) == 2


@pytest.mark.wrong_wakeups(may="late", reason="a fault point makes it")
def test_fault_late_wakes_later(mock: Mock, in_thread: InThread) -> None:
    """The sleeper is woken in the end, by a timer."""
    need_faults(mock)
    wait_set = mock.wait_set()
    objects = Objects(mock, wait_set)
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    mock.command("fault", "late", wait_set.trace_id, 50)
    mock.inject(objects.ep)
    call.result()


@pytest.mark.wrong_wakeups("spurious", reason="a fault point makes it")
def test_fault_spurious_wakes_for_nothing(mock: Mock, in_thread: InThread) -> None:
    """The wait returns although nothing is ready; ENOENT for an unknown queue."""
    need_faults(mock)
    wait_set = mock.wait_set()
    objects = Objects(mock, wait_set)
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    mock.command("fault", "spurious", wait_set.trace_id)
    call.result()
    assert nothing_happened(objects)
    assert refusal(mock, "fault spurious 0xffffffff") == errno.ENOENT


@pytest.mark.wrong_wakeups("herd", reason="a fault point makes it")
def test_fault_herd_wakes_all(mock: Mock, in_thread: InThread) -> None:
    """One entry, two sleepers, both woken: one gets it, the other sleeps again."""
    need_faults(mock)
    objects = Objects(mock)
    calls = [in_thread(lambda: objects.cq.sread(1, timeout=LIMIT)).asleep() for _ in range(2)]
    before = [call.switches for call in calls]
    mock.command("fault", "herd", objects.cq.trace_id)
    mock.inject(objects.ep)
    (still,) = [n for n, call in enumerate(calls) if not settled(call)]
    assert calls[still].asleep().switches > before[still]
    mock.inject(objects.ep)
    assert [len(call.result()) for call in calls] == [1, 1]  # type: ignore[arg-type]


def settled(call: Call[object]) -> bool:
    """Return whether the call has ended, once it has ended or sleeps again."""
    try:
        call.asleep()
    except LookupError:
        call.result()
        return True
    return False


def test_posting_forms_and_regions(mock: Mock) -> None:
    """Vectors, reads, writes and regions are taken; the keys differ."""
    objects = Objects(mock)
    buffer = mock.stack.enter_context(mock.device.buffer(4096))
    regions = [
        mock.stack.enter_context(mock.domain.mr(buffer, kp.Access.REMOTE_READ)) for _ in range(2)
    ]
    remote = regions[0].remote()
    assert len({region.remote().key for region in regions}) == 2
    objects.ep.recv([buffer[:8], buffer[8:16]])
    objects.ep.read(buffer[:64], remote)
    objects.ep.write(buffer[:64], remote, data=5)
    for kind in ("recv", "read", "write"):
        mock.complete(objects.ep, kind)
    flags = [entry.flags for entry in objects.cq.read()]
    rma = kp.CqFlags.RMA
    assert flags[1:] == [rma | kp.CqFlags.READ, rma | kp.CqFlags.WRITE]
    state = (MOCK / "state").read_text()
    assert state.count(f"mr domain={mock.domain.trace_id} ") == 2


def test_the_module_stays_while_it_is_used(mock: Mock, modules: guest_modules.Modules) -> None:
    """O6: rmmod is refused while a fabric of the provider is open."""
    with pytest.raises(guest_modules.ModuleInUse):
        guest_modules.remove("kfi_mock")
