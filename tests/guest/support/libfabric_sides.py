# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The two sides of the comparison with libfabric: the same calls on either.

Objects are opened and made ready; calls answer in words: ``"0"``, ``"-EAGAIN"``,
the names of the members that a poll returned.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import select
import time
from collections.abc import Callable
from typing import Any, Protocol

import libfabric as fi
from guest_support import LIMIT, Mock
from side_support import Sleeper, code

import kfabric_py as kp
from kfabric.guest import sleeping
from kfabric.guest.waiting import Deadline, wait_until
from kfabric_py import _uapi
from kfabric_py._call import deadline_after

#: Where a thread sleeps in libfabric: in one of the system's own waits.
SYSTEM_WAITS = r"^(do_epoll_wait|ep_poll|do_sys_poll|do_poll|futex_wait)"


class Side(Protocol):
    """What a scenario can do. Names of members are single letters."""

    patience: float
    where: str

    def wait_set(self, wait_obj: str = "fd") -> Any:
        """Open a wait set."""

    def poll_set(self, *members: Any) -> Any:
        """Open a poll set with these members."""

    def cq(self, name: str, wait_obj: str = "fd", wait_set: Any = None) -> Any:
        """Open a completion queue."""

    def counter(self, name: str, wait_obj: str = "fd", wait_set: Any = None) -> Any:
        """Open a counter."""

    def eq(self, name: str, wait_obj: str = "fd", wait_set: Any = None) -> Any:
        """Open an event queue."""

    def entry(self, cq: Any) -> None:
        """Put one completion into a queue."""

    def error(self, cq: Any) -> None:
        """Put one error into a queue."""

    def count(self, counter: Any) -> None:
        """Have a completion counted."""

    def wait(self, wait_set: Any, timeout: int) -> str:
        """fi_wait(), milliseconds."""

    def sread(self, queue: Any, timeout: int) -> str:
        """fi_cq_sread() of one entry or fi_eq_sread()."""

    def read(self, queue: Any) -> str:
        """fi_cq_read() of one entry."""

    def cntr_wait(self, counter: Any, threshold: int, timeout: int) -> str:
        """fi_cntr_wait()."""

    def change(self, counter: Any, operation: str, value: int) -> str:
        """fi_cntr_add(), set(), adderr() or seterr()."""

    def value(self, counter: Any) -> int:
        """fi_cntr_read()."""

    def poll(self, poll_set: Any, count: int) -> str:
        """fi_poll(): names, or the error."""

    def member(self, poll_set: Any, operation: str, member: Any) -> str:
        """fi_poll_add() or fi_poll_del()."""

    def trywait(self, *objects: Any) -> str:
        """fi_trywait()."""

    def signal(self, cq: Any) -> str:
        """fi_cq_signal()."""

    def write(self, eq: Any) -> str:
        """fi_eq_write()."""

    def close(self, opened: Any) -> str:
        """fi_close(), without closing anything else."""

    def readable(self, opened: Any) -> str:
        """Ask poll(2) whether the object's descriptor is readable now."""

    def wait_obj(self, opened: Any) -> str:
        """fi_control(FI_GETWAITOBJ)."""

    def getwait(self, opened: Any) -> str:
        """fi_control(FI_GETWAIT) of an object that may have none."""

    def pollfds(self, wait_set: Any, room: int) -> tuple[str, int]:
        """fi_control(FI_GETWAIT) of a POLLFD set: the result and the nfds returned."""


def sleeper(side: Side, call: Callable[[], str]) -> Sleeper:
    """Have a thread make a call that blocks, and return once it sleeps."""
    return Sleeper(call, side.where, side.patience).asleep()


def attempt(side: Side, call: Callable[[], str]) -> str:
    """Make a call that should not block, and say so if it does."""
    return Sleeper(call, side.where, side.patience).outcome()


def names(contexts: list[Any]) -> str:
    """Put the contexts that a poll returned into words."""
    return " ".join(contexts) or "nothing"


class Libfabric:
    """libfabric, through one of its providers."""

    where = SYSTEM_WAITS

    def __init__(self, provider: str, patience: float) -> None:
        """Open its fabric and domain on loopback."""
        self.patience = patience
        self._fabric = fi.Fabric(provider, fi.EP_DGRAM if provider == "udp" else fi.EP_RDM)
        self._endpoints: dict[int, tuple[fi.Object, int, fi.Object]] = {}

    def wait_set(self, wait_obj: str = "fd") -> fi.Object:
        return self._fabric.wait_set(wait_obj)

    def poll_set(self, *members: fi.Object) -> fi.Object:
        poll_set = self._fabric.poll_set()
        for each in members:
            fi.check(fi.poll_member(poll_set, "poll_add", each), "poll_add")
        return poll_set

    def cq(self, name: str, wait_obj: str = "fd", wait_set: fi.Object | None = None) -> fi.Object:
        return self._fabric.cq(ord(name), "set" if wait_set else wait_obj, wait_set)

    def counter(
        self, name: str, wait_obj: str = "fd", wait_set: fi.Object | None = None
    ) -> fi.Object:
        return self._fabric.counter(ord(name), "set" if wait_set else wait_obj, wait_set)

    def eq(self, name: str, wait_obj: str = "fd", wait_set: fi.Object | None = None) -> fi.Object:
        return self._fabric.eq(ord(name), "set" if wait_set else wait_obj, wait_set)

    def _endpoint(self, of: fi.Object) -> tuple[fi.Object, int, fi.Object]:
        """Return an endpoint that sends to itself, its address and the counter of its sends.

        What is received goes to a queue that nobody reads.
        """
        if of.address not in self._endpoints:
            sends = of if of.kind == "cntr" else self._fabric.counter(0, "none")
            other = self._fabric.cq(0, "none")
            tx = other if of.kind == "cntr" else of
            bound = [(tx, fi.TRANSMIT), (other, fi.RECV), (sends, fi.SEND)]
            ep = self._fabric.endpoint(*bound)
            self._endpoints[of.address] = ep, self._fabric.address_of(ep), sends
        return self._endpoints[of.address]

    def _send(self, of: fi.Object) -> None:
        """Send once, and return once the completion has been reported.

        A queue gets its entry before the counter moves. An endpoint that has to
        connect first cannot send at once; reading the counter makes progress.
        """
        ep, address, sends = self._endpoint(of)
        before = fi.cntr_read(sends)

        def sent() -> bool:
            result = fi.send(ep, address)
            fi.cntr_read(sends)
            if result != -errno.EAGAIN:
                fi.check(result, "send")
            return result == 0

        fi.check(fi.recv(ep, 1), "recv")
        wait_until(sent, "a send", Deadline(LIMIT))
        wait_until(lambda: fi.cntr_read(sends) != before, "its completion", Deadline(LIMIT))

    def entry(self, cq: fi.Object) -> None:
        self._send(cq)

    def error(self, cq: fi.Object) -> None:
        ep = self._fabric.endpoint((cq, fi.RECV), (self._fabric.cq(0, "none"), fi.TRANSMIT))
        fi.check(fi.recv(ep, 1), "recv")
        fi.check(fi.cancel(ep, 1), "cancel")

    def count(self, counter: fi.Object) -> None:
        self._send(counter)

    def wait(self, wait_set: fi.Object, timeout: int) -> str:
        return code(fi.wait(wait_set, timeout))

    def sread(self, queue: fi.Object, timeout: int) -> str:
        if queue.kind == "cq":
            return code(fi.cq_sread(queue, 1, timeout))
        return code(min(fi.eq_sread(queue, timeout), 1))

    def read(self, queue: fi.Object) -> str:
        return code(fi.cq_read(queue, 1))

    def cntr_wait(self, counter: fi.Object, threshold: int, timeout: int) -> str:
        return code(fi.cntr_wait(counter, threshold, timeout))

    def change(self, counter: fi.Object, operation: str, value: int) -> str:
        return code(fi.cntr_change(counter, operation, value))

    def value(self, counter: fi.Object) -> int:
        return fi.cntr_read(counter)

    def poll(self, poll_set: fi.Object, count: int) -> str:
        got = fi.poll(poll_set, count)
        return code(got) if isinstance(got, int) else names([chr(each) for each in got])

    def member(self, poll_set: fi.Object, operation: str, member: fi.Object) -> str:
        return code(fi.poll_member(poll_set, operation, member))

    def trywait(self, *objects: fi.Object) -> str:
        return code(fi.trywait(self._fabric.fabric, *objects))

    def signal(self, cq: fi.Object) -> str:
        return code(cq.call("signal"))

    def write(self, eq: fi.Object) -> str:
        return code(min(fi.eq_write(eq), 1))

    def close(self, opened: fi.Object) -> str:
        return code(opened.close())

    def readable(self, opened: fi.Object) -> str:
        fd = ctypes.c_int(-1)
        fi.check(opened.control(fi.GETWAIT, ctypes.addressof(fd)), "GETWAIT")
        return _readable(fd.value)

    def wait_obj(self, opened: fi.Object) -> str:
        kind = ctypes.c_int(-1)
        result = opened.control(fi.GETWAITOBJ, ctypes.addressof(kind))
        found = {number: word for word, number in fi.WAIT_OBJS.items()}
        return found[kind.value] if result == 0 else code(result)

    def getwait(self, opened: fi.Object) -> str:
        room = (ctypes.c_uint64 * 32)()
        return code(opened.control(fi.GETWAIT, ctypes.addressof(room)))

    def pollfds(self, wait_set: fi.Object, room: int) -> tuple[str, int]:
        fds = (fi.Pollfd * max(room, 1))()
        arg = fi.WaitPollfd(nfds=room, fd=ctypes.addressof(fds))
        result = wait_set.control(fi.GETWAIT, ctypes.addressof(arg))
        return code(result), arg.nfds


def _readable(fd: int) -> str:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return "readable" if poller.poll(0) else "not readable"


class Kfabric:
    """kfabric, through its device and the mock provider.

    The calls are those of the interface, not of the Python classes: their results
    are what is compared.
    """

    where = sleeping.WAIT_POINT

    def __init__(self, patience: float) -> None:
        """Open the device and a domain."""
        self.patience = patience
        device = kp.Device()
        info = device.getinfo(provider="mock")[0]
        fabric = device.fabric(info)
        self._mock = Mock(device, info, fabric, fabric.domain(info), contextlib.ExitStack())
        self._endpoints: dict[int, kp.Endpoint] = {}
        self._fds: dict[int, int] = {}

    def wait_set(self, wait_obj: str = "fd") -> kp.WaitSet:
        return self._mock.wait_set(wait_obj=kp.WaitObj[wait_obj.upper()])

    def poll_set(self, *members: Any) -> kp.PollSet:
        poll_set = self._mock.poll_set()
        for each in members:
            poll_set.add(each)
        return poll_set

    def cq(
        self, name: str, wait_obj: str = "fd", wait_set: kp.WaitSet | None = None
    ) -> kp.CompletionQueue:
        kind = kp.WaitObj[wait_obj.upper()]
        return self._mock.cq(context=name, wait_obj=kind, wait_set=wait_set)

    def counter(
        self, name: str, wait_obj: str = "fd", wait_set: kp.WaitSet | None = None
    ) -> kp.Counter:
        kind = kp.WaitObj[wait_obj.upper()]
        return self._mock.counter(context=name, wait_obj=kind, wait_set=wait_set)

    def eq(
        self, name: str, wait_obj: str = "fd", wait_set: kp.WaitSet | None = None
    ) -> kp.EventQueue:
        kind = kp.WaitObj[wait_obj.upper()]
        return self._mock.eq(context=name, wait_obj=kind, wait_set=wait_set)

    def _endpoint(self, of: Any) -> kp.Endpoint:
        if id(of) not in self._endpoints:
            where = {"cntr": of} if isinstance(of, kp.Counter) else {"cq": of}
            self._endpoints[id(of)] = self._mock.endpoint(**where)
        return self._endpoints[id(of)]

    def entry(self, cq: kp.CompletionQueue) -> None:
        self._mock.inject(self._endpoint(cq))

    def error(self, cq: kp.CompletionQueue) -> None:
        self._mock.inject(self._endpoint(cq), err=errno.ECANCELED)

    def count(self, counter: kp.Counter) -> None:
        self._mock.inject(self._endpoint(counter), entry=0)

    def _call(self, of: Any, request: int, arg: ctypes.Structure) -> str:
        try:
            return code(of._client(request, arg))
        except kp.KfiError as error:
            return code(-error.errno)

    def wait(self, wait_set: kp.WaitSet, timeout: int) -> str:
        arg = _uapi.kfab_wait(wait=wait_set._handle, deadline=_deadline(timeout))
        return self._call(wait_set, _uapi.KFAB_IOC_WAIT, arg)

    def sread(self, queue: Any, timeout: int) -> str:
        if isinstance(queue, kp.CompletionQueue):
            return self._cq_read(queue, _uapi.KFAB_IOC_CQ_SREAD, _deadline(timeout))
        info = _uapi.kfab_info(size=ctypes.sizeof(_uapi.kfab_info))
        arg = _uapi.kfab_eq_read(
            eq=queue._handle, info=ctypes.addressof(info), deadline=_deadline(timeout)
        )
        result = self._call(queue, _uapi.KFAB_IOC_EQ_SREAD, arg)
        # fi_eq_sread() returns the size of the entry, which is another one here.
        return result if result.startswith("-") else "1"

    def read(self, queue: kp.CompletionQueue) -> str:
        return self._cq_read(queue, _uapi.KFAB_IOC_CQ_READ, 0)

    def _cq_read(self, cq: kp.CompletionQueue, request: int, deadline: int) -> str:
        entry = _uapi.kfab_cq_entry()
        arg = _uapi.kfab_cq_read(
            cq=cq._handle, count=1, entries=ctypes.addressof(entry), deadline=deadline
        )
        return self._call(cq, request, arg)

    def cntr_wait(self, counter: kp.Counter, threshold: int, timeout: int) -> str:
        arg = _uapi.kfab_cntr_wait(
            cntr=counter._handle, threshold=threshold, deadline=_deadline(timeout)
        )
        return self._call(counter, _uapi.KFAB_IOC_CNTR_WAIT, arg)

    def change(self, counter: kp.Counter, operation: str, value: int) -> str:
        request = getattr(_uapi, f"KFAB_IOC_CNTR_{operation.upper()}")
        return self._call(counter, request, _uapi.kfab_cntr(cntr=counter._handle, value=value))

    def value(self, counter: kp.Counter) -> int:
        return counter.read()

    def poll(self, poll_set: kp.PollSet, count: int) -> str:
        try:
            return names(poll_set.poll(count))
        except kp.KfiError as error:
            return code(-error.errno)

    def member(self, poll_set: kp.PollSet, operation: str, member: Any) -> str:
        request = getattr(_uapi, f"KFAB_IOC_{operation.upper()}")
        arg = _uapi.kfab_poll_member(poll=poll_set._handle, handle=member._handle)
        return self._call(poll_set, request, arg)

    def trywait(self, *objects: Any) -> str:
        handles = (ctypes.c_uint32 * len(objects))(*(each._handle for each in objects))
        arg = _uapi.kfab_trywait(
            fabric=self._mock.fabric._handle,
            count=len(objects),
            handles=ctypes.addressof(handles),
        )
        return self._call(self._mock.fabric, _uapi.KFAB_IOC_TRYWAIT, arg)

    def signal(self, cq: kp.CompletionQueue) -> str:
        return self._call(cq, _uapi.KFAB_IOC_CQ_SIGNAL, _uapi.kfab_cq_signal(cq=cq._handle))

    def write(self, eq: kp.EventQueue) -> str:
        eq.write()
        return "1"

    def close(self, opened: Any) -> str:
        arg = _uapi.kfab_close(handle=opened._handle)
        return self._call(opened, _uapi.KFAB_IOC_CLOSE, arg)

    def _control(self, opened: Any, command: int) -> tuple[str, int]:
        arg = _uapi.kfab_control(handle=opened._handle, command=command)
        return self._call(opened, _uapi.KFAB_IOC_CONTROL, arg), arg.value

    def readable(self, opened: Any) -> str:
        # Each GETWAIT makes a descriptor; libfabric has one.
        if id(opened) not in self._fds:
            result, self._fds[id(opened)] = self._control(opened, _uapi.KFAB_GETWAIT)
            assert result == "0", result
        return _readable(self._fds[id(opened)])

    def wait_obj(self, opened: Any) -> str:
        result, kind = self._control(opened, _uapi.KFAB_GETWAITOBJ)
        return kp.WaitObj(kind).name.lower() if result == "0" else result

    def getwait(self, opened: Any) -> str:
        return self._control(opened, _uapi.KFAB_GETWAIT)[0]

    def pollfds(self, wait_set: kp.WaitSet, room: int) -> tuple[str, int]:
        handles = (ctypes.c_uint32 * max(room, 1))()
        arg = _uapi.kfab_pollfd(
            wait=wait_set._handle, count=room, handles=ctypes.addressof(handles)
        )
        return self._call(wait_set, _uapi.KFAB_IOC_POLLFD, arg), arg.count


def _deadline(timeout: int) -> int:
    """Turn milliseconds, of which negative ones mean no limit, into a deadline."""
    return deadline_after(None if timeout < 0 else timeout / 1000)


def timed(call: Callable[[], str], timeout: int) -> str:
    """Make a call that is to end by its timeout; say so if it ended before.

    Not by a little: some clocks are coarse. What is looked for ends at once, and a
    busy machine may be slow to tell.
    """
    began = time.monotonic()
    result = call()
    early = time.monotonic() - began < timeout / 1000 * 0.9
    return f"{result} early" if early else result
