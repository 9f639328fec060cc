# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side of the gallery: load the tracer once, play the entries, tell of each.

Prints one JSON line for each play; leaves the recording in $KFABRIC_OUT. Each
play's records are told by how many came before and within it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import names
from harness.guest import modules
from harness.guest.modules import ModuleError, Modules
from harness.probes.loader import ProbeError
from harness.trace.scope import Scope
from harness.trace.tracer import Tracer

MODULE = "gallery"
SCOPE = Scope(modules=(MODULE,), publish=("gallery_publish",), take=("gallery_take",))
DEBUGFS = Path("/sys/kernel/debug")
ROUNDS = Path("/sys/module/gallery/parameters/rounds")
_DRAIN_SECONDS = 0.05
_TRIES = 3
_PART = 20_000

Tell = Callable[[dict[str, Any]], None]
"""Gets a line for each play."""


class Stage:
    """The tracer, and how many records it has handed over."""

    def __init__(self, tracer: Tracer, tell: Tell) -> None:
        self.tracer = tracer
        self.tell = tell
        self.records = 0

    def drain(self) -> None:
        """Take what is in the ring."""
        while taken := self.tracer.drain():
            self.records += taken

    @contextmanager
    def drained(self) -> Iterator[None]:
        """Drain in a thread of its own while the block runs, and once more at its end."""
        done = threading.Event()

        def drain() -> None:
            while not done.wait(_DRAIN_SECONDS):
                self.drain()

        thread = threading.Thread(target=drain)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.drain()

    def play(self, what: str, name: str) -> None:
        """Play one entry, and tell of it; again if the tracer could not keep up."""
        for tries in range(1, _TRIES + 1):
            line = self._play(what, name)
            if tries == _TRIES or not any(line["losses"].values()):
                self.tell(line | {"tries": tries})
                return
            self.tell({"again": name, "losses": line["losses"]})

    def _play(self, what: str, name: str) -> dict[str, Any]:
        self.drain()
        lost, first, began = self.tracer.losses(), self.records, time.monotonic()
        with self.drained():
            told = (DEBUGFS / MODULE / what / name).read_text(encoding="ascii")
        return {
            "play": what,
            "name": name,
            "told": told,
            "first": first,
            "records": self.records - first,
            "losses": {k: v - lost[k] for k, v in self.tracer.losses().items()},
            "seconds": round(time.monotonic() - began, 3),
        }

    def play_many(self, name: str, rounds: int) -> None:
        """Play a healthy kind, in parts that can be played again."""
        while rounds > 0:
            part = min(rounds, _PART)
            ROUNDS.write_text(str(part), encoding="ascii")
            self.play("healthy", name)
            rounds -= part


def main() -> int:
    """Play all that is asked for; what went wrong with the machine is told in words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--healthy", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=1000)
    args = parser.parse_args()
    try:
        play(Path(os.environ[names.OUT]), args.names, args.healthy, args.rounds, _print)
    except (ModuleError, ProbeError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _print(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def play(
    directory: Path, names: Sequence[str], healthy: Sequence[str], rounds: int, tell: Tell
) -> None:
    """Play entries, buggy and repaired, and healthy kinds; leave the recording there.

    Raises ModuleError or ProbeError.
    """
    if not (DEBUGFS / "tracing").exists():
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=True, timeout=10)
    modules.insert(Modules.from_environment().file(MODULE))
    try:
        with Tracer(SCOPE, directory) as tracer:
            tell({"loaded": round(tracer.load_seconds, 3)})
            stage = Stage(tracer, tell)
            for name in names:
                stage.play("buggy", name)
                stage.play("fixed", name)
            for name in healthy:
                stage.play_many(name, rounds)
            tracer.stop()
    finally:
        modules.remove(MODULE)


if __name__ == "__main__":
    sys.exit(main())
