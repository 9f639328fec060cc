# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""QEMU's monitor, with a simulated QEMU at the other end."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from kfabric.guest.waiting import wait_until
from kfabric.vm.qmp import QmpLink

SECONDS = 20.0
GREETING = {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}}, "capabilities": []}}


class Qemu:
    """Greets, and answers every command but ``hang``."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        threading.Thread(target=self._serve, daemon=True).start()

    def say(self, message: object) -> None:
        """Send a message of its own."""
        self._sock.sendall(json.dumps(message).encode() + b"\n")

    def event(self, name: str) -> None:
        """Send an event."""
        stamp = {"seconds": 1, "microseconds": 0}
        self.say({"event": name, "data": {}, "timestamp": stamp})

    def end(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        self.say(GREETING)
        # What we are asked has no end of line, and two threads may ask at a time.
        text = ""
        while data := self._sock.recv(4096):
            text += data.decode()
            while text:
                try:
                    asked, end = json.JSONDecoder().raw_decode(text)
                except json.JSONDecodeError:
                    break
                text = text[end:]
                self._answer(asked)

    def _answer(self, asked: dict[str, str]) -> None:
        if asked["execute"] != "hang":
            self.say({"return": {}} | ({"id": asked["id"]} if "id" in asked else {}))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Qemu]]:
    """Our socket, and the simulated QEMU at the other end."""
    near, far = socket.socketpair()
    qemu = Qemu(far)
    yield near, qemu
    qemu.end()
    for end in (near, far):
        end.close()


def connected(link: QmpLink) -> QmpLink:
    """Wait until it has exchanged greetings."""
    wait_until(lambda: link.execute("query-status", SECONDS) == {}, "a session", SECONDS)
    return link


def test_panic_is_reported_once(ends: tuple[socket.socket, Qemu]) -> None:
    """A kernel may report two."""
    near, qemu = ends
    told: queue.Queue[QmpLink] = queue.Queue()
    link = connected(QmpLink(near, told.put))
    assert not link.panicked
    qemu.event("GUEST_PANICKED")
    assert told.get(timeout=SECONDS) is link
    assert link.panicked
    qemu.event("GUEST_PANICKED")
    assert link.execute("query-status", SECONDS) == {}, "the second one has been read"
    assert told.empty()
    qemu.end()
    link.close()


def test_end_of_qemu_ends_what_waits_for_an_answer(ends: tuple[socket.socket, Qemu]) -> None:
    """And not at the deadline: a partial dump must be removed first."""
    near, qemu = ends
    link = connected(QmpLink(near))
    answers: queue.Queue[object] = queue.Queue()
    threading.Thread(
        target=lambda: answers.put(link.execute("hang", 100 * SECONDS)), daemon=True
    ).start()
    assert link.execute("query-status", SECONDS) == {}
    qemu.end()
    assert answers.get(timeout=SECONDS) is None
    link.close()
    assert link.execute("query-status", SECONDS) is None, "asked behind the end"
