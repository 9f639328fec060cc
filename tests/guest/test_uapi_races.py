# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Threads of one client against each other: readers, closers, everybody at random."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call, Child, Hook, Mock, handler

import kfabric_py as kp
from kfabric.guest import sleeping
from kfabric_py import _uapi

InThread = Callable[[Callable[[], Any]], Call[Any]]
InChild = Callable[[Callable[[Callable[[str], None]], int]], Child]


def test_readers_of_a_queue_take_turns(mock: Mock, in_thread: InThread) -> None:
    """X2: hook D7, between look and copy: the second reader waits, no entry goes twice."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    for number in range(2):
        mock.inject(ep, data=number)
    hook = mock.hook("D7", cq)
    first = in_thread(lambda: cq.read(1))
    hook.stopped()
    second = in_thread(lambda: cq.read(1))
    sleeping.wait_until_asleep(second.tid, "^kfd_cq_take")
    hook.go()
    assert [entry.data for entry in first.result()] == [0]
    assert [entry.data for entry in second.result()] == [1]


def test_signal_ends_a_long_read_early(mock: Mock, in_thread: InThread) -> None:
    """X2, V6: hook D7: a signal at the first look; what was read counts, the rest is there."""
    cq = mock.cq(64)
    mock.inject(mock.endpoint(cq=cq), count=64)
    room = (_uapi.kfab_cq_entry * 64)()
    arg = raw.sample("CQ_READ", cq=cq._handle, count=64, entries=ctypes.addressof(room))
    ident: list[int] = []

    def read() -> int:
        ident.append(threading.get_ident())
        return raw.call(mock.device.fileno(), "CQ_READ", arg)

    with handler(signal.SIGUSR1, lambda: None, restart=False):
        hook = mock.hook("D7", cq)
        call = in_thread(read)
        hook.stopped()
        signal.pthread_kill(ident[0], signal.SIGUSR1)
        hook.go()
        got = call.result()
    assert 0 < got < 64
    assert len(cq.read(64)) == 64 - got


def test_close_waits_for_no_reader_of_events(mock: Mock, in_thread: InThread) -> None:
    """X2, O3: hook D7 of an EQ: the endpoint closes while its event is handed out.

    The event that is being read still names it. The next one is not taken with it.
    """
    eq = mock.fabric.eq()
    ep = mock.endpoint(cq=mock.cq(), eq=eq)
    handle = ep._live_handle()
    mock.command("event", ep.trace_id, 2)
    eq.write(data=497)
    arg = raw.sample("EQ_READ", eq=eq._live_handle())
    hook = mock.hook("D7", eq)
    reading = in_thread(lambda: raw.call(mock.device.fileno(), "EQ_READ", arg))
    hook.stopped()
    in_thread(ep.close).result()
    hook.go()
    assert reading.result() > 0
    assert (arg.out_event, arg.out_handle) == (int(kp.Event.CONNECTED), handle)
    rest = eq.read()
    assert rest is not None and rest.data == 497
    assert eq.read() is None
    eq.close()


@dataclass
class Held:
    """A queue that is being closed while a call on it stands at hook D7."""

    mock: Mock
    cq: kp.CompletionQueue
    hook: Hook
    reading: Call[Any]
    closing: Call[Any]

    @classmethod
    def new(cls, mock: Mock, in_thread: InThread) -> Held:
        """Return once the close waits for the call."""
        cq = mock.domain.cq(8)
        with mock.fabric.eq() as eq, mock.domain.endpoint(mock.info) as ep:
            ep.bind(cq, recv=True, transmit=True)
            ep.bind(eq)
            ep.enable()
            mock.inject(ep)
        hook = mock.hook("D7", cq)
        reading = in_thread(lambda: cq.read(1))
        hook.stopped()
        handle = cq._live_handle()
        closing = in_thread(lambda: close(mock, handle))
        closing.asleep("^kfd_obj_close")
        return cls(mock, cq, hook, reading, closing)

    def go(self) -> int:
        """Let the call end; return the result of the close."""
        self.hook.go()
        assert len(self.reading.result()) == 1
        result = self.closing.result()
        if not result:
            self.cq._mark_closed()
        assert isinstance(result, int)
        return result


def close(mock: Mock, handle: int) -> int:
    """Close a handle, past the library; return the result."""
    return raw.call(mock.device.fileno(), "CLOSE", raw.sample("CLOSE", handle=handle))


def test_close_waits_for_a_call_in_progress(mock: Mock, in_thread: InThread) -> None:
    """O1: hook D7: a read that does not block; the close is not refused."""
    assert Held.new(mock, in_thread).go() == 0


def test_close_that_waits_keeps_only_its_object(mock: Mock, in_thread: InThread) -> None:
    """O1, O3: hook D7: other objects close, events are read; a new call on it waits: EBADF."""
    held = Held.new(mock, in_thread)
    late = in_thread(lambda: held.cq.read(1))
    sleeping.wait_until_asleep(late.tid, "^kfd_pin")
    other, eq = mock.domain.cq(8), mock.eq()
    in_thread(other.close).result()
    assert in_thread(eq.read).result() is None
    assert held.go() == 0
    with pytest.raises(kp.ClosedError):
        late.result()


def test_close_that_waited_is_refused_for_a_new_user(mock: Mock, in_thread: InThread) -> None:
    """O1, V8: hook D7: a call that has a poll set already adds the queue to it: EBUSY.

    That call must not wait for the close, which waits for calls.
    """
    held = Held.new(mock, in_thread)
    poll = mock.poll_set()
    in_thread(lambda: poll.add(held.cq)).result()
    assert held.go() == -errno.EBUSY
    assert held.cq.read(1) == []
    poll.remove(held.cq)
    held.cq.close()


def test_interrupted_close_changes_nothing(mock: Mock, in_thread: InThread) -> None:
    """O1, V8: hook D7: a signal ends the close that waits; the queue works as before."""
    held = Held.new(mock, in_thread)
    with handler(signal.SIGUSR1, lambda: None, restart=False):
        signal.pthread_kill(held.closing.ident, signal.SIGUSR1)
        assert held.closing.result() == -errno.EINTR
    assert held.go() == -errno.EINTR
    assert held.cq.read(1) == []
    held.cq.close()


def test_close_gives_back_what_the_object_held(
    mock: Mock, in_thread: InThread, in_child: InChild
) -> None:
    """O1, X3: before it returns, also if a thread that waits for its outcome has yet to run.

    The closing process keeps the CPU from that thread.
    """
    fd, before = mock.device.fileno(), mock.device.version().bytes
    cpu = min(os.sched_getaffinity(0))
    ep = mock.endpoint(cq=mock.cq())
    handle = ep._live_handle()
    with mock.device.buffer(raw.PAGE) as buffer:
        ep.recv(buffer)
    memory = raw.Pages.new()
    page = raw.Userfault(memory.address)
    send = raw.sample("SEND", ep=handle, iov=memory.address, iov_count=1)
    sending = in_thread(lambda: raw.call(fd, "SEND", send))
    page.touched(LIMIT)

    def close_first(_report: Callable[[str], None]) -> int:
        os.sched_setaffinity(0, [cpu])
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return int(close(mock, handle) or mock.device.version().bytes != before)

    def close_again() -> int:
        os.sched_setaffinity(0, [cpu])
        return close(mock, handle)

    first = in_child(close_first)
    sleeping.wait_until_asleep(first.pid, "^kfd_obj_close")
    again = in_thread(close_again)
    sleeping.wait_until_asleep(again.tid, "^kfd_obj_close")
    page.give()
    assert (sending.result(), again.result()) == (-errno.EBADF, -errno.EBADF)
    ep._mark_closed()
    assert first.wait() == 0
    page.close()
    memory.free()


@pytest.mark.races
def test_every_entry_goes_to_one_of_many_readers(mock: Mock, in_thread: InThread) -> None:
    """X2, Q3: 997 entries, five reading threads: each entry exactly once."""
    cq = mock.cq(1024)
    ep = mock.endpoint(cq=cq)
    total, lock = 997, threading.Lock()
    got: list[int] = []

    def read() -> None:
        while len(got) < total:
            entries = cq.sread(7, timeout=0.5)
            with lock:
                got.extend(entry.data for entry in entries)

    calls = [in_thread(read) for _ in range(5)]
    for number in range(total):
        mock.inject(ep, data=number)
    for call in calls:
        call.result()
    assert sorted(got) == list(range(total))


@pytest.mark.races
@pytest.mark.parametrize("threads", [4])
def test_racing_threads_break_nothing(mock: Mock, in_thread: InThread, threads: int) -> None:
    """O1, O3, O4: random calls of all kinds on the same handles, closes among them.

    Nothing is asserted of the results but that they are documented; the kernel
    must not complain, and the client must go without a rest.
    """
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    device = kp.Device()
    fd = device.fileno()
    info = _uapi.kfab_info(size=ctypes.sizeof(_uapi.kfab_info))
    info.prov_name[:4] = list(b"mock")
    ask = raw.sample("GETINFO", hints=ctypes.addressof(info), count=1)
    found = _uapi.kfab_info()
    ask.infos, ask.info_size = ctypes.addressof(found), ctypes.sizeof(found)
    assert raw.call(fd, "GETINFO", ask) == 1
    handles = [1]

    def storm(rng: random.Random) -> int:
        room = (_uapi.kfab_cq_entry * 8)()
        done = 0
        for _ in range(503):
            name = rng.choice(sorted(set(raw.CALLS) - {"GETINFO"}))
            arg = raw.sample(name)
            fields = raw.fields(raw.CALLS[name][1])
            for field in raw.HANDLES.get(name, {"handle": ""} if name == "CLOSE" else {}):
                setattr(arg, field, rng.choice(handles[-40:]))
            for field, value in {
                "info": ctypes.addressof(found),
                "entries": ctypes.addressof(room) if "POLL" in name or "READ" in name else 16,
                "count": 8,
                "length": 4096,
                "wait_obj": rng.choice([0, 1, 2, 3]),
                "wait_set": rng.choice([0, *handles[-40:]]),
                "deadline": 1 if "SREAD" in name or "WAIT" in name else 0,
                "bind_flags": rng.choice([0, _uapi.KFAB_RECV | _uapi.KFAB_TRANSMIT]),
                "command": rng.choice([5, 6, 15]),
            }.items():
                if field in fields and field not in raw.HANDLES.get(name, {}):
                    setattr(arg, field, value)
            if raw.call(fd, name, arg) >= 0:
                done += 1
                if hasattr(arg, "out_handle") and arg.out_handle:
                    handles.append(arg.out_handle)
                if name == "CONTROL" and arg.command == _uapi.KFAB_GETWAIT:
                    os.close(arg.value)
        return done

    opened = raw.sample("FABRIC_OPEN", info=ctypes.addressof(found))
    assert raw.call(fd, "FABRIC_OPEN", opened) == 0
    domain = raw.sample("DOMAIN_OPEN", fabric=opened.out_handle, info=ctypes.addressof(found))
    assert raw.call(fd, "DOMAIN_OPEN", domain) == 0
    handles += [opened.out_handle, domain.out_handle]
    calls = [in_thread(partial(storm, random.Random(seed + n))) for n in range(threads)]
    assert sum(call.result() for call in calls) > 0
    device.close()
