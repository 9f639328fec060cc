# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The host's end of the agent's port: starts commands and collects their output."""

from __future__ import annotations

import contextlib
import itertools
import queue
import secrets
import socket
import threading
import time
from collections.abc import Iterator

from kfabric.vm.wire import CHUNK, Begin, Decoder, Frame, Kind, Start, encode, pack

SIGNAL_SECONDS = 5.0
"""How long a signal waits for other frames to be sent."""


class StreamEnd(Exception):
    """The port was closed: QEMU is gone."""


Frames = queue.SimpleQueue[Frame | None]
"""Received frames; None: the stream has ended."""


def _next(frames: Frames, timeout: float | None) -> Frame:
    """Wait for a frame; raises TimeoutError or StreamEnd."""
    try:
        frame = frames.get(timeout=timeout)
    except queue.Empty:
        raise TimeoutError from None
    if frame is None:
        frames.put(None)  # for the next call
        raise StreamEnd
    return frame


class RemoteJob:
    """A command that runs in the guest; made by :meth:`AgentClient.start`.

    Its frames queue up until they are read: none is lost, and the guest never blocks.
    """

    def __init__(self, client: AgentClient, number: int, argv: list[str]) -> None:
        self._client = client
        self._number = number
        self.received: Frames = queue.SimpleQueue()
        self.argv = argv
        self.status: int | None = None
        """Exit status once :meth:`frames` has ended; negative: the signal."""

    def frames(self, deadline: float | None = None) -> Iterator[tuple[Kind, bytes]]:
        """Yield (STDOUT or STDERR, bytes) until the command has ended.

        Raises TimeoutError at the deadline (monotonic, in seconds), and StreamEnd.
        """
        while self.status is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            frame = _next(self.received, left)
            if frame.kind is Kind.EXIT:
                self.status = frame.json()["status"]
            else:
                yield frame.kind, frame.payload

    def send(self, data: bytes) -> None:
        for i in range(0, len(data), CHUNK):
            self._client.send(encode(Frame(Kind.STDIN, self._number, data[i : i + CHUNK])))

    def close_stdin(self) -> None:
        """Give the command an end of file."""
        self._client.send(encode(Frame(Kind.STDIN, self._number)))

    def signal(self, number: int) -> None:
        """Send a signal, unless the guest takes no more input."""
        self._client.send(pack(Kind.SIGNAL, self._number, signal=number), SIGNAL_SECONDS)

    def resize(self, rows: int, cols: int) -> None:
        self._client.send(pack(Kind.RESIZE, self._number, rows=rows, cols=cols))


class AgentClient:
    """Multiplexes jobs over a socket connected to the agent's port; one thread reads it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._jobs: dict[int, RemoteJob] = {}
        self._lock = threading.Lock()  # protects _jobs and _ended
        # A separate lock: a guest that is slow to read must not stop our reader, because it
        # may be waiting for it.
        self._sending = threading.Lock()
        self._ended = False
        self._numbers = itertools.count(1)
        self._replies: Frames = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, name="agent", daemon=True)
        self._thread.start()

    def wait_reply(self, timeout: float) -> Kind:
        """Wait for HELLO, or for READY after a request; raises TimeoutError or StreamEnd."""
        return _next(self._replies, timeout).kind

    def begin(self, name: str, mounts: list[tuple[str, str, str]], pythonpath: str) -> None:
        """Set the guest's name, mounts, path, clock and random numbers; READY follows."""
        begin: Begin = {
            "name": name,
            "mounts": mounts,
            "pythonpath": pythonpath,
            "ns": time.time_ns(),
            "seed": secrets.token_hex(32),
        }
        self.send(pack(Kind.BEGIN, 0, **begin))

    def prepare(self, code: str) -> None:
        """Request a Python that has run this; READY follows."""
        self.send(pack(Kind.PREPARE, 0, code=code))

    def start(self, start: Start) -> RemoteJob:
        """Start a command; it fails later (status 127) if it cannot be run."""
        number = next(self._numbers)
        job = RemoteJob(self, number, start["argv"])
        with self._lock:
            if self._ended:
                job.received.put(None)
            self._jobs[number] = job
        self.send(pack(Kind.START, number, **start))
        return job

    def send(self, data: bytes, patience: float = -1.0) -> None:
        """Send whole frames; the reader notices if the guest is gone.

        Nothing is sent if another thread sends for longer than ``patience`` seconds: it waits
        for a guest whose job does not read its input.
        """
        if not self._sending.acquire(timeout=patience):
            return
        try:
            with contextlib.suppress(OSError):
                self._sock.sendall(data)
        finally:
            self._sending.release()

    def close(self) -> None:
        """End all jobs with :class:`StreamEnd`."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._sock.close()

    def _read(self) -> None:
        decoder = Decoder()
        # A stream with invalid frames (ValueError) is treated like a closed one.
        with contextlib.suppress(OSError, ValueError):
            while data := self._sock.recv(CHUNK):
                for frame in decoder.feed(data):
                    self._dispatch(frame)
        self._replies.put(None)
        with self._lock:
            self._ended = True
            jobs = list(self._jobs.values())
        for job in jobs:
            job.received.put(None)

    def _dispatch(self, frame: Frame) -> None:
        if frame.kind in (Kind.HELLO, Kind.READY):
            self._replies.put(frame)
            return
        with self._lock:
            job = self._jobs.get(frame.job)
            if frame.kind is Kind.EXIT:
                self._jobs.pop(frame.job, None)
        if job is not None:
            job.received.put(frame)
