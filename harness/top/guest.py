# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""On the machine with the modules: samples their objects while a command runs.

    python3 -m kfabric.top.guest --output FILE [--interval S] [--duration S] [-- CMD...]

The command has this program's own standard streams, and its exit status becomes that of this
program. FILE gets a line of JSON for each sample.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kfabric.errors import ExitStatus
from kfabric.guest import in_guest, modules
from kfabric.top.objects import order, parse

DEBUGFS = Path("/sys/kernel/debug")
OBJECTS = DEBUGFS / "kfabric/objects"
TIMED_OUT = 124  # as timeout(1) does


def prepare() -> None:
    """Mount debugfs and, in a guest of the harness, load the modules."""
    if not any(DEBUGFS.iterdir()):
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=True, timeout=10)
    if in_guest() and not OBJECTS.exists():
        modules.Modules.from_environment().load()


class Sampler:
    """Reads the objects; the modules measure times while it is open."""

    def __init__(self, output: Path) -> None:
        self._from = OBJECTS.open(encoding="utf-8", errors="replace")
        self._to = output.open("w", encoding="utf-8")
        self._start = time.monotonic()

    def sample(self) -> None:
        """Write one line."""
        self._from.seek(0)
        seconds = round(time.monotonic() - self._start, 3)
        counted = (one for one in parse(self._from.read()) if one.values)
        objects = [one.encode() for one in order(counted)]
        print(json.dumps({"seconds": seconds, "objects": objects}), file=self._to, flush=True)

    def close(self) -> None:
        """Close both files."""
        self._from.close()
        self._to.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Sample until the command ends; its exit status, or TIMED_OUT."""
    parser = argparse.ArgumentParser(prog="python3 -m kfabric.top.guest", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--interval", type=float, default=1.0, metavar="S")
    parser.add_argument("--duration", type=float, default=0.0, metavar="S")
    parser.add_argument("--cwd", default=".", metavar="DIR", help="CMD's")
    parser.add_argument("command", nargs="*", metavar="CMD")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        prepare()
        sampler = Sampler(args.output)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"kfabric: cannot read the objects: {error}", file=sys.stderr)
        return ExitStatus.SETUP
    child = subprocess.Popen(args.command, cwd=args.cwd) if args.command else None
    try:
        return _watch(sampler, child, args.interval, args.duration)
    except KeyboardInterrupt:
        return ExitStatus.OK if child is None else ExitStatus.INTERRUPTED
    finally:
        if child is not None and child.poll() is None:
            child.terminate()
            child.wait(10)
        sampler.close()


def _watch(
    sampler: Sampler, child: subprocess.Popen[bytes] | None, interval: float, duration: float
) -> int:
    """Sample until the command ends or the time is over."""
    end = time.monotonic() + duration if duration else float("inf")
    while True:
        sampler.sample()
        left = min(interval, max(end - time.monotonic(), 0.0))
        if child is None:
            time.sleep(left)
        else:
            try:
                status = child.wait(left)
                return status if status >= 0 else 128 - status
            except subprocess.TimeoutExpired:
                pass
        if time.monotonic() >= end:
            return ExitStatus.OK if child is None else TIMED_OUT


if __name__ == "__main__":
    sys.exit(main())
