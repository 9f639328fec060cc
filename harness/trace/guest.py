# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The part of ``kfabric trace`` on the traced kernel: runs the tracer and a command.

    python3 -m kfabric.trace.guest --output DIR [--module M] [--duration S] [-- CMD...]

The command shares this program's standard streams and exit status. ``DIR/live.jsonl`` gets
a line a few times a second, for a live display. Needs only Debian's python3 and
python3-bpfcc.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kfabric.errors import ExitStatus
from kfabric.guest import aim
from kfabric.probes.loader import ProbeError
from kfabric.terminal.slow import Slow
from kfabric.trace.loads import Aims
from kfabric.trace.scope import add_scope_options, scope_of
from kfabric.trace.tracer import Tracer

LIVE = "live.jsonl"
TIMED_OUT = 124  # the exit status of timeout(1)

_TICK_SECONDS = 0.05
_LIVE_SECONDS = 0.5
# Reading the counters may take this share of the time.
_LIVE_SHARE = 0.1
_PATIENCE_SECONDS = 5.0
_SIGNALS = frozenset({signal.SIGCHLD, signal.SIGINT, signal.SIGTERM})


class Live:
    """Writes the progress of a trace for a live display."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self._next = 0.0

    def write(self, **values: Any) -> None:
        """Write one line."""
        print(json.dumps(values), file=self._file, flush=True)

    def counts(self, tracer: Tracer) -> None:
        """Write the counters, unless that was done just now."""
        now = time.monotonic()
        if now < self._next:
            return
        rows = [asdict(row) for row in tracer.rows()]
        seconds = (time.monotonic_ns() - tracer.t_start) / 1e9
        self.write(rows=rows, losses=tracer.losses(), seconds=round(seconds, 1))
        after = time.monotonic()
        self._next = after + max(_LIVE_SECONDS, (after - now) / _LIVE_SHARE)


class Child:
    """The command: forked at once, executed once it is traced."""

    def __init__(self, argv: Sequence[str], cwd: str) -> None:
        """Fork. The child stops itself until :meth:`go`."""
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._become(argv, cwd)
        os.waitpid(self.pid, os.WUNTRACED)

    def _become(self, argv: Sequence[str], cwd: str) -> None:
        try:
            os.kill(os.getpid(), signal.SIGSTOP)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            os.chdir(cwd)
            os.execvp(argv[0], list(argv))
        except OSError as error:
            print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        finally:
            os._exit(127)

    def go(self) -> None:
        """Execute the command."""
        os.kill(self.pid, signal.SIGCONT)

    def poll(self) -> bool:
        """Has it ended? Then ``status`` is set, to 128+n for signal n."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else 128 - code
        return self.status is not None

    def end(self) -> None:
        """Terminate it if it still runs, or kill it after a while."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.poll():
                return
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
            limit = time.monotonic() + _PATIENCE_SECONDS
            while not self.poll() and time.monotonic() < limit:
                signal.sigtimedwait(_SIGNALS, _TICK_SECONDS)


def main(argv: Sequence[str] | None = None) -> int:
    """Trace; the exit status is the command's.

    It is TIMED_OUT if the command outlived ``--duration``, INTERRUPTED after a signal.
    """
    args = _parse(argv)
    # Blocked, and received by sigtimedwait().
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    live = Live(args.output / LIVE)
    try:
        with _load(args) as tracer:
            return _trace(tracer, live, args)
    except (ProbeError, aim.Unheld) as error:
        live.write(failed=str(error))
        print(f"kfabric: not traced: {error}", file=sys.stderr)
        return ExitStatus.NOT_VERIFIED


def _load(args: argparse.Namespace) -> Tracer:
    """Load the tracer; a line shows that it is compiled, or that it takes long."""

    def show(line: str) -> None:
        if not args.quiet:
            print(f"kfabric: {line}", file=sys.stderr, flush=True)

    def compiling() -> None:
        slow.cancel()
        show("probes: compiling; this takes long, but only once for each kernel")

    with Slow("the tracer is loading", show) as slow:
        return Tracer(
            scope_of(args),
            args.output,
            ring_mib=args.ring,
            compiling=compiling,
        )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m kfabric.trace.guest", description=__doc__)
    add_scope_options(parser)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--duration", type=float, default=0.0, metavar="S")
    parser.add_argument("--ring", type=float, default=32.0, metavar="MIB")
    parser.add_argument("--cwd", default=".", metavar="DIR", help="CMD's")
    parser.add_argument("--quiet", action="store_true", help="no line about progress")
    parser.add_argument("command", nargs="*", metavar="CMD")
    return parser.parse_args(argv)


def _trace(tracer: Tracer, live: Live, args: argparse.Namespace) -> int:
    live.write(loaded=tracer.load_seconds, steps=tracer.seconds)
    aims = Aims()
    aims.look()
    child = Child(args.command, args.cwd) if args.command else None
    if child is not None:
        if tracer.scope.by_tree:
            tracer.follow(child.pid)
        child.go()
    end = _watch(tracer, live, aims, child, args.duration)
    # Before the end of the child, which would end its waits.
    summary = tracer.stop()
    if end == ExitStatus.INTERRUPTED:
        before = f", before {args.command[0]} had ended" if args.command else ""
        words = f"interrupted after {summary.seconds:.1f} s{before}; what follows is of this time"
        print(f"kfabric: {words}", file=sys.stderr, flush=True)
    if child is not None:
        child.end()
    live.write(done=True, lost=summary.lost)
    if child is None:
        return ExitStatus.OK
    return end or int(child.status or 0)


def _watch(tracer: Tracer, live: Live, aims: Aims, child: Child | None, duration: float) -> int:
    """Drain until the end of the trace; 0 if the command has ended, else the status for that."""
    limit = time.monotonic() + duration if duration else float("inf")
    while True:
        got = signal.sigtimedwait(_SIGNALS, _TICK_SECONDS)
        tracer.drain()
        tracer.refresh()
        aims.look()
        live.counts(tracer)
        # First, since the signal of a terminal ends the command as well.
        if got is not None and got.si_signo != signal.SIGCHLD:
            return ExitStatus.INTERRUPTED
        if child is not None and child.poll():
            return ExitStatus.OK
        if time.monotonic() >= limit:
            return TIMED_OUT


if __name__ == "__main__":
    sys.exit(main())
