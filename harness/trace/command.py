# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""kfabric trace -- CMD: shows the sleepers and wakers of wait queues, and stuck waits.

By default CMD runs in a disposable guest; with --here on this machine, which needs
root and bcc (Debian: python3-bpfcc). The exit status is CMD's; 124 if it outlived
--duration.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import names
from harness.errors import ExitStatus, GuestSplat, SetupError
from harness.guest import in_guest
from harness.recording import HEAD, RECORDS
from harness.streams import Follower, Output, read_both
from harness.trace import table
from harness.trace.guest import LIVE
from harness.trace.scope import Scope, add_scope_options, scope_of
from harness.trace.summary import SUMMARY, Row, decode, decode_row

if TYPE_CHECKING:
    from rich.live import Live

    from harness.splats import Splat

SOURCE = Path(__file__).resolve().parents[2]
DEFAULT = SOURCE / "build/trace"
_FILES = (HEAD, RECORDS, SUMMARY, LIVE)
# bcc is a package of Debian's own Python.
_PYTHON = "/usr/bin/python3"


def main(argv: Sequence[str]) -> int:
    """Trace, print the table, and write the files.

    Raises:
        GuestError: The guest failed.
        SetupError: This machine cannot be traced.
    """
    args = _parse(argv)
    scope = scope_of(args)
    default = Path(os.environ[names.OUT]) / "trace" if in_guest() else DEFAULT
    output: Path = args.output or default
    _clear(output)
    if args.here:
        return _finish(output, _here(args, scope, output))
    status, splats = _in_guest(args, scope, output)
    status = _finish(output, status)
    if splats:
        raise GuestSplat(splats[0].title, console=splats[0].text)
    return status


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kfabric trace", description=__doc__)
    add_scope_options(parser)
    parser.add_argument("--duration", type=float, default=0.0, metavar="S", help="stop after S s")
    parser.add_argument("--here", action="store_true", help="on this machine, not in a guest")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: build/trace")
    parser.add_argument(
        "--ring", type=float, default=32.0, metavar="MIB", help="memory for records on their way"
    )
    parser.add_argument("--timeout", type=float, default=3600.0, metavar="S", help="for CMD")
    if not in_guest():  # a guest has no guests
        from harness.vm.options import add_guest_options

        add_guest_options(parser)
    parser.add_argument("command", nargs="*", metavar="CMD")
    args = parser.parse_args(argv)
    try:
        scope_of(args)
    except ValueError as error:
        parser.error(str(error))
    if not args.command and not args.here:
        parser.error("a guest has nothing to trace without CMD")
    if not (args.command or args.module or args.queue or args.pid):
        parser.error("nothing to trace: give CMD, --module, --queue or --pid")
    return args


def _clear(output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        (output / name).unlink(missing_ok=True)


def _argv(args: argparse.Namespace, scope: Scope, output: Path) -> list[str]:
    words = ["-m", "harness.trace.guest", f"--output={output}", *scope.argv()]
    words += [f"--ring={args.ring:g}"]
    words += [f"--duration={args.duration:g}"] if args.duration else []
    return [*words, "--", *args.command] if args.command else words


def _here(args: argparse.Namespace, scope: Scope, output: Path) -> int:
    if os.geteuid() != 0:
        raise SetupError("not root", "only root may trace the kernel")
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [_PYTHON, *_argv(args, scope, output)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )
    try:
        _show(read_both(process), output)
    except KeyboardInterrupt:
        # The process has got the signal, too, and ends.
        for to_stdout, data in read_both(process):
            _copy(to_stdout, data)
    return process.wait()


def _in_guest(args: argparse.Namespace, scope: Scope, output: Path) -> tuple[int, list[Splat]]:
    """Trace in a disposable guest; the exit status, and the kernel's reports."""
    from harness.vm.options import disposable, guest
    from harness.vm.wire import Kind

    with disposable(*guest(args, "trace")) as vm:
        place = vm.out / "trace"
        remote = vm.popen(
            ["python3", *_argv(args, scope, place)], timeout=args.timeout, cwd=str(SOURCE)
        )
        remote.close_stdin()
        try:
            _show(((kind is Kind.STDOUT, data) for kind, data in remote.stream()), place)
        except KeyboardInterrupt:
            # It stops, and still writes its recording.
            remote.signal(signal.SIGINT)
            for kind, data in remote.stream():
                _copy(kind is Kind.STDOUT, data)
        finally:
            _keep(place, output)
        status = remote.rc
        assert status is not None
        return (status if status >= 0 else 128 - status), vm.splats()


def _keep(place: Path, output: Path) -> None:
    """Move the files out of the guest's directory, which will be removed."""
    for name in _FILES:
        if (place / name).exists():
            shutil.move(place / name, output / name)


def _copy(to_stdout: bool, data: bytes) -> None:
    stream = sys.stdout if to_stdout else sys.stderr
    stream.buffer.write(data)
    stream.flush()


def _show(stream: Output, place: Path) -> None:
    """Pass on the output of CMD; on a terminal also show the table below it."""
    if not sys.stdout.isatty():
        for to_stdout, data in stream:
            _copy(to_stdout, data)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live("kfabric: loading the tracer …", console=console, transient=True) as display:
        follower = Follower(place / LIVE, lambda news: _update(display, news))
        rest = {True: b"", False: b""}
        with follower:
            for to_stdout, data in stream:
                *lines, rest[to_stdout] = (rest[to_stdout] + data).split(b"\n")
                for line in lines:
                    display.console.print(Text.from_ansi(line.decode(errors="replace")))
        for line in filter(None, rest.values()):
            display.console.print(Text.from_ansi(line.decode(errors="replace")))


def _update(display: Live, news: dict[str, Any]) -> None:
    if "rows" in news:
        rows: list[Row] = [decode_row(item) for item in news["rows"]]
        display.update(table.live(rows, news["seconds"], sum(news["losses"].values())))
    elif "loaded" in news:
        display.update(f"kfabric: traced; the tracer took {news['loaded']:.1f} s to load")


def _finish(output: Path, status: int) -> int:
    """Print the table, write the reports, and return the exit status."""
    try:
        summary = decode(json.loads((output / SUMMARY).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return status or ExitStatus.NOT_VERIFIED
    for line in table.report(summary):
        print(line)
    _export(output)
    names = sorted(path.name for path in output.iterdir() if path.name != LIVE)
    times = f"{summary.seconds:.1f} s (loading took {summary.load_seconds:.1f} s)"
    print(f"traced {times}; left in {output}: {', '.join(names)}")
    return status


def _export(output: Path) -> None:
    """Write the reports for other programs, if harness.report is there."""
    if in_guest():
        return
    try:
        write_all = importlib.import_module("harness.report").write_all
    except (ImportError, AttributeError):
        return
    write_all(output)
