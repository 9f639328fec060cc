# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Show what every wait set, poll set and queue counts, live, while CMD runs.

The objects with the longest sleeps come first. By default CMD runs in a disposable guest; with
--here (always, inside a guest) the objects are those of this machine, and CMD may be left out.
The exit status is that of CMD; 124 if it outlived --duration.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import GuestSplat, SetupError
from harness.guest import in_guest
from harness.streams import Follower, Output, read_both
from harness.top import table
from harness.top.objects import decode

if TYPE_CHECKING:
    from rich.live import Live

SOURCE = Path(__file__).resolve().parents[2]
_LIVE = "top.jsonl"
# Title, heads, rule and a line of the command's.
_FRAME_LINES = 7


def main(argv: Sequence[str]) -> int:
    """Run the command and show the counts; the command's exit status.

    Raises:
        GuestError: the guest failed.
        SetupError: this machine does not show its objects.
    """
    args = _parse(argv)
    display = Display(args.json)
    if args.here:
        with tempfile.TemporaryDirectory(prefix="kfabric-top-") as directory:
            status = _here(args, Path(directory) / _LIVE, display)
    else:
        status = _in_guest(args, display)
    display.finish()
    return status


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kfabric top", description=__doc__, epilog=table.COLUMNS)
    add = parser.add_argument
    add("--interval", type=float, default=1.0, metavar="S", help="default: %(default)g s")
    add("--duration", type=float, default=0.0, metavar="S", help="stop after S s; default: never")
    add("--json", action="store_true", help="print each sample as a line of JSON")
    add("--here", action="store_true", help="on this machine, not in a guest")
    add("--timeout", type=float, default=3600.0, metavar="S", help="of CMD; default: %(default)g s")
    if not in_guest():
        from harness.vm.options import add_guest_options

        add_guest_options(parser)
    add("command", nargs="*", metavar="CMD")
    args = parser.parse_args(argv)
    args.here |= in_guest()
    if args.interval <= 0:
        parser.error("--interval must be more than 0")
    if not args.here and not args.command:
        parser.error("a new guest has no objects without CMD")
    return args


def _argv(args: argparse.Namespace, place: Path) -> list[str]:
    """The command line of the part that runs on the machine with the modules."""
    words = ["-m", "harness.top.guest", f"--output={place}", f"--interval={args.interval:g}"]
    words += [f"--duration={args.duration:g}"] if args.duration else []
    return [*words, "--", *args.command] if args.command else words


class Display:
    """The output: a table that is redrawn, or JSON lines, or only the final table."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._history = table.History()
        self._live: Live | None = None

    def add(self, sample: dict[str, Any]) -> None:
        """Show one sample."""
        seconds = sample["seconds"]
        self._history.add(map(decode, sample["objects"]), seconds)
        if self._json:
            objects = [one.encode() for one in self._history.now]
            print(json.dumps({"seconds": seconds, "objects": objects}), flush=True)
        elif self._live is not None:
            rows = max(self._live.console.height - _FRAME_LINES, 1)
            self._live.update(table.live(self._history, seconds, rows))

    def run(self, stream: Output, place: Path) -> None:
        """Copy the command's output, and show the samples as they come."""
        with self._shown(), Follower(place, self.add, every=True):
            self.copy(stream)

    def copy(self, stream: Output) -> None:
        """Copy the command's output; with JSON, standard output goes to standard error."""
        for to_stdout, data in stream:
            if self._live is not None:
                from rich.text import Text

                text = Text.from_ansi(data.decode(errors="replace").removesuffix("\n"))
                self._live.console.print(text)
                continue
            target = sys.stdout if to_stdout and not self._json else sys.stderr
            target.buffer.write(data)
            target.flush()

    @contextlib.contextmanager
    def _shown(self) -> Iterator[None]:
        if self._json or not sys.stdout.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False)
        with Live("kfabric top: starting …", console=console, transient=True) as live:
            self._live = live
            yield
        self._live = None

    def finish(self) -> None:
        """Print the final table."""
        if not self._json:
            for line in table.plain(self._history):
                print(line)


def _here(args: argparse.Namespace, place: Path, display: Display) -> int:
    if os.geteuid() != 0:
        raise SetupError("not root", "the modules show their objects only to root")
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, *_argv(args, place)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    try:
        display.run(read_both(process), place)
    except KeyboardInterrupt:
        # The process has received the signal, too, and ends.
        display.copy(read_both(process))
    return process.wait()


def _in_guest(args: argparse.Namespace, display: Display) -> int:
    from harness.vm.options import disposable, guest
    from harness.vm.wire import Kind

    with disposable(*guest(args, "top")) as vm:
        place = vm.out / _LIVE
        remote = vm.popen(["python3", *_argv(args, place)], timeout=args.timeout, cwd=str(SOURCE))
        remote.close_stdin()

        def stream() -> Output:
            return ((kind is Kind.STDOUT, data) for kind, data in remote.stream())

        try:
            display.run(stream(), place)
        except KeyboardInterrupt:
            remote.signal(signal.SIGINT)
            display.copy(stream())
        status = remote.rc
        assert status is not None
        if splats := vm.splats():
            raise GuestSplat(splats[0].title, console=splats[0].text)
        return status if status >= 0 else 128 - status
