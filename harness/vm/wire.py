# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The protocol between host and guest agent: frames on one virtio-serial port.

A frame is a header (kind, job, length) and a payload: raw bytes for input and output, JSON
for everything else. The host chooses a job number for each command; job 0 is the agent.

The agent imports this file: no ``dataclasses`` here, whose import takes a quarter of a
second under TCG.
"""

import enum
import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, TypedDict

_HEADER = struct.Struct("!BII")
MAX_PAYLOAD = 1 << 20
CHUNK = 1 << 16
"""Longest piece of output or input put into one frame."""


class Kind(enum.IntEnum):
    """The kind of a frame. G: sent by the guest, H: sent by the host."""

    HELLO = 1
    """G: the agent is ready; JSON facts about the guest."""
    BEGIN = 2
    """H: JSON, see :class:`Begin`; answered by READY."""
    START = 3
    """H: JSON, see :class:`Start`."""
    STDIN = 4
    """H: bytes for the job's standard input; empty means end of file."""
    STDOUT = 5
    """G: bytes of the job's standard output (or of its terminal)."""
    STDERR = 6
    """G: bytes of the job's standard error."""
    EXIT = 7
    """G: JSON ``{"status": n}``, after all output; n < 0 is a signal."""
    SIGNAL = 8
    """H: JSON ``{"signal": n}`` for the job's process group."""
    RESIZE = 9
    """H: JSON ``{"rows": n, "cols": n}`` for the job's terminal."""
    PREPARE = 10
    """H: JSON ``{"code": "..."}``: start a Python that runs it and then waits for the next job
    that is a Python on a port; answered by READY."""
    READY = 11
    """G: the request is done; empty."""


class Frame(NamedTuple):
    """One message."""

    kind: Kind
    job: int
    payload: bytes = b""

    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.payload)
        return value


class Begin(TypedDict):
    """The payload of BEGIN: the differences between guests of a kind."""

    name: str
    """Its host name."""
    mounts: list[tuple[str, str, str]]
    """Directories of the host, in order: 9p's tag, the path in the guest, options."""
    pythonpath: str
    """Directory of the checkout's packages, for commands."""
    ns: int
    """The host's wall clock."""
    seed: str
    """Random bytes, in hexadecimal: a frozen guest's are those of all its kind."""


class Start(TypedDict):
    """The payload of START."""

    argv: list[str]
    """Command and arguments; looked up in the guest's PATH."""
    env: dict[str, str]
    """Added to the agent's environment."""
    cwd: str
    pty: bool
    """Give it a terminal of ``rows`` x ``cols`` instead of pipes."""
    rows: int
    cols: int
    port: str
    """Use this virtio-serial port as its stdin and stdout; empty: pipes."""


def encode(frame: Frame) -> bytes:
    if len(frame.payload) > MAX_PAYLOAD:
        raise ValueError(f"payload of {len(frame.payload)} bytes")
    return _HEADER.pack(frame.kind, frame.job, len(frame.payload)) + frame.payload


def pack(kind: Kind, job: int, **fields: object) -> bytes:
    return encode(Frame(kind, job, json.dumps(fields).encode()))


class Decoder:
    """Turns received bytes into frames; keeps the incomplete rest."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield each frame that ``data`` completes; ValueError for an unknown kind or size."""
        self._rest += data
        while len(self._rest) >= _HEADER.size:
            kind, job, length = _HEADER.unpack_from(self._rest)
            if length > MAX_PAYLOAD:
                raise ValueError(f"frame of {length} bytes")
            end = _HEADER.size + length
            if len(self._rest) < end:
                return
            payload = bytes(self._rest[_HEADER.size : end])
            del self._rest[:end]
            yield Frame(Kind(kind), job, payload)
