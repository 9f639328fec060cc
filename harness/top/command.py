# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Show what every wait set, poll set and queue counts, live, while CMD runs.

The objects with the longest sleeps come first. By default CMD runs in a disposable guest; with
--here (always, inside a guest) the objects are those of this machine, and CMD may be left out.
The exit status is that of CMD; 124 if it outlived --duration.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfabric.guest import in_guest
from kfabric.terminal.arguments import Parser, not_negative, positive
from kfabric.terminal.streams import Follower, Output, copy
from kfabric.top import table
from kfabric.top.objects import decode
from kfabric.trace import watch

if TYPE_CHECKING:
    from rich.live import Live

_LIVE = "top.jsonl"
_STARTING = "kfabric top: starting …"
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
            place = Path(directory) / _LIVE
            why = "the modules show their objects only to root"
            argv = [sys.executable, *_argv(args, place)]
            status = watch.here(argv, why, partial(display.run, place), display.copy)
        display.finish()
        return status
    from kfabric.vm.options import disposable, guest

    with disposable(*guest(args, "top")) as vm:
        place = vm.out / _LIVE
        show = partial(display.run, place)
        status = watch.in_guest(vm, _argv(args, place, vm.here), args.timeout, show, display.copy)
        vm.require_no_splat()
    display.finish()
    return status


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="kfabric top", description=__doc__, epilog=table.COLUMNS)
    add = parser.add_argument
    add("--interval", type=positive, default=1.0, metavar="S", help="seconds between two looks")
    words = "stop after S seconds; default: with CMD"
    add("--duration", type=not_negative, default=0.0, metavar="S", help=words)
    add("--json", action="store_true", help="print each sample as a line of JSON")
    add("--here", action="store_true", help="on this machine, not in a guest")
    words = "seconds for CMD in a guest"
    add("--timeout", type=positive, default=3600.0, metavar="S", help=words)
    if not in_guest():
        from kfabric.vm.options import add_guest_options

        add_guest_options(parser)
        # The guest has no objects without the modules.
        parser.set_defaults(variant="prod")
    add("command", nargs="*", metavar="CMD", help="its words, after --")
    args = parser.parse_args(argv)
    args.here |= in_guest()
    if not args.here and not args.command:
        parser.error("a new guest has no objects without CMD")
    return args


def _argv(args: argparse.Namespace, place: Path, cwd: str = "") -> list[str]:
    """The command line of the part that runs on the machine with the modules."""
    words = ["-m", "kfabric.top.guest", f"--output={place}", f"--interval={args.interval:g}"]
    words += [f"--duration={args.duration:g}"] if args.duration else []
    words += [f"--cwd={cwd}"] if cwd else []
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

    def run(self, place: Path, output: Output) -> None:
        """Copy the command's output, and show the samples as they come."""
        shown = contextlib.nullcontext() if self._json else watch.on_terminal(_STARTING)
        with shown as self._live, Follower(place, self.add, every=True):
            if self._live is None:
                self.copy(output)
            else:
                watch.print_above(self._live, output)

    def copy(self, output: Output) -> None:
        """Copy the command's output; with JSON, standard output goes to standard error."""
        copy(((to_stdout and not self._json, data) for to_stdout, data in output))

    def finish(self) -> None:
        """Print the final table."""
        if not self._json:
            for line in table.plain(self._history):
                print(line)
