# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The host's end of the agent's port: starts commands, collects their output."""

from __future__ import annotations

import itertools
import queue
import socket
import threading
import time
from collections.abc import Iterator

from harness.vm.wire import CHUNK, Begin, Decoder, Frame, Kind, Start, encode, pack


class StreamEnd(Exception):
    """The port was closed: QEMU is gone."""


class RemoteJob:
    """A command that runs in the guest; made by :meth:`AgentClient.start`.

    Its frames queue up until somebody reads them; nothing is lost and the guest
    is not held up.
    """

    def __init__(self, client: AgentClient, number: int, argv: list[str]) -> None:
        self._client = client
        self._number = number
        self._frames: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self.argv = argv
        self.status: int | None = None
        """Exit status once :meth:`frames` has ended; negative: the signal."""

    def deliver(self, frame: Frame | None) -> None:
        """Called by the reader thread; None: the stream has ended."""
        self._frames.put(frame)

    def frames(self, deadline: float | None = None) -> Iterator[tuple[Kind, bytes]]:
        """Yield (STDOUT or STDERR, bytes) until the command has ended.

        :param deadline: on the monotonic clock, in seconds.
        :raises TimeoutError: the deadline passed.
        :raises StreamEnd: the guest is gone.
        """
        while self.status is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                frame = self._frames.get(timeout=left)
            except queue.Empty:
                raise TimeoutError from None
            if frame is None:
                self._frames.put(None)  # for whoever asks again
                raise StreamEnd
            if frame.kind is Kind.EXIT:
                self.status = frame.json()["status"]
            else:
                yield frame.kind, frame.payload

    def send(self, data: bytes) -> None:
        """Write to the command's standard input."""
        for i in range(0, len(data), CHUNK):
            self._client.send(encode(Frame(Kind.STDIN, self._number, data[i : i + CHUNK])))

    def close_stdin(self) -> None:
        """Give the command an end of file."""
        self._client.send(encode(Frame(Kind.STDIN, self._number)))

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group."""
        self._client.send(pack(Kind.SIGNAL, self._number, signal=number))

    def resize(self, rows: int, cols: int) -> None:
        """Tell the command's terminal its size."""
        self._client.send(pack(Kind.RESIZE, self._number, rows=rows, cols=cols))


class AgentClient:
    """Multiplexes jobs over one socket; one thread reads it.

    :param sock: connected to the ``kfabric.agent`` port; taken over.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._jobs: dict[int, RemoteJob] = {}
        self._lock = threading.Lock()  # jobs
        # Another one: a guest that is slow to read must not keep us from reading,
        # since it may be waiting for just that.
        self._sending = threading.Lock()
        self._ended = False
        self._numbers = itertools.count(1)
        self._words: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, name="agent", daemon=True)
        self._thread.start()

    def wait_word(self, timeout: float) -> Kind:
        """Wait for the agent's next word: that it is there, or has done what it was asked.

        :returns: HELLO or READY.
        :raises TimeoutError: it said nothing within ``timeout`` seconds.
        :raises StreamEnd: QEMU ended first.
        """
        try:
            word = self._words.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        if word is None:
            raise StreamEnd
        return word.kind

    def begin(self, name: str, mounts: list[tuple[str, str, str]], pythonpath: str) -> None:
        """Tell a guest who it is; READY follows."""
        begin: Begin = {
            "name": name,
            "mounts": mounts,
            "pythonpath": pythonpath,
            "ns": time.time_ns(),
        }
        self.send(pack(Kind.BEGIN, 0, **begin))

    def prepare(self, code: str) -> None:
        """Ask for a Python that has run this; READY follows."""
        self.send(pack(Kind.PREPARE, 0, code=code))

    def start(self, start: Start) -> RemoteJob:
        """Start a command; it fails later (status 127) if it cannot be run."""
        number = next(self._numbers)
        job = RemoteJob(self, number, start["argv"])
        with self._lock:
            if self._ended:
                job.deliver(None)
            self._jobs[number] = job
        self.send(pack(Kind.START, number, **start))
        return job

    def send(self, data: bytes) -> None:
        """Send whole frames; a vanished guest shows up at the reader."""
        with self._sending:
            try:
                self._sock.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        """End all jobs with :class:`StreamEnd`."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join()
        self._sock.close()

    def _read(self) -> None:
        decoder = Decoder()
        try:
            while data := self._sock.recv(CHUNK):
                for frame in decoder.feed(data):
                    self._dispatch(frame)
        except (OSError, ValueError):
            pass  # a stream that is not ours ends like a closed one
        self._words.put(None)
        with self._lock:
            self._ended = True
            jobs = list(self._jobs.values())
        for job in jobs:
            job.deliver(None)

    def _dispatch(self, frame: Frame) -> None:
        if frame.kind in (Kind.HELLO, Kind.READY):
            self._words.put(frame)
            return
        with self._lock:
            job = self._jobs.get(frame.job)
            if frame.kind is Kind.EXIT:
                self._jobs.pop(frame.job, None)
        if job is not None:
            job.deliver(frame)
