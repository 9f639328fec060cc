# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: loads the tracer once, runs the gallery's entries, and reports each run.

Prints one JSON line for each run; leaves the recording in $KFABRIC_OUT. A line names the records
of its run by their number in the recording. With --mock it runs wake-ups of kfabric's own wait
sets under kfabric's probes instead: two kernel threads wake each other in turn by completions of
the mock provider; each sleeps in kfi_wait().
"""

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

from kfabric import names
from kfabric.gallery.entries import BY_NAME, MOCK_NAME
from kfabric.guest import modules
from kfabric.guest.modules import ModuleError, Modules
from kfabric.probes.loader import REALTIME, Probe, ProbeError
from kfabric.trace.scope import Scope
from kfabric.trace.tracer import Tracer

MODULE = "gallery"
SCOPE = Scope(
    modules=(MODULE,), publish=("gallery_publish", "gallery_give"), take=("gallery_take",)
)
DEBUGFS = Path("/sys/kernel/debug")
ROUNDS = Path("/sys/module/gallery/parameters/rounds")
MOCK = "mock"
"""Directory for the recording of the mock provider."""
_BENCH = DEBUGFS / "kfi_bench"
_DRAIN_SECONDS = 0.05
_TRIES = 3
_PART = 20_000

Report = Callable[[dict[str, Any]], None]
"""Gets a line for each run."""


@contextmanager
def draining(drain: Callable[[], object]) -> Iterator[None]:
    """Call a function again and again in a thread, until the block has ended."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(_DRAIN_SECONDS):
            drain()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class Runner:
    """Runs entries under the tracer, and counts the records."""

    def __init__(self, tracer: Tracer, report: Report) -> None:
        self._tracer = tracer
        self._report = report
        self._records = 0

    def _drain(self) -> None:
        while taken := self._tracer.drain():
            self._records += taken

    def run(self, variant: str, name: str) -> None:
        """Run one entry and report it; repeat it if the tracer lost records."""
        for tries in range(1, _TRIES + 1):
            line = self._try(variant, name)
            if tries == _TRIES or not any(line["losses"].values()):
                self._report(line | {"tries": tries})
                return
            self._report({"again": name, "losses": line["losses"]})

    def _try(self, variant: str, name: str) -> dict[str, Any]:
        self._drain()
        lost, first, began = self._tracer.losses(), self._records, time.monotonic()
        with draining(self._drain):
            output = (DEBUGFS / MODULE / variant / name).read_text(encoding="ascii")
        self._drain()
        return {
            "variant": variant,
            "name": name,
            "output": output,
            "first": first,
            "records": self._records - first,
            "losses": {k: v - lost[k] for k, v in self._tracer.losses().items()},
            "seconds": round(time.monotonic() - began, 3),
        }

    def run_rounds(self, name: str, rounds: int) -> None:
        """Run a healthy kind, in parts each of which can be repeated."""
        while rounds > 0:
            part = min(rounds, _PART)
            ROUNDS.write_text(str(part), encoding="ascii")
            self.run("healthy", name)
            rounds -= part


def main() -> int:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--healthy", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--mock", action="store_true")
    args = parser.parse_args()
    out = Path(os.environ[names.OUT])

    def report(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)

    try:
        if args.mock:
            seconds = run_mock(out / MOCK, args.rounds)
            report({"variant": "healthy", "name": MOCK_NAME, "seconds": seconds})
        else:
            run(out, args.names, args.healthy, args.rounds, report)
    except (ModuleError, ProbeError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def run(
    directory: Path, names: Sequence[str], healthy: Sequence[str], rounds: int, report: Report
) -> None:
    """Run entries, buggy and fixed, and healthy kinds; leave the recording in a directory.

    Raises ModuleError or ProbeError.
    """
    if not (DEBUGFS / "tracing").exists():
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=True, timeout=10)
    modules.insert(Modules.from_environment().file(MODULE))
    try:
        with Tracer(SCOPE, directory) as tracer:
            report({"loaded": round(tracer.load_seconds, 3)})
            runner = Runner(tracer, report)
            for name in filter(is_bug, names):
                runner.run("buggy", name)
                runner.run("fixed", name)
            for name in healthy:
                runner.run_rounds(name, rounds)
            tracer.stop()
    finally:
        modules.remove(MODULE)


def is_bug(name: str) -> bool:
    """Is an entry a bug on this kernel?"""
    return BY_NAME[name].realtime or not REALTIME.exists()


def run_mock(directory: Path, rounds: int) -> float:
    """Let two threads wake each other, `rounds` times in all; return the seconds.

    Raises ModuleError or ProbeError.
    """
    ours = Modules.from_environment()
    with ours.loaded(("kfabric", "kfi_mock")):
        modules.insert(ours.file("kfi_bench"))
        try:
            with Probe() as probe:
                began = time.monotonic()
                with draining(probe.drain), _BENCH.open("wb", buffering=0) as file:
                    file.write(f"pingpong kfi normal {rounds // 2} 0 1 -1".encode())
                seconds = time.monotonic() - began
                probe.stop(directory)
        finally:
            modules.remove("kfi_bench")
    return round(seconds, 3)


if __name__ == "__main__":
    sys.exit(main())
