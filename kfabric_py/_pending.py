# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The contexts of operations that were posted and not yet reported."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from kfabric_py._call import Client


@dataclass(frozen=True, slots=True)
class _Pending:
    context: object
    owner: int
    many: bool


class PendingContexts:
    """Maps the numbers that the kernel returns to the context objects of the user.

    One table for each completion queue. A context stays until its completion
    is read; that of a receive for many messages until the last completion. Some
    operations of an endpoint never complete (unused receives, sends without a
    success completion). Their contexts are dropped when the queue is seen empty
    after the endpoint was closed, or with the queue.
    """

    def __init__(self, client: Client) -> None:
        """Number contexts with the client's numbers."""
        self._client = client
        # Finalizers may run at any point, even inside a locked section.
        self._lock = threading.RLock()
        self._table: dict[int, _Pending] = {}
        #: Endpoints that are closed, whose last completions may still be in the queue.
        self.abandoned: frozenset[int] = frozenset()
        #: One element for each reader that has completions from the kernel and has not yet
        #: called ``take``. Appending to a list and popping from it need no lock.
        self.readers: list[None] = []

    def __len__(self) -> int:
        """Count the contexts that are kept."""
        return len(self._table)

    def add(self, owner: int, context: object, *, many: bool = False) -> int:
        """Keep a context; return its number, or 0 for ``None``.

        Args:
            owner: number of the endpoint.
            context: the user's object.
            many: the operation completes more than once.
        """
        if context is None:
            return 0
        cookie = self._client.new_cookie()
        with self._lock:
            self._table[cookie] = _Pending(context, owner, many)
        return cookie

    def take(self, cookie: int, *, last: bool = True) -> object:
        """Return the context of a number, and forget it after its last use.

        Args:
            cookie: the number; 0 gives ``None``.
            last: whether this is the last completion of an operation with many.
        """
        if not cookie:
            return None
        with self._lock:
            pending = self._table.get(cookie)
            if pending is not None and (last or not pending.many):
                del self._table[cookie]
        return None if pending is None else pending.context

    def look(self, cookie: int) -> object:
        """Return the context of a number and keep it."""
        pending = self._table.get(cookie)
        return None if pending is None else pending.context

    def find(self, owner: int, context: object) -> int:
        """Return the number of the oldest operation with this context; 0 if there is none.

        Args:
            owner: number of the endpoint.
            context: the user's object itself.
        """
        with self._lock:
            # A copy: signal handlers and finalizers post and read, too.
            for cookie, pending in list(self._table.items()):
                if pending.owner == owner and pending.context is context:
                    return cookie
        return 0

    def abandon(self, owner: int) -> None:
        """Note that an endpoint is closed: it posts no more operations."""
        with self._lock:
            self.abandoned |= {owner}

    def found_empty(self, gone: frozenset[int]) -> None:
        """Note that the queue was empty; the caller is in ``readers``, or the only reader.

        Args:
            gone: the value of ``abandoned`` before the queue was read.
        """
        with self._lock:
            # Another reader may hold completions that it has not yet looked up.
            if len(self.readers) > 1:
                return
            self.abandoned -= gone
            for cookie, pending in list(self._table.items()):
                if pending.owner in gone:
                    self._table.pop(cookie, None)
