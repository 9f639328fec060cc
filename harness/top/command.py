# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric top -- CMD``: what every wait set, poll set and queue counts, live.

Shown is what threads wait on, longest first. By default CMD runs in a disposable guest;
with ``--here`` (always, inside a guest) the objects are this machine's, with CMD or
without. The exit status is CMD's; 124 if it outlived ``--duration``.
"""

from __future__ import annotations

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
    """Look, show, and return the command's exit status.

    :raises GuestError: what happened to the guest.
    :raises SetupError: it cannot be looked at here.
    """
    args = _parse(argv)
    with tempfile.TemporaryDirectory(prefix="kfabric-top-") as directory:
        place = Path(directory) / _LIVE
        show = Show(args.json)
        status = _here(args, place, show) if args.here else _in_guest(args, show)
    show.finish()
    return status


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kfabric top", description=__doc__)
    parser.add_argument("--interval", type=float, default=1.0, metavar="S", help="between looks")
    parser.add_argument("--duration", type=float, default=0.0, metavar="S", help="stop after S s")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each look")
    parser.add_argument("--here", action="store_true", help="on this machine, not in a guest")
    parser.add_argument("--timeout", type=float, default=3600.0, metavar="S", help="for CMD")
    if not in_guest():
        from harness.vm.options import add_guest_options

        add_guest_options(parser)
    parser.add_argument("command", nargs="*", metavar="CMD")
    args = parser.parse_args(argv)
    args.here |= in_guest()
    if args.interval <= 0:
        parser.error("--interval must be more than 0")
    if not args.here and not args.command:
        parser.error("a guest has nothing to look at without CMD")
    return args


def _argv(args: argparse.Namespace, place: Path) -> list[str]:
    """The command line of the part that runs where the modules are."""
    words = ["-m", "harness.top.guest", f"--output={place}", f"--interval={args.interval:g}"]
    words += [f"--duration={args.duration:g}"] if args.duration else []
    return [*words, "--", *args.command] if args.command else words


class Show:
    """What the user sees: a table that is redrawn, or JSON lines, or only the end."""

    def __init__(self, as_json: bool) -> None:
        """Show nothing yet."""
        self._json = as_json
        self._history = table.History()
        self._display: Live | None = None

    def look(self, told: dict[str, Any]) -> None:
        """One look has been made."""
        self._history.look(map(decode, told["objects"]), told["seconds"])
        if self._json:
            print(json.dumps(table.as_json(self._history, told["seconds"])), flush=True)
        elif self._display is not None:
            rows = max(self._display.console.height - _FRAME_LINES, 1)
            self._display.update(table.live(self._history, told["seconds"], rows))

    def run(self, stream: Output, place: Path) -> None:
        """Pass on what the command writes, and show the looks as they come."""
        with self._shown(), Follower(place, self.look, every=True):
            self.drain(stream)

    def drain(self, stream: Output) -> None:
        """Pass on what the command writes."""
        for to_stdout, data in stream:
            # Standard output is the JSON's.
            self._pass(to_stdout and not self._json, data)

    @contextlib.contextmanager
    def _shown(self) -> Iterator[None]:
        if self._json or not sys.stdout.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False)
        with Live("kfabric top: starting …", console=console, transient=True) as display:
            self._display = display
            yield
        self._display = None

    def _pass(self, to_stdout: bool, data: bytes) -> None:
        if self._display is not None:
            from rich.text import Text

            text = Text.from_ansi(data.decode(errors="replace").removesuffix("\n"))
            self._display.console.print(text)
            return
        stream = sys.stdout if to_stdout else sys.stderr
        stream.buffer.write(data)
        stream.flush()

    def finish(self) -> None:
        """Say at the end what was seen of every object."""
        if not self._json:
            for line in table.plain(self._history):
                print(line)


def _here(args: argparse.Namespace, place: Path, show: Show) -> int:
    """On this machine. Raises SetupError."""
    if os.geteuid() != 0:
        raise SetupError("not root", "the modules show their objects only to root")
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, *_argv(args, place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )
    try:
        show.run(read_both(process), place)
    except KeyboardInterrupt:
        # It has had the signal, too, and comes to an end.
        show.drain(read_both(process))
    return process.wait()


def _in_guest(args: argparse.Namespace, show: Show) -> int:
    """In a disposable guest. Raises GuestError, GuestSplat."""
    from harness.vm.options import disposable, guest
    from harness.vm.wire import Kind

    with disposable(*guest(args, "top")) as vm:
        place = vm.out / _LIVE
        remote = vm.popen(["python3", *_argv(args, place)], timeout=args.timeout, cwd=str(SOURCE))
        remote.close_stdin()

        def stream() -> Output:
            return ((kind is Kind.STDOUT, data) for kind, data in remote.stream())

        try:
            show.run(stream(), place)
        except KeyboardInterrupt:
            remote.signal(signal.SIGINT)
            show.drain(stream())
        status = remote.rc
        assert status is not None
        if splats := vm.splats():
            raise GuestSplat(splats[0].title, console=splats[0].text)
        return status if status >= 0 else 128 - status
