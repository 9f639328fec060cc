# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""QEMU's monitor (QMP), usable from plain threads."""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from qemu.qmp import EventListener, QMPClient, QMPError

OnPanic = Callable[["QmpLink"], None]

logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)


class QmpLink:
    """One QMP session, served by a thread of its own.

    Args:
        sock: connected to QEMU's end; taken over.
        on_panic: called once with this link when the guest reports a panic and QEMU still
            runs; must not wait.
    """

    def __init__(self, sock: socket.socket, on_panic: OnPanic | None = None) -> None:
        self._on_panic = on_panic
        self._client = QMPClient("kfabric")
        self._sock = sock
        self.panicked = False
        """Whether the guest reported a panic through pvpanic."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="qmp", daemon=True)
        self._thread.start()
        self._session = asyncio.run_coroutine_threadsafe(self._follow(), self._loop)

    def execute(self, command: str, deadline: float, **arguments: object) -> object:
        """Run a QMP command; its answer.

        None means that the answer did not come within ``deadline`` seconds, was an error, or
        the session has ended.
        """
        if not self._thread.is_alive():
            return None
        answer: Future[object] = asyncio.run_coroutine_threadsafe(
            self._client.execute(command, arguments), self._loop
        )
        try:
            return answer.result(deadline)
        except (QMPError, OSError, FutureTimeout):
            answer.cancel()
            return None

    def hmp(self, line: str, deadline: float, cpu: int = 0) -> str:
        """Run a human monitor command on a CPU; its text, empty if there was no answer."""
        words = {"command-line": line, "cpu-index": cpu}
        answer = self.execute("human-monitor-command", deadline, **words)
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

    async def _follow(self) -> None:
        """Watch for events until QEMU closes the connection."""
        with contextlib.suppress(QMPError, OSError):
            with self._client.listener(("GUEST_PANICKED", "GUEST_CRASHLOADED")) as events:
                await self._client.connect(self._sock)
                watcher = asyncio.create_task(self._watch(events))
                await self._client.runstate_changed()
                # Events may arrive together with the end of the connection.
                watcher.cancel()
                self.panicked = bool(events.clear()) or self.panicked
                with contextlib.suppress(EOFError, OSError):
                    await self._client.disconnect()

    async def _watch(self, events: EventListener) -> None:
        async for _ in events:
            self.panicked = True
            if self._on_panic:
                self._on_panic(self)
                self._on_panic = None
