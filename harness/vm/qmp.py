# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""QEMU's monitor, usable from plain threads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from qemu.qmp import EventListener, Message, QMPClient, QMPError

OnPanic = Callable[["QmpLink"], None]

logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)


class QmpLink:
    """One QMP session, served by a thread of its own.

    :param sock: connected socket whose other end QEMU has; taken over.
    :param on_panic: called once, with this, when the guest reports a panic and QEMU runs
        on; must not wait.
    """

    def __init__(self, sock: socket.socket, on_panic: OnPanic | None = None) -> None:
        self._on_panic = on_panic
        self._client = QMPClient("kfabric")
        self._sock = sock
        self._panicked = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="qmp", daemon=True)
        self._thread.start()
        self._session = asyncio.run_coroutine_threadsafe(self._follow(), self._loop)

    @property
    def panicked(self) -> bool:
        """Whether the guest reported a panic through pvpanic."""
        return self._panicked.is_set()

    def execute(self, command: str, deadline: float, **arguments: object) -> object:
        """Run a QMP command.

        :param deadline: seconds to wait for the answer.
        :returns: the answer, or None if there was none in time, or the session has ended.
        """
        if not self._thread.is_alive():
            return None
        answer: Future[object] = asyncio.run_coroutine_threadsafe(
            self._execute(command, arguments), self._loop
        )
        try:
            return answer.result(deadline)
        except (QMPError, OSError, FutureTimeout):
            answer.cancel()
            return None

    def hmp(self, line: str, deadline: float) -> str:
        """Run a human monitor command; its text, empty if there was no answer."""
        answer = self.execute("human-monitor-command", deadline, **{"command-line": line})
        return answer if isinstance(answer, str) else ""

    def close(self, deadline: float = 5.0) -> None:
        """End the session once QEMU's last events are read. May be called again."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(FutureTimeout, asyncio.CancelledError):
            self._session.result(deadline)
        self._session.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(deadline)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _execute(self, command: str, arguments: dict[str, object]) -> object:
        return await self._client.execute(command, arguments)

    async def _follow(self) -> None:
        """Watch for events until QEMU closes the connection."""
        try:
            with self._client.listener(("GUEST_PANICKED", "GUEST_CRASHLOADED")) as events:
                await self._client.connect(self._sock)
                watcher = asyncio.create_task(self._watch(events))
                await self._client.runstate_changed()
                await self._drain(events, watcher)
        except (QMPError, OSError):
            return

    async def _watch(self, events: EventListener) -> None:
        async for event in events:
            self._note(event)
            if self._on_panic:
                self._on_panic(self)
                self._on_panic = None

    async def _drain(self, events: EventListener, watcher: asyncio.Task[None]) -> None:
        """Take what arrived together with the end of the connection."""
        watcher.cancel()
        for event in events.clear():
            self._note(event)
        with contextlib.suppress(QMPError, OSError, EOFError):
            await self._client.disconnect()

    def _note(self, _event: Message) -> None:
        self._panicked.set()
