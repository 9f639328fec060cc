# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: how many threads an event wakes that wait for it with EPOLLEXCLUSIVE.

The kernel's own way to wake one of many: each thread has an epoll instance of its own, in which the
same descriptor is registered. An event is a number that one thread takes from an eventfd; the next
one comes once it was taken.
"""

import os
import select
import threading
from contextlib import ExitStack

_SECONDS = 60


class _Crowd:
    """Threads that wait, and what they have counted."""

    def __init__(self, stack: ExitStack) -> None:
        flags = os.EFD_SEMAPHORE | os.EFD_NONBLOCK
        self._events, self._end = os.eventfd(0, flags), os.eventfd(0, flags)
        stack.callback(os.close, self._events)
        stack.callback(os.close, self._end)
        self._taken = threading.Semaphore(0)
        self._lock = threading.Lock()
        self.wakes = self.read = 0

    def wait(self, ready: threading.Semaphore) -> None:
        """Take events until the end, in a thread of its own."""
        with select.epoll() as waiting:
            waiting.register(self._events, select.EPOLLIN | select.EPOLLEXCLUSIVE)
            waiting.register(self._end, select.EPOLLIN)
            ready.release()
            while self._end not in {fd for fd, _ in waiting.poll()}:
                self._take()

    def _take(self) -> None:
        try:
            os.eventfd_read(self._events)
        except BlockingIOError:
            taken = 0
        else:
            taken = 1
        with self._lock:
            self.wakes += 1
            self.read += taken
        if taken:
            self._taken.release()

    def send(self, events: int) -> None:
        """One at a time."""
        for _ in range(events):
            os.eventfd_write(self._events, 1)
            if not self._taken.acquire(timeout=_SECONDS):
                return

    def end(self) -> None:
        """Wake everyone for the last time."""
        os.eventfd_write(self._end, 1)


def measure(threads: int, events: int) -> dict[str, int]:
    """Wakes, events, and those that a thread has read."""
    with ExitStack() as stack:
        crowd, ready = _Crowd(stack), threading.Semaphore(0)
        waiting = [threading.Thread(target=crowd.wait, args=(ready,)) for _ in range(threads)]
        for thread in waiting:
            thread.start()
        for _ in waiting:
            ready.acquire()
        crowd.send(events)
        crowd.end()
        for thread in waiting:
            thread.join()
        return {"events": events, "read": crowd.read, "wakes": crowd.wakes}
