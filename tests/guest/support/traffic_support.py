# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Traffic that tells what was lost: numbered messages, and processes that have them going.

Every message carries its number, and both of its ends report it. A number that is
missing, comes twice or out of turn is found as soon as the next one comes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from guest_support import LIMIT, Call, Child, Side, connected_sides, rdm_sides

import kfabric_py as kp
from kfabric.guest.waiting import wait_until

#: Messages under way at a time, each in a slot of its own of the buffer.
WINDOW = 8
SLOT = 64
#: What a message begins with: its number, and whether it is the last.
NUMBER = struct.Struct("<Q?")
#: Opens two ends that can talk, by the type of their endpoints.
SIDES = {"msg": connected_sides, "rdm": rdm_sides}
#: What the last error of a device's queues is about.
GONE = "ENODEV"
FAILED = "failed:"
TRUE = "/bin/true"


class Stream:
    """Numbered messages from one side to the other, as fast as they go.

    A thread at each end sleeps in its side's wait set. What is wrong with the
    numbers comes out of :meth:`end` or :meth:`broken`.
    """

    def __init__(self, near: Side, far: Side) -> None:
        """Begin. The sides are its own until it has ended."""
        self.sent = 0
        self.told = 0
        self.got = 0
        self._untold: set[int] = set()
        self._stop = threading.Event()
        self._near, self._far = near, far
        self._receiver = Call(self._receive)
        self._sender = Call(self._send)

    def _receive(self) -> list[str]:
        """Take messages until the last one, or until the device is gone; errors' names."""
        errors: list[str] = []
        for slot in range(WINDOW):
            self._post(slot)
        while GONE not in errors:
            for slot, error in self._next(self._far):
                if error:
                    errors.append(error)
                    continue
                room = self._far.buffer.view[slot * SLOT : (slot + 1) * SLOT]
                number, last = NUMBER.unpack_from(room)
                self._check("received", number, self.got)
                self.got += 1
                if last:
                    return errors
                self._post(slot)
        return errors

    def _send(self) -> list[str]:
        """Send until told to stop and all is reported, or until the device is gone."""
        errors: list[str] = []
        last = lost = False
        while GONE not in errors and (lost or not last or self.told < self.sent):
            while self.sent - self.told < WINDOW and not (last or lost):
                last = self._stop.is_set()
                lost = not self._send_one(last)
            for number, error in self._next(self._near):
                if error:
                    errors.append(error)
                    lost = True
                if error != GONE:
                    self._tell(number, lost)
        return errors

    def _tell(self, number: int, lost: bool) -> None:
        """Each is reported once; in order, until one has failed.

        Endpoints without a connection promise no order (comp_order is NONE): what is
        posted behind a failure fails while others still wait for their peer.
        """
        if not lost:
            self._check("reported", number, self.told)
        self._untold.remove(number)
        self.told += 1

    def _send_one(self, last: bool) -> bool:
        """Send the next message; False if that does not go."""
        start = self.sent % WINDOW * SLOT
        room = self._near.buffer[start : start + SLOT]
        NUMBER.pack_into(room.view, 0, self.sent, last)
        try:
            self._near.ep.send(room, context=self.sent, flags=kp.OpFlags.COMPLETION)
        except kp.KfiError:
            # The queue tells what has become of its device.
            return False
        self._untold.add(self.sent)
        self.sent += 1
        return True

    def _post(self, slot: int) -> None:
        room = self._far.buffer[slot * SLOT : (slot + 1) * SLOT]
        with contextlib.suppress(kp.KfiError):
            self._far.ep.recv(room, context=slot, flags=kp.OpFlags.COMPLETION)

    def _next(self, side: Side) -> list[tuple[int, str]]:
        """Wait for completions: what each was posted with, and the errno's name of an error.

        The entry that tells that the device is gone was posted by nobody: (-1, GONE).
        """
        try:
            while not (entries := side.cq.read(WINDOW)):
                # A change that nobody has read would end the wait at once.
                side.cntr.read()
                side.cntr.readerr()
                side.wait_set.wait(timeout=LIMIT)
        except kp.ErrorAvailable:
            error = side.cq.readerr()
            assert error is not None
            number = -1 if error.context is None else _number(error)
            return [(number, errno.errorcode[error.err])]
        return [(_number(entry), "") for entry in entries]

    @staticmethod
    def _check(what: str, number: int, due: int) -> None:
        assert number == due, f"message {number} is {what} where {due} is due"

    def goes_on(self, messages: int = 2 * WINDOW + 1) -> None:
        """Return when so many more messages have arrived.

        Raises:
            DeadlineExpired: it has come to a halt.
            AssertionError: a number is wrong.
        """
        wanted = self.got + messages

        def there() -> bool:
            for call in (self._sender, self._receiver):
                if call.done:
                    raise AssertionError(f"the traffic has ended: {call.result()!r}")
            return self.got >= wanted

        wait_until(there, f"message {wanted}", LIMIT, seen=self.counts)

    def counts(self) -> str:
        """Describe how far it has got."""
        return f"{self.sent} sent, {self.told} reported, {self.got} received"

    def end(self) -> int:
        """Send no more; all that was sent has arrived, once. Return how many."""
        self._stop.set()
        assert self._sender.result() == self._receiver.result() == []
        assert self.sent == self.told == self.got, self.counts()
        for side in (self._near, self._far):
            assert not side.cq.read(1), "a completion too many"
        return self.got

    def broken(self) -> tuple[list[str], list[str]]:
        """Wait until both ends know that the device is gone; the errors at each.

        That is the last one, and nothing comes behind it.
        """
        errors = self._sender.result(), self._receiver.result()
        for side, names in zip((self._near, self._far), errors, strict=True):
            assert names[-1] == GONE and not side.cq.read(1)
        assert self.told <= self.sent and self.got <= self.sent, self.counts()
        return errors


def _number(entry: kp.CqEntry | kp.CqError) -> int:
    assert isinstance(entry.context, int)
    return entry.context


def _first(error: BaseException) -> BaseException:
    """What went wrong first, not what closing came upon then."""
    return error if error.__context__ is None else _first(error.__context__)


class Worker:
    """A process with a stream of its own, which does what it is told meanwhile."""

    def __init__(self, start: Callable[..., Child], kind: str, address: str) -> None:
        """Fork it, and return when messages flow.

        Args:
            start: of the fixture ``in_child``.
            kind: "msg" or "rdm".
            address: of the link that it uses.
        """
        self.kind = kind
        self._orders, orders = os.pipe()
        self._pen = os.fdopen(orders, "w", buffering=1)
        self._address = address
        self.child = start(self._work)
        os.close(self._orders)
        self.answer()

    def _work(self, report: Callable[[str], None]) -> int:
        self._pen.close()
        try:
            with kp.Device() as device, contextlib.ExitStack() as stack:
                self._device = device
                self._serve(Stream(*SIDES[self.kind](device, self._address, stack)), report)
        except BaseException as error:
            report(f"{FAILED} {_first(error)!r}")
            raise
        return 0

    def _serve(self, stream: Stream, report: Callable[[str], None]) -> None:
        stream.goes_on()
        report("ready")
        for line in os.fdopen(self._orders):
            word, _, argument = line.strip().partition(" ")
            report(getattr(self, f"_{word}")(stream, argument))
            if word == "end":
                return

    # What it can be told to do; each answers in one line.

    def _go(self, stream: Stream, _: str) -> str:
        stream.goes_on()
        return str(stream.got)

    def _fork(self, stream: Stream, _: str) -> str:
        """A copy of the whole process, which ends at once, with all its descriptors."""
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return "done"

    def _dup(self, stream: Stream, _: str) -> str:
        """The traffic goes on through a copy of its descriptor, in place of the first."""
        copy = os.dup(self._device.fileno())
        os.dup2(copy, self._device.fileno(), inheritable=False)
        os.close(copy)
        return "done"

    def _exec(self, stream: Stream, _: str) -> str:
        """Become another program, in the middle of everything."""
        os.execv(TRUE, [TRUE])

    def _end(self, stream: Stream, _: str) -> str:
        return str(stream.end())

    # The parent's side

    def tell(self, *words: str) -> str:
        """Have it do something; what it answers.

        Raises:
            AssertionError: its stream or the process has come to its end.
        """
        self.say(*words)
        return self.answer()

    def say(self, *words: str) -> None:
        """Have it begin something."""
        self._pen.write(" ".join(words) + "\n")

    def answer(self) -> str:
        """What it answers. Raises AssertionError if it has come to its end instead."""
        line = self.child.report()
        assert line and not line.startswith(FAILED), f"{self.kind}: {line or 'it has ended'}"
        return line

    def goes_on(self) -> None:
        """Return when more messages have arrived."""
        self.tell("go")

    def stop(self) -> None:
        """Have it stand still, wherever it is, until it gets SIGCONT."""
        self.child.kill(signal.SIGSTOP)
        stat = Path(f"/proc/{self.child.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "its stop", LIMIT)

    def end(self) -> int:
        """All that was sent has arrived, once; how many. The process is gone behind it."""
        messages = int(self.tell("end"))
        self._pen.close()
        assert self.child.wait() == 0
        return messages

    def gone(self) -> int:
        """Wait for the process's end, and return its status."""
        self._pen.close()
        return self.child.wait()
