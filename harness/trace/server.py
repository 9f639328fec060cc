# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A tracer that runs beside the tests of a guest, and answers questions about cuts.

    python3 -m kfabric.trace.server --output DIR --module M --event F --take G

It is a process of its own, since the tracer leaves out the waits of its own process. It
reads one question a line from its standard input, as JSON, and answers in one line.
:mod:`kfabric.trace.blocks` asks.
"""

import argparse
import json
import select
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfabric.probes.loader import ProbeError
from kfabric.recording.records import EnderRecord, WaitRecord, WakeRecord
from kfabric.trace.loads import node
from kfabric.trace.scope import Scope, add_scope_options, scope_of
from kfabric.trace.tracer import Tracer

LOOK = "look.bin"
"""File in the output directory: the records of the last look."""
_TICK_SECONDS = 0.05
_QUEUE_AND_BEGIN = struct.Struct("<IQ")  # after the kind, in a wait and in a wake
_TID = struct.Struct("<I")
_TID_OF_WAIT = 88
_TIDS = {WakeRecord.KIND: 48, EnderRecord.KIND: 24}
"""Where the thread is in the records of a wait before its end."""

_Key = tuple[int, int, int]
"""A wait: queue, begin, thread."""


def wait_key(record: bytes, tid_at: int) -> _Key:
    """The wait of a packed wait or wake."""
    queue, begin = _QUEUE_AND_BEGIN.unpack_from(record, 4)
    (tid,) = _TID.unpack_from(record, tid_at)
    return queue, begin, tid


class EarlyWakes:
    """The wakes and holders of open waits so far: a cut that begins now needs them, too."""

    def __init__(self) -> None:
        self._of: dict[_Key, list[bytes]] = {}

    def note(self, record: bytes) -> None:
        """Keep a wake or a holder; forget those of a wait that has ended."""
        if record[0] in _TIDS:
            self._of.setdefault(wait_key(record, _TIDS[record[0]]), []).append(record)
        elif record[0] == WaitRecord.KIND and self._of:
            self._of.pop(wait_key(record, _TID_OF_WAIT), None)

    def packed(self) -> bytes:
        """All of them."""
        return b"".join(record for records in self._of.values() for record in records)


@dataclass(frozen=True, slots=True)
class _Begin:
    """The begin of a cut: a time, the place in the file, wakes from before it, the losses."""

    t: int
    position: int
    early: bytes
    losses: Mapping[str, int]


class CutTracer(Tracer):
    """A tracer whose recording can be looked at, and whose modules may be loaded again."""

    _nodes: Mapping[str, int] = {}
    t_marked = 0
    """Since when all functions have been marked; 0 while one of a loaded module is missing."""

    def __init__(self, scope: Scope, directory: Path) -> None:
        self._early = EarlyWakes()
        self._cuts: dict[int, _Begin] = {}
        self._next = 1
        super().__init__(scope, directory)

    def refresh(self) -> None:
        """Look for modules that were loaded, also again, and for their functions."""
        nodes = {name: node(name) for name in self.scope.modules}
        if nodes != self._nodes:
            if any(node and nodes[name] != node for name, node in self._nodes.items()):
                # The names of the queues of a module that has just gone are still known. Those of
                # one that has just come are not known yet, and must not be kept.
                self.names()
            if any(node and node != self._nodes.get(name) for name, node in nodes.items()):
                self.t_marked = 0
            self._nodes = nodes
            self._ranges.clear()
            self._last_modules = ""
            self._marks.reset()
        super().refresh()
        if not self.t_marked and not self.missing:
            self.t_marked = time.monotonic_ns()

    def names(self) -> dict[int, str]:
        """The names of the traced queues, by number."""
        return self._queue_names(self._queues())

    def drain(self) -> int:
        """Move the rings' records to the file; return how many."""
        count = 0
        for ring in self._rings:
            for record in ring.drain():
                count += 1
                self._early.note(record)
                if self._cuts:
                    self._file.write(record)
        return count

    def begin(self) -> dict[str, Any]:
        """Begin a cut."""
        self.refresh()
        self.drain()
        if not self._cuts:
            self._file.seek(0)
            self._file.truncate()
        number, self._next = self._next, self._next + 1
        begin = _Begin(time.monotonic_ns(), self._file.tell(), self._early.packed(), self.losses())
        self._cuts[number] = begin
        return {"cut": number, "t": begin.t}

    def look(self, cut: int) -> dict[str, Any]:
        """Write the records of a cut so far, and describe them."""
        begin = self._cuts[cut]
        self.drain()
        pending = [*self._open_waits(), *(bytes(work.r) for work in self._pending_works())]
        self.drain()
        t_stop = time.monotonic_ns()
        self._file.flush()
        with (self.directory / "recording.bin").open("rb") as file:
            file.seek(begin.position)
            records = file.read()
        (self.directory / LOOK).write_bytes(b"".join([begin.early, records, *pending]))
        losses = {name: count - begin.losses[name] for name, count in self.losses().items()}
        return {
            "t_stop": t_stop,
            "losses": losses,
            "queues": self.names(),
            "marked": self.t_marked,
            "missing": self.missing,
            "loaded": sorted(name for name, node in self._nodes.items() if node),
        }

    def end(self, cut: int) -> dict[str, Any]:
        """Forget a cut."""
        self._cuts.pop(cut, None)
        return {}

    def threads(self, tids: Sequence[int]) -> dict[str, Any]:
        """The names of threads."""
        table, found = self._bpf[b"threads"], {}
        for tid in tids:
            with suppress(KeyError):
                found[tid] = table[table.Key(tid)].text.decode(errors="replace")
        return {"threads": found}

    def frames(self, stacks: Sequence[int]) -> dict[str, Any]:
        """The frames of stacks, innermost first."""
        return {"frames": {number: self._names.frames(number) for number in stacks}}

    def seen(self) -> dict[str, Any]:
        """Look for the modules now."""
        self.refresh()
        return {"missing": self.missing}

    def _open_waits(self) -> list[bytes]:
        """The open waits and their stacks, as packed records."""
        waits = self._pending_waits(self._queues())
        return [part for wait in waits for part in (bytes(wait.r), bytes(wait.stack))]


def serve(tracer: CutTracer) -> None:
    """Answer questions until the end of the input."""
    answers: dict[str, Callable[..., dict[str, Any]]] = {
        "begin": tracer.begin,
        "look": tracer.look,
        "end": tracer.end,
        "threads": tracer.threads,
        "frames": tracer.frames,
        "seen": tracer.seen,
    }
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], _TICK_SECONDS)
        if not ready:
            tracer.drain()
            tracer.refresh()
            continue
        if not (line := sys.stdin.readline()):
            return
        name, *arguments = json.loads(line)
        print(json.dumps(answers[name](*arguments)), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Load the tracer, and answer questions."""
    parser = argparse.ArgumentParser(prog="python3 -m kfabric.trace.server", description=__doc__)
    add_scope_options(parser)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    args = parser.parse_args(argv)
    try:
        tracer = CutTracer(scope_of(args), args.output)
        with tracer:
            print(json.dumps({}), flush=True)  # it is loaded
            serve(tracer)
    except ProbeError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
