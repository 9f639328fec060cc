# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The base of all kernel objects: opened once, closed once, in order.

An object references its parent, and a parent references its children weakly. So an
object that the program forgot is collected like any other object, with a
:class:`ResourceWarning`, and is closed then.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import warnings
import weakref
from types import TracebackType
from typing import Any, Self

from kfabric_py import _uapi
from kfabric_py._call import Client
from kfabric_py.errors import Busy, ClosedError, KfiError, error_for

#: Users of an object that a message names.
_NAMED = 4


class Handle:
    """An open kernel object; the base of all objects of this package.

    Use it as a context manager, or call :meth:`close`. Closing closes the
    children first, newest first, then the object, once; closing again does
    nothing. A close that fails (``Busy``: another object or a call uses the
    object) leaves the object open and usable.
    """

    def __init__(self, parent: Handle | None) -> None:
        """Become a child of ``parent``; called once the kernel object exists."""
        self._parent = parent
        self._closed = False
        self._close_lock = threading.RLock()
        self._children: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()
        self._orphans: dict[int, Handle] = {}
        if parent is not None:
            parent._children[id(self)] = self

    @property
    def closed(self) -> bool:
        """Whether the object is closed."""
        return self._closed

    def close(self) -> None:
        """Close the children, newest first, and then the object.

        Raises:
            Busy: an object that is not a child uses this one, or a thread sleeps in
                a call on it. The message names the object, and those of its users
                that were opened here. Children may be closed already; the object
                itself is unchanged.
        """
        with self._close_lock:
            if self._closed:
                return
            self._close_children()
            self._close_self()
            self._mark_closed()

    def _mark_closed(self) -> None:
        """Note that the kernel object is gone; this object makes no more calls."""
        self._closed = True
        if self._parent is not None:
            self._parent._children.pop(id(self), None)
            self._parent._orphans.pop(id(self), None)

    def _close_self(self) -> None:
        """Close the kernel object, or raise and change nothing."""
        raise NotImplementedError

    def _abandon(self) -> None:
        """Note that the only remaining use of the object is its close."""

    def _close_children(self) -> None:
        """Close all children; retry children that an older sibling used.

        A queue can be younger than the endpoint that it is bound to, so newest
        first is only the first guess. Every pass closes at least one, or
        raises the error of one that is busy.
        """
        # A copy: other threads open and close children meanwhile.
        children = (ref() for ref in self._children.valuerefs())
        waiting = [child for child in children if child is not None][::-1]
        while waiting:
            busy: list[Handle] = []
            reason: Busy | None = None
            for child in waiting:
                child._abandon()
                try:
                    child.close()
                except Busy as error:
                    busy.append(child)
                    reason = error
            if reason is not None and len(busy) == len(waiting):
                raise reason
            waiting = busy

    def _check_open(self) -> None:
        """Raise ClosedError if the object is closed."""
        if self._closed:
            raise ClosedError(errno.EBADF, f"{type(self).__name__} is closed")

    def __enter__(self) -> Self:
        """Return the object itself."""
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the object."""
        if error is not None:
            self._abandon()
        self.close()

    def __del__(self) -> None:
        """Warn if the object was never closed, and close it."""
        # The attribute is missing if the constructor failed before.
        if getattr(self, "_closed", True):
            return
        warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
        try:
            self._abandon()
            self.close()
        except Busy:
            self._leave_to_parent()
        except KfiError:
            pass

    def _leave_to_parent(self) -> None:
        """Live on until the parent closes this object.

        Objects that are garbage together are finalized in any order, so one may be closed
        before those that use it.
        """
        if self._parent is not None:
            self._parent._children[id(self)] = self
            self._parent._orphans[id(self)] = self


class KernelObject(Handle):
    """An object behind a handle of ``/dev/kfabric``.

    Attributes:
        trace_id: the object's name in the tracepoints, unique in the machine;
            0 for objects that are not traced.
    """

    _close_flags = 0

    def __init__(
        self,
        parent: Handle,
        client: Client,
        handle: int,
        *,
        trace_id: int = 0,
        cookie: int = 0,
        context: object = None,
    ) -> None:
        """Take over the kernel object ``handle``, which the caller just opened.

        Args:
            parent: closed after this object.
            client: the descriptor that the handle belongs to.
            handle: the kernel's handle.
            trace_id: the tracepoints' id.
            cookie: the number that the kernel has as context, 0 for none.
            context: the user's context.
        """
        super().__init__(parent)
        self._client = client
        self._handle = handle
        self._context = context
        self.trace_id = trace_id
        client.objects[handle] = self
        if cookie:
            client.cookies[cookie] = self

    @property
    def context(self) -> object:
        """The context that was given at the open; the object itself without one."""
        return self if self._context is None else self._context

    def __repr__(self) -> str:
        """Show class, tracing id and whether the object is closed."""
        state = " closed" if self.closed else ""
        return f"<{type(self).__name__} id={self.trace_id}{state}>"

    def _live_handle(self) -> int:
        """Return the kernel's handle.

        Raises:
            ClosedError: the object is closed.
        """
        if self._closed:
            self._check_open()
        return self._handle

    def _close_self(self) -> None:
        # For this attempt only: a refused close leaves the object unchanged.
        flags, self._close_flags = self._close_flags, 0
        arg = _uapi.kfab_close(flags=flags, handle=self._handle)
        # A signal handler, or a thread that stopped waiting for this close, closed it.
        with contextlib.suppress(ClosedError):
            try:
                self._client(_uapi.KFAB_IOC_CLOSE, arg)
                return
            except Busy as error:
                refused = error_for(error.errno, error.call, self._usage())
            # Out here, an error that ends a with block stays visible as its context.
            raise refused

    def _uses(self) -> tuple[KernelObject, ...]:
        """Return the objects that the kernel keeps for this one, besides the parent.

        Any thread calls this, from the open on.
        """
        return ()

    def _usage(self) -> str:
        """Describe the use of the object, as far as the library knows it."""
        # A copy: other threads open and close objects meanwhile.
        others = [ref() for ref in self._client.objects.valuerefs()]
        users = [
            repr(other)
            for other in others
            if other is not None
            and not other.closed
            and (other._parent is self or self in other._uses())
        ]
        if not users:
            return f"{self!r} is in use"
        more = [f"{len(users) - _NAMED} more"] if len(users) > _NAMED else []
        return f"{self!r} is used by {', '.join(users[:_NAMED] + more)}"

    def __del__(self) -> None:
        """Warn and close if forgotten, but not in a forked child, which does not own it."""
        client = getattr(self, "_client", None)
        if client is not None and client.pid == os.getpid():
            super().__del__()


class OpenedObject(KernelObject):
    """An object that one of the OPEN calls makes."""

    def __init__(
        self, parent: Handle, client: Client, request: int, arg: Any, context: object
    ) -> None:
        """Open it.

        Args:
            parent: closed after this object.
            client: the descriptor to call on.
            request: the OPEN call.
            arg: its structure, filled except for the context.
            context: the user's context.
        """
        cookie = client.new_cookie()
        arg.context = cookie
        client(request, arg)
        super().__init__(
            parent,
            client,
            arg.out_handle,
            trace_id=arg.out_id,
            cookie=cookie,
            context=context,
        )
