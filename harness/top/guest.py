# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Where the modules are: look at their objects again and again, while a command runs.

    python3 -m harness.top.guest --output FILE [--interval S] [--duration S] [-- CMD...]

The command has this program's own standard streams, and its exit status becomes this
program's. FILE gets a line of JSON for each look.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.errors import ExitStatus
from harness.guest import in_guest, modules
from harness.top.objects import order, parse

DEBUGFS = Path("/sys/kernel/debug")
OBJECTS = DEBUGFS / "kfabric/objects"
TIMED_OUT = 124  # as timeout(1) says it


def prepare() -> None:
    """Have debugfs and, in a guest of ours, the modules."""
    if not any(DEBUGFS.iterdir()):
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=True, timeout=10)
    if in_guest() and not OBJECTS.exists():
        modules.Modules.from_environment().load()


class Looker:
    """Reads the objects; times are measured while it is open."""

    def __init__(self, output: Path) -> None:
        """Open the module's file and begin a new one."""
        self._from = OBJECTS.open(encoding="utf-8", errors="replace")
        self._to = output.open("w", encoding="utf-8")
        self._start = time.monotonic()

    def look(self) -> None:
        """Write one line."""
        self._from.seek(0)
        seconds = round(time.monotonic() - self._start, 3)
        objects = [one.encode() for one in order(parse(self._from.read()))]
        print(json.dumps({"seconds": seconds, "objects": objects}), file=self._to, flush=True)

    def close(self) -> None:
        """Let go of the module."""
        self._from.close()
        self._to.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Look; the exit status is the command's, TIMED_OUT if it outlived ``--duration``."""
    args = _parse(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        prepare()
        looker = Looker(args.output)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"kfabric: nothing to look at: {error}", file=sys.stderr)
        return ExitStatus.SETUP
    child = subprocess.Popen(args.command) if args.command else None
    try:
        return _watch(looker, child, args.interval, args.duration)
    except KeyboardInterrupt:
        return ExitStatus.OK if child is None else ExitStatus.INTERRUPTED
    finally:
        if child is not None and child.poll() is None:
            child.terminate()
            child.wait(10)
        looker.close()


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m harness.top.guest", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--interval", type=float, default=1.0, metavar="S")
    parser.add_argument("--duration", type=float, default=0.0, metavar="S")
    parser.add_argument("command", nargs="*", metavar="CMD")
    return parser.parse_args(argv)


def _watch(
    looker: Looker, child: subprocess.Popen[bytes] | None, interval: float, duration: float
) -> int:
    """Look until it is over."""
    end = time.monotonic() + duration if duration else float("inf")
    while True:
        looker.look()
        left = min(interval, max(end - time.monotonic(), 0.0))
        if _ended(child, left):
            assert child is not None and child.returncode is not None
            return child.returncode if child.returncode >= 0 else 128 - child.returncode
        if time.monotonic() >= end:
            return ExitStatus.OK if child is None else TIMED_OUT


def _ended(child: subprocess.Popen[bytes] | None, seconds: float) -> bool:
    """Wait so long for the command's end. Has it come?"""
    if child is None:
        time.sleep(seconds)
        return False
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
