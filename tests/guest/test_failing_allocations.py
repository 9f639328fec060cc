# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Every call while the kernel has no memory for it: the 1st, 2nd, … allocation fails.

And events that happen then. What a failed call may have left behind is also looked for at the
end of each test, as always. Calls over an RDMA link are in test_failing_traffic.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import uapi_support as raw
from failslab_support import MOST, NO_MEMORY, Failslab, objects
from guest_support import LIMIT, Mock
from side_support import Run

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest.topology import RdmaLink
from kfabric.guest.waiting import Deadline
from kfabric_py import _uapi


@dataclass
class World:
    """Open objects, for calls on them."""

    mock: Mock
    wait_set: int
    cq: kp.CompletionQueue
    eq: int
    cntr: int
    poll_set: kp.PollSet
    ep: kp.Endpoint
    buffer: kp.Buffer
    profile: kp.Profile
    channel: kp.CompChannel
    told: kp.CompletionQueue
    keep: list[object]

    @classmethod
    def new(cls, mock: Mock) -> World:
        """Open one of each."""
        # The first: it is closed behind the queues that are bound to it.
        channel = mock.channel()
        wait_set = mock.wait_set(wait_obj=kp.WaitObj.POLLFD)
        cq = mock.cq(wait_obj=kp.WaitObj.FD)
        eq, cntr = mock.eq(wait_set=wait_set), mock.counter()
        ep = mock.endpoint(cq=cq)
        buffer = mock.stack.enter_context(mock.device.buffer(8192))
        poll_set = mock.poll_set()
        profile = mock.stack.enter_context(ep.profile())
        told = mock.cq(channel=channel)
        # An event that is not got: the next request has to make another.
        told.req_notify()
        mock.inject(mock.endpoint(cq=told))
        return cls(
            mock,
            wait_set._handle,
            cq,
            eq._handle,
            cntr._handle,
            poll_set,
            ep,
            buffer,
            profile,
            channel,
            told,
            [],
        )

    @property
    def info(self) -> int:
        """Address of the provider's offer."""
        info = _uapi.kfab_info(size=ctypes.sizeof(_uapi.kfab_info))
        info.prov_name[:4] = list(b"mock")
        info.fabric_name[:4] = list(b"mock")
        info.domain_name[:5] = list(b"mock0")
        self.keep.append(info)
        return ctypes.addressof(info)

    @property
    def handles(self) -> int:
        """Address of an array with the handle of the CQ."""
        array = (ctypes.c_uint32 * 8)(self.cq._handle)
        self.keep.append(array)
        return ctypes.addressof(array)

    @property
    def entries(self) -> int:
        """Address of room for what a read returns."""
        room = (_uapi.kfab_cq_entry * 8)()
        self.keep.append(room)
        return ctypes.addressof(room)

    @property
    def iov(self) -> int:
        """Address of one piece of memory to post."""
        piece = (_uapi.kfab_iov * 1)(_uapi.kfab_iov(buf=self.buffer._handle, len=8))
        self.keep.append(piece)
        return ctypes.addressof(piece)

    @property
    def batch(self) -> dict[str, int]:
        """The fields of a batch that posts, waits and reads."""
        fields: dict[str, int] = {"wait": self.wait_set}
        for part, name in (("post", "recv"), ("read", "cq read")):
            ioctl, arguments = CALLS[name]
            arg = raw.sample(ioctl, **arguments(self))
            arg.size = ctypes.sizeof(arg)
            call = _uapi.kfab_batch_call(cmd=raw.CALLS[ioctl][0], arg=ctypes.addressof(arg))
            self.keep += [arg, call]
            fields |= {f"{part}s": ctypes.addressof(call), f"{part}_count": 1}
        return fields

    @property
    def atomic(self) -> dict[str, int]:
        """The fields of an atomic on one element."""
        piece = (_uapi.kfab_rma_iov * 1)(_uapi.kfab_rma_iov(len=8))
        self.keep.append(piece)
        return {
            "ep": self.ep._handle,
            "datatype": _uapi.KFAB_UINT64,
            "op": _uapi.KFAB_SUM,
            "iov": self.iov,
            "iov_count": 1,
            "rma_iov": ctypes.addressof(piece),
            "rma_iov_count": 1,
        }


#: The fields of each call that may allocate. Those that open have an out_handle.
CALLS: dict[str, tuple[str, Callable[[World], dict[str, int]]]] = {
    "version": ("VERSION", lambda w: {}),
    "getinfo": ("GETINFO", lambda w: {"hints": w.info, "info_size": 0}),
    "fabric": ("FABRIC_OPEN", lambda w: {"info": w.info}),
    "domain": ("DOMAIN_OPEN", lambda w: {"fabric": w.mock.fabric._handle, "info": w.info}),
    "eq": ("EQ_OPEN", lambda w: {"fabric": w.mock.fabric._handle, "wait_obj": kp.WaitObj.UNSPEC}),
    "wait set": (
        "WAIT_OPEN",
        lambda w: {"fabric": w.mock.fabric._handle, "wait_obj": kp.WaitObj.UNSPEC},
    ),
    "cq": ("CQ_OPEN", lambda w: {"domain": w.mock.domain._handle, "wait_obj": kp.WaitObj.UNSPEC}),
    "member": (
        "EQ_OPEN",
        lambda w: {
            "fabric": w.mock.fabric._handle,
            "wait_obj": kp.WaitObj.SET,
            "wait_set": w.wait_set,
        },
    ),
    "counter": (
        "CNTR_OPEN",
        lambda w: {"domain": w.mock.domain._handle, "wait_obj": kp.WaitObj.UNSPEC},
    ),
    "poll set": ("POLL_OPEN", lambda w: {"domain": w.mock.domain._handle}),
    "endpoint": ("EP_OPEN", lambda w: {"domain": w.mock.domain._handle, "info": w.info}),
    "buffer": ("BUF_ALLOC", lambda w: {"length": 4 * 4096}),
    "ring": ("CQ_RING", lambda w: {"cq": w.cq._handle}),
    "descriptor": ("CONTROL", lambda w: {"handle": w.cq._handle, "command": _uapi.KFAB_GETWAIT}),
    "exclusive": (
        "CONTROL",
        lambda w: {
            "handle": w.wait_set,
            "command": _uapi.KFAB_SETFIDFLAG,
            "value": _uapi.KFAB_WAIT_EXCLUSIVE,
        },
    ),
    "poll add": (
        "POLL_ADD",
        lambda w: {"poll": w.poll_set._handle, "handle": w.cq._handle},
    ),
    "poll": (
        "POLL",
        lambda w: {"poll": w.poll_set._handle, "count": 4, "entries": w.entries},
    ),
    "trywait": (
        "TRYWAIT",
        lambda w: {"fabric": w.mock.fabric._handle, "count": 1, "handles": w.handles},
    ),
    "pollfd": ("POLLFD", lambda w: {"wait": w.wait_set, "count": 8, "handles": w.handles}),
    "recv": ("RECV", lambda w: {"ep": w.ep._handle, "iov": w.iov, "iov_count": 1}),
    "send": ("SEND", lambda w: {"ep": w.ep._handle, "iov": w.iov, "iov_count": 1}),
    "trecv": ("TRECV", lambda w: {"ep": w.ep._handle, "iov": w.iov, "iov_count": 1}),
    "tsend": ("TSEND", lambda w: {"ep": w.ep._handle, "iov": w.iov, "iov_count": 1}),
    "atomic": ("ATOMIC", lambda w: w.atomic),
    "fetch atomic": ("FETCH_ATOMIC", lambda w: {**w.atomic, "result": w.iov, "result_count": 1}),
    "compare atomic": (
        "COMPARE_ATOMIC",
        lambda w: {
            **w.atomic,
            "compare": w.iov,
            "compare_count": 1,
            "result": w.iov,
            "result_count": 1,
        },
    ),
    "cq read": ("CQ_READ", lambda w: {"cq": w.cq._handle, "count": 8, "entries": w.entries}),
    "cq sread": ("CQ_SREAD", lambda w: {"cq": w.cq._handle, "count": 8, "entries": w.entries}),
    "eq write": ("EQ_WRITE", lambda w: {"eq": w.eq}),
    "eq read": ("EQ_READ", lambda w: {"eq": w.eq}),
    "cntr read": ("CNTR_READ", lambda w: {"cntr": w.cntr}),
    "cntr add": ("CNTR_ADD", lambda w: {"cntr": w.cntr, "value": 1}),
    "cntr wait": ("CNTR_WAIT", lambda w: {"cntr": w.cntr, "threshold": 1}),
    "wait": ("WAIT", lambda w: {"wait": w.wait_set}),
    "batch": ("BATCH", lambda w: w.batch),
    "profile": ("PROFILE_OPEN", lambda w: {"handle": w.ep._handle}),
    "profile read": (
        "PROFILE_READ",
        lambda w: {
            "profile": w.profile._handle,
            "id": w.profile.variables["completions"].id,
            "buf": w.entries,
            "buf_size": 8,
        },
    ),
    "profile list": (
        "PROFILE_READ",
        lambda w: {
            "profile": w.profile._handle,
            "id": w.profile.variables["unexp_msg_queue"].id,
            "buf": w.entries,
            "buf_size": 128,
        },
    ),
    "profile reads": (
        "PROFILE_CONTROL",
        lambda w: {"profile": w.profile._handle, "command": _uapi.KFAB_PROFILE_START_READS},
    ),
    "profile keep": (
        "PROFILE_CONTROL",
        lambda w: {"profile": w.profile._handle, "command": _uapi.KFAB_PROFILE_KEEP},
    ),
    "profile events": (
        "PROFILE_EVENTS",
        lambda w: {"profile": w.profile._handle, "count": 2, "events": w.entries},
    ),
    "channel": ("CHANNEL_OPEN", lambda w: {"fabric": w.mock.fabric._handle}),
    "bind": (
        "CHANNEL_BIND",
        lambda w: {"cq": w.cq._handle, "channel": w.channel._handle},
    ),
    "request": ("REQ_NOTIFY", lambda w: {"cq": w.told._handle, "flags": _uapi.KFAB_NOTIFY_NEXT}),
    "event": (
        "GET_CQ_EVENT",
        lambda w: {"channel": w.channel._handle, "flags": _uapi.KFAB_EVENT_ACK},
    ),
}

#: What the mock provider does not have: the end of those is that they are refused.
ABSENT = {"trecv", "tsend", "atomic", "fetch atomic", "compare atomic"}
#: What cannot be undone, so that it succeeds once: a kernel that checks much makes allocations
#: of its own, and the call goes on when they fail.
FOR_GOOD = {"bind", "ring"}


def _undo(world: World, what: str, arg: object) -> None:
    """Undo a call that has succeeded."""
    fd = world.mock.device.fileno()
    opens = CALLS[what][0].endswith(("_OPEN", "_ALLOC", "_RING"))
    handle = getattr(arg, "out_handle", 0) if opens else 0
    if handle:
        assert raw.call(fd, "CLOSE", raw.sample("CLOSE", handle=handle)) == 0
    elif what == "descriptor":
        os.close(arg.value)  # type: ignore[attr-defined]
    elif what == "profile reads":
        end = {"profile": world.profile._handle, "command": _uapi.KFAB_PROFILE_END_READS}
        assert raw.call(fd, "PROFILE_CONTROL", raw.sample("PROFILE_CONTROL", **end)) == 0
    elif what == "poll add":
        fields = CALLS[what][1](world)
        assert raw.call(fd, "POLL_DEL", raw.sample("POLL_DEL", **fields)) == 0


@pytest.mark.parametrize("what", CALLS)
def test_call_without_memory(mock: Mock, failslab: Failslab, what: str) -> None:
    """X4, B43, B50: an error, and nothing is left behind; or it succeeds, and is all there."""
    world = World.new(mock)
    fd = mock.device.fileno()
    name, fields = CALLS[what]
    before = objects(fd)
    for nth in range(1, MOST):
        arg = raw.sample(name, **fields(world))
        if name == "GETINFO":
            arg.info_size = ctypes.sizeof(_uapi.kfab_info)
        arg.size = ctypes.sizeof(arg)
        number, address = raw.CALLS[name][0], ctypes.addressof(arg)
        code, failed = failslab.during(str(nth), lambda n=number, a=address: raw.ioctl(fd, n, a))  # type: ignore[misc]
        if code >= 0:
            _undo(world, what, arg)
        elif failed and what not in ABSENT:
            assert code in NO_MEMORY, raw.text(code)
        if code >= 0 and what in FOR_GOOD:
            break
        assert objects(fd) == before, f"allocation {nth}"
        if not failed:
            break
    else:
        pytest.fail("it allocates and allocates")
    if what in ABSENT:
        assert code == -errno.EOPNOTSUPP, raw.text(code)
    else:
        assert code >= 0 or code in (-errno.EAGAIN, -errno.ETIMEDOUT), raw.text(code)


def test_everything_still_works_afterwards(mock: Mock, failslab: Failslab) -> None:
    """X4, B43: after each of an endpoint's allocations has failed once, one works as ever."""
    fd = mock.device.fileno()
    world = World.new(mock)
    for what in ("cq", "counter", "wait set", "endpoint", "member"):
        name, fields = CALLS[what]
        for nth in range(1, MOST):
            arg = raw.sample(name, **fields(world))
            arg.size = ctypes.sizeof(arg)
            number, address = raw.CALLS[name][0], ctypes.addressof(arg)
            code, failed = failslab.during(
                str(nth),
                lambda n=number, a=address: raw.ioctl(fd, n, a),  # type: ignore[misc]
            )
            if code >= 0:
                _undo(world, what, arg)
            if not failed:
                break
    mock.inject(world.ep)
    assert len(world.cq.read()) == 1


def test_waking_needs_no_memory(mock: Mock, failslab: Failslab) -> None:
    """V1, V7, W9, B15: every allocation that must not sleep fails, and no completion is lost."""
    wait_set = mock.wait_set(wait_obj=kp.WaitObj.FD)
    cq, cntr = mock.cq(1024, wait_set=wait_set), mock.counter(wait_set=wait_set)
    ep = mock.endpoint(cq=cq, cntr=cntr)
    poll_set = mock.poll_set()
    poll_set.add(cntr)
    poll = select.poll()
    poll.register(wait_set.fileno(), select.POLLIN)

    def complete() -> int:
        with contextlib.suppress(OSError):
            mock.inject(ep, count=1000)
            return 0
        return -1

    code, _ = failslab.during("atomic", complete)
    assert code == 0
    assert poll.poll(0)
    wait_set.wait(timeout=0)
    assert poll_set.poll() == [cntr]
    assert cntr.read() == 1000
    assert sum(1 for _ in cq) == 1000
    poll_set.remove(cntr)


def test_event_needs_no_memory_when_it_happens(mock: Mock, failslab: Failslab) -> None:
    """E4, B15: the request made it ready: 1000 completions without memory, one event, no loss."""
    channel = mock.channel()
    cq = mock.cq(1024, channel=channel)
    ep = mock.endpoint(cq=cq)
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    cq.req_notify()

    def complete() -> int:
        with contextlib.suppress(OSError):
            mock.inject(ep, count=1000)
            return 0
        return -1

    code, _ = failslab.during("atomic", complete)
    assert code == 0
    assert poll.poll(0)
    event = channel.get_cq_event(timeout=0, ack=True)
    assert event is not None and event.cq is cq
    assert sum(1 for _ in cq) == 1000


def test_request_without_memory_can_be_made_again(mock: Mock, failslab: Failslab) -> None:
    """E4, X4, B15: ENOMEM, while another event is unread; that one and the next are not lost."""
    channel = mock.channel()
    cq = mock.cq(channel=channel)
    ep = mock.endpoint(cq=cq)
    cq.req_notify()
    mock.inject(ep)
    arg = raw.sample("REQ_NOTIFY", cq=cq._handle, flags=_uapi.KFAB_NOTIFY_NEXT)
    fd = mock.device.fileno()
    code, failed = failslab.during("1", lambda: raw.call(fd, "REQ_NOTIFY", arg))
    assert (code, failed) == (-errno.ENOMEM, 1)
    mock.inject(ep)
    assert channel.get_cq_event(timeout=0, ack=True) is not None
    assert channel.get_cq_event(timeout=0) is None
    cq.req_notify()
    mock.inject(ep)
    assert channel.get_cq_event(timeout=0, ack=True) is not None
    assert len(cq.read()) == 3


#: Sides, in their own process: what is not acknowledged must not be destroyed at the end.
KEPT: list[object] = []


def _starve(link: RdmaLink, side: str, failslab: Failslab, expected: list[str]) -> list[str]:
    """Have a receive fail while there is no memory; what the channel and the queue tell."""
    # Not needed where the tests are only listed.
    from channel_sides import Kfabric
    from verbs_side import Verbs

    sides = {"kfabric": Kfabric, "verbs": Verbs}
    one = sides[side](link, LIMIT)
    KEPT.append(one)
    one.open("a")
    queue = one.queues["a"]
    one.arm(queue, False)
    one.expected = expected[0]
    with failslab.every_atomic():
        one.fail(queue)
        told = one.poll()
    return [told, one.try_(), one.drain(queue)]


def test_channel_tells_where_that_of_verbs_does_not(verbs: RdmaLink, failslab: Failslab) -> None:
    """E4, B15: the event of a completion on rxe, side by side with real verbs.

    uverbs makes the record of an event when it happens, and forgets the event if it cannot:
    a thread that has asked for it sleeps on, with a completion in the queue.
    """
    guest_modules.need(["ib_uverbs"])
    expected = {
        "kfabric": ["readable", "a", "1 (1 failed)"],
        "verbs": ["not readable", "-EAGAIN", "1 (1 failed)"],
    }
    for side, answers in expected.items():
        run = Run(_starve, verbs, side, failslab, answers)
        assert run.outcome(Deadline(LIMIT)) == answers
