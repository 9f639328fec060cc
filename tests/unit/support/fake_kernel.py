# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A fake of the kernel for tests of what the library makes of its answers.

It knows only what these tests need: handles, one list of completions for each
CQ, what is bound to what, and pipes that are as readable as their object.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Any

import kfabric_py as kp
from kfabric_py import _uapi


class FakeKernel:
    """Answers ioctls; every method is named like the call that it serves."""

    def __init__(self) -> None:
        self.last = 0
        self.parents: dict[int, int] = {}
        self.contexts: dict[int, int] = {}
        self.users: dict[int, set[int]] = {}
        self.queues: dict[int, list[tuple[int, int]]] = {}
        #: The ready members of each poll set: every queue, and counters not yet reported.
        self.poll_sets: dict[int, list[int]] = {}
        self.counters: set[int] = set()
        self.posted: list[tuple[int, int, int]] = []
        self.most_posts = 10_000
        self.closed: list[int] = []
        self.calls: list[tuple[str, Any]] = []
        self.fail: dict[str, int] = {}
        self.readers: dict[int, int] = {}
        self.writers: dict[int, int] = {}
        self.ready: set[int] = set()
        self.values: dict[int, int] = {}
        self.errors: dict[int, int] = {}
        self.flags = 0
        self.changes = 0
        self.waits_time_out = False
        self.channels: dict[int, int] = {}
        self.requested: set[int] = set()
        self.events: dict[int, list[int]] = {}
        self.unacked: dict[int, int] = {}
        #: Objects of the library that must not be collected during the test.
        self.kept: list[object] = []

    def ioctl(self, fd: int, request: int, arg: Any) -> int:
        name = _uapi.CALL_NAMES[request].lower()
        self.calls.append((name, arg))
        assert arg.size == ctypes.sizeof(arg)
        if number := self.fail.get(name):
            raise OSError(number, "failed")
        serve: Callable[[Any], int | None] = getattr(self, name, self.nothing)
        if name.endswith("_open"):
            serve = self.open
        return serve(arg) or 0

    def nothing(self, arg: Any) -> None:
        """Serve a call of which only the argument matters."""

    def open(self, arg: Any) -> None:
        self.last += 1
        fields = (getattr(arg, name, 0) for name in ("domain", "sep", "fabric"))
        parent = next(filter(None, fields), 0)
        self.parents[self.last] = parent
        self.contexts[self.last] = arg.context
        self.users[self.last] = set()
        self.queues[self.last] = []
        self.readers[self.last], self.writers[self.last] = os.pipe()
        if isinstance(arg, _uapi.kfab_cntr_open):
            self.counters.add(self.last)
        if wait_set := getattr(arg, "wait_set", 0):
            self.users[wait_set].add(self.last)
            self.changes += 1
        arg.out_handle, arg.out_id = self.last, self.last + 1000

    mr_reg = open

    def close(self, arg: Any) -> None:
        if arg.handle not in self.parents:
            raise OSError(errno.EBADF, "closed")
        member_of = [users for users in self.users.values() if arg.handle in users]
        is_set = arg.handle in self.poll_sets and member_of
        if is_set or self.users[arg.handle] or arg.handle in self.parents.values():
            raise OSError(errno.EBUSY, "busy")
        del self.parents[arg.handle]
        if arg.flags & _uapi.KFAB_CLOSE_DISCARD_EVENTS:
            self.unacked.pop(arg.handle, None)
        self.changes += 1
        self.hang_up(arg.handle)
        for users in self.users.values():
            users.discard(arg.handle)
        self.closed.append(arg.handle)

    def bind(self, arg: Any) -> None:
        self.users[arg.to].add(arg.handle)

    def recv(self, arg: Any) -> None:
        self.posted.append((arg.ep, arg.context, arg.op_flags))

    send = recv

    def batch(self, arg: Any) -> None:
        calls = (_uapi.kfab_batch_call * arg.post_count).from_address(arg.posts)
        for call in calls[arg.posted :]:
            name = next(n.lower() for r, n in _uapi.CALL_NAMES.items() if r == call.cmd)
            if (number := self.fail.get(name)) or len(self.posted) >= self.most_posts:
                arg.out_post_err = number or errno.EAGAIN
                return
            getattr(self, name)(_uapi.kfab_msg.from_address(call.arg))
            arg.posted += 1

    def cq_read(self, arg: Any) -> int:
        queue = self.queues[arg.cq]
        if arg.cq not in self.parents:
            raise OSError(errno.EBADF, "closed")
        tell = arg.flags & _uapi.KFAB_CQ_REPORT_EMPTY
        if not queue and not tell:
            raise BlockingIOError(errno.EAGAIN, "empty")
        took = queue[: arg.count]
        del queue[: arg.count]
        if not queue:
            self.unready(arg.cq)
        entries = (_uapi.kfab_cq_entry * arg.count).from_address(arg.entries)
        for entry, (context, flags) in zip(entries, took, strict=False):
            entry.context, entry.flags, entry.len = context, flags, 5
        return len(took) | (_uapi.KFAB_CQ_EMPTY if tell and len(took) < arg.count else 0)

    cq_sread = cq_read

    def poll_add(self, arg: Any) -> None:
        self.poll_sets.setdefault(arg.poll, []).append(arg.handle)
        self.users[arg.handle].add(arg.poll)

    def poll_del(self, arg: Any) -> None:
        self.poll_sets[arg.poll] = [h for h in self.poll_sets[arg.poll] if h != arg.handle]
        self.users[arg.handle].discard(arg.poll)

    def poll(self, arg: Any) -> int:
        ready = self.poll_sets.get(arg.poll, [])
        members = ready[: arg.count]
        del ready[: arg.count]
        ready += [handle for handle in members if handle not in self.counters]
        entries = (_uapi.kfab_poll_entry * arg.count).from_address(arg.entries)
        for entry, handle in zip(entries, members, strict=False):
            entry.context, entry.handle = self.contexts[handle], handle
        return len(members)

    def control(self, arg: Any) -> None:
        if arg.command == _uapi.KFAB_GETWAIT:
            arg.value = os.dup(self.readers[arg.handle])
        elif arg.command == _uapi.KFAB_SETFIDFLAG:
            self.flags = arg.value
        elif arg.command == _uapi.KFAB_GETFIDFLAG:
            arg.value = self.flags

    def cntr_read(self, arg: Any) -> None:
        self.unready(arg.cntr)
        arg.value = self.values.get(arg.cntr, 0)

    def cntr_readerr(self, arg: Any) -> None:
        arg.value = self.errors.get(arg.cntr, 0)

    def eq_read(self, arg: Any) -> None:
        if not self.queues[arg.eq]:
            raise BlockingIOError(errno.EAGAIN, "empty")
        arg.out_event = self.queues[arg.eq].pop(0)[0]
        if not self.queues[arg.eq]:
            self.unready(arg.eq)

    def profile_events(self, arg: Any) -> int:
        took = self.queues[arg.profile][: arg.count]
        del self.queues[arg.profile][: arg.count]
        entries = (_uapi.kfab_profile_event * arg.count).from_address(arg.events)
        for entry, (kind, seq) in zip(entries, took, strict=False):
            entry.id, entry.seq = kind, seq
        return len(took)

    def wait(self, arg: Any) -> None:
        if self.waits_time_out and not self.level(arg.wait):
            raise TimeoutError(errno.ETIMEDOUT, "nothing")

    def trywait(self, arg: Any) -> None:
        handles = (ctypes.c_uint32 * arg.count).from_address(arg.handles)
        if any(self.level(handle) for handle in handles):
            raise BlockingIOError(errno.EAGAIN, "ready")

    def pollfd(self, arg: Any) -> None:
        members = sorted(self.users[arg.wait])
        room, arg.count = arg.count, len(members)
        arg.out_change_index = self.changes
        if room and room < len(members):
            raise OSError(_uapi.KFAB_ETOOSMALL, "too small")
        if room:
            (ctypes.c_uint32 * room).from_address(arg.handles)[: len(members)] = members

    def channel_bind(self, arg: Any) -> None:
        self.channels[arg.cq] = arg.channel

    def req_notify(self, arg: Any) -> int:
        self.requested.add(arg.cq)
        return bool(arg.flags & _uapi.KFAB_NOTIFY_MISSED and self.queues[arg.cq])

    def get_cq_event(self, arg: Any) -> None:
        if arg.channel not in self.parents:
            raise OSError(errno.EBADF, "closed")
        events = self.events.get(arg.channel, [])
        if not events:
            raise BlockingIOError(errno.EAGAIN, "no event")
        arg.out_cq = events.pop(0)
        arg.out_context = self.contexts[arg.out_cq]
        if not events:
            self.unready(arg.channel)
        if not arg.flags & _uapi.KFAB_EVENT_ACK:
            self.unacked[arg.out_cq] = self.unacked.get(arg.out_cq, 0) + 1
        if arg.flags & _uapi.KFAB_EVENT_NOTIFY:
            self.requested.add(arg.out_cq)

    def ack_cq_events(self, arg: Any) -> None:
        if arg.cq not in self.parents:
            raise OSError(errno.EBADF, "closed")
        if arg.count > self.unacked.get(arg.cq, 0):
            raise OSError(errno.EINVAL, "more than were got")
        self.unacked[arg.cq] -= arg.count

    def level(self, handle: int) -> bool:
        """Is the object of the handle ready?"""
        return handle in self.ready

    def make_ready(self, handle: int) -> None:
        """Make the object's descriptors readable."""
        if handle not in self.ready:
            self.ready.add(handle)
            os.write(self.writers[handle], b"x")

    def unready(self, handle: int) -> None:
        """Make the object's descriptors unreadable."""
        if handle in self.ready:
            self.ready.remove(handle)
            os.read(self.readers[handle], 1)

    def complete(self, cq: kp.CompletionQueue, data: int = 0) -> None:
        """Put a completion into a queue."""
        self.queues[cq._handle].append((data, 0))
        self.make_ready(cq._handle)
        if cq._handle in self.requested:
            self.requested.remove(cq._handle)
            channel = self.channels[cq._handle]
            self.events.setdefault(channel, []).append(cq._handle)
            self.make_ready(channel)

    def hang_up(self, handle: int) -> None:
        """Have the object's descriptors show POLLHUP."""
        if handle in self.writers:
            os.close(self.writers.pop(handle))

    def end(self) -> None:
        """Close all pipes."""
        for fds in (self.writers, self.readers):
            while fds:
                os.close(fds.popitem()[1])
