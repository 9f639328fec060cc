# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""kfabric trace -- CMD: shows the sleepers and wakers of wait queues, and stuck waits.

By default CMD runs in a disposable guest; with --here on this machine, which needs
root and bcc (Debian: python3-bpfcc). The exit status is CMD's; 124 if it outlived
--duration, 130 if Ctrl-C came before its end. If CMD succeeds, it is the verdict's: 3 for a
fault, 4 if the recording has gaps, or if functions are marked and no wait could be judged.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfabric import names, report
from kfabric.errors import ExitStatus, UsageError
from kfabric.guest import in_guest
from kfabric.recording import HEAD, RECORDS
from kfabric.terminal.arguments import Parser, not_negative, positive, relative, writable
from kfabric.terminal.streams import Follower, Output, copy
from kfabric.trace import table, watch
from kfabric.trace.guest import LIVE
from kfabric.trace.scope import MODULES_LIMIT, Scope, add_scope_options, is_path, scope_of
from kfabric.trace.summary import SUMMARY, Row, decode, decode_row
from kfabric.vm import source

if TYPE_CHECKING:
    from rich.live import Live

    from kfabric.vm.machine import Vm

_FILES = (HEAD, RECORDS, SUMMARY, LIVE)
_NEW = ".new-"
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
    default = Path(os.environ[names.OUT]) / "trace" if in_guest() else source.results() / "trace"
    output = writable(args.output or default)
    if args.schedule:
        from kfabric.trace import schedule

        return schedule.play(args, argv, output)
    with _new_recording(output) as new:
        if args.here:
            _set_programs()
            argv, why = [_PYTHON, *_argv(args, scope, new)], "only root may trace the kernel"
            return _finish(new, output, watch.here(argv, why, partial(_show, new)))
        return _in_guest(args, scope, new, output)


def _in_guest(args: argparse.Namespace, scope: Scope, new: Path, output: Path) -> int:
    """Trace in a guest, and move the files; the exit status."""
    from kfabric.steer.guests import steered, under_test
    from kfabric.vm import kerneltree, prepare, versions
    from kfabric.vm.options import disposable, guest

    version = prepare.version(args.kernel)
    versions.require(version, kerneltree.TRACING, "nothing can be traced")
    # A traced module need not be of the kernel: it may be built for the guest.
    args.kernel_modules += [f"{name}?" for name in args.modules]
    vm, tested = guest(args, "trace")
    scope = _of_built(scope, vm.spec.env)
    vm.spec = steered(vm.spec, {*scope.modules, *(under_test(vm.spec, tested) if tested else ())})
    _check_spelling(scope, vm.spec.env)
    _show_unknown(scope, vm)
    with disposable(vm, tested), _board_into(output, vm.out):
        place = vm.out / "trace"
        words = _argv(args, scope, place, vm.here)
        status = watch.in_guest(vm, words, args.timeout, partial(_show, place))
        _move(place, new)
        status = _finish(new, output, status)
        vm.require_no_splat()
    return status


@contextlib.contextmanager
def _board_into(output: Path, out: Path) -> Iterator[None]:
    """Keep what was held in a steered guest, however it ends."""
    try:
        yield
    finally:
        for name in (names.AIMS, names.BOARD):
            if (out / name).exists():
                shutil.move(out / name, output / name)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="kfabric trace", description=__doc__)
    parser.set_defaults(schedule=None)
    add_scope_options(parser, directories=not in_guest())
    words = "stop after S seconds; default: with CMD"
    parser.add_argument("--duration", type=not_negative, default=0.0, metavar="S", help=words)
    parser.add_argument("--here", action="store_true", help="on this machine, not in a guest")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: build/trace")
    parser.add_argument(
        "--ring", type=positive, default=32.0, metavar="MIB", help="memory for records on their way"
    )
    words = "seconds for CMD in a guest"
    parser.add_argument("--timeout", type=positive, default=3600.0, metavar="S", help=words)
    if not in_guest():  # a guest has no guests
        from kfabric.steer import search
        from kfabric.vm.options import add_guest_options

        add_guest_options(parser, module=False)
        search.add_options(parser, parser, "the verdict names a fault, or CMD fails")
    parser.add_argument("command", nargs="*", metavar="CMD", help="its words, after --")
    args = parser.parse_args(argv)
    _take_directory(parser, args)
    try:
        scope_of(args)
    except ValueError as error:
        parser.error(str(error))
    if args.here and args.pid and not Path(f"/proc/{args.pid}").exists():
        parser.error(f"there is no process {args.pid}")
    if not args.command and not args.here:
        parser.error("a guest has nothing to trace without CMD")
    if not (args.command or args.modules or args.queue or args.pid):
        parser.error("nothing to trace: give CMD, --module, --queue or --pid")
    if not in_guest():
        from kfabric.trace import schedule

        schedule.check(args)
    return args


@contextlib.contextmanager
def _new_recording(output: Path) -> Iterator[Path]:
    """An empty directory inside ``output``, for the files until the recording is complete.

    Raises:
        UsageError: another trace has the same output.
    """
    lock = os.open(output, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what = f"another kfabric trace writes to {output}"
            raise UsageError(what, "give this one another --output") from None
        for left in output.glob(f"{_NEW}*"):  # by a trace that was killed
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=output, prefix=_NEW) as new:
            yield Path(new)
    finally:
        os.close(lock)


def _take_directory(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Separate the directory of a module to build from the names of modules to trace.

    A word with a slash is a directory. Without one, so is any other word that can be built.
    """
    directories = [word for word in args.modules if is_path(word)]
    if directories and (args.here or in_guest()):
        parser.error("--module builds a directory's module only for a guest")
    if not (directories or args.here or in_guest()):
        from kfabric.vm.userbuild import can_build

        directories = [word for word in args.modules if can_build(Path(word))]
    if len(directories) > 1:
        parser.error(f"--module takes one directory, not {' and '.join(directories)}")
    args.modules = [word for word in args.modules if word not in directories]
    args.module = Path(directories[0]) if directories else None


def _of_built(scope: Scope, env: Mapping[str, str]) -> Scope:
    """The scope of a guest with this environment: without a choice, the modules built for it."""
    if names.MODULE_DIR not in env or not scope.by_tree:
        return scope
    from kfabric.vm import userbuild

    built = tuple(userbuild.built(Path(env[names.MODULE_DIR])))
    if len(built) > MODULES_LIMIT:
        what = f"{len(built)} modules were built, and a trace has room for {MODULES_LIMIT}"
        raise userbuild.UserModuleError(what, f"add --module NAME: {', '.join(built)}")
    return replace(scope, modules=built)


def _check_spelling(scope: Scope, env: Mapping[str, str]) -> None:
    """Look for the marked functions in the modules that were built for a guest, if any."""
    if names.MODULE_DIR in env and (scope.publish or scope.take):
        from kfabric.trace import spelling

        spelling.check(scope, Path(env[names.MODULE_DIR]))


def _show_unknown(scope: Scope, vm: Vm) -> None:
    """Show a line for each module that the guest does not have: CMD may bring it, or not."""
    from kfabric.vm import kbuild, layer, prepare, userbuild

    have: set[str] = set()
    if names.MODULE_DIR in vm.spec.env:
        have.update(userbuild.built(Path(vm.spec.env[names.MODULE_DIR])))
    if vm.spec.variant:
        place = kbuild.directory(prepare.SOURCE, vm.image.builds, vm.spec.variant)
        have.update(userbuild.kernel_name(file.stem) for file in place.glob("*.ko"))
    for name in layer.unknown(vm.image, [name for name in scope.modules if name not in have]):
        what = f"kernel {vm.image.release} has no module {name}, so CMD has to load it"
        prepare.say(f"{what}; a directory is --module ./{name}")


def _argv(args: argparse.Namespace, scope: Scope, output: Path, cwd: str = "") -> list[str]:
    words = ["-m", "kfabric.trace.guest", f"--output={output}", *scope.argv()]
    words += [f"--cwd={cwd}"] if cwd else []
    words += [f"--ring={args.ring:g}"]
    words += [f"--duration={args.duration:g}"] if args.duration else []
    words += ["--quiet"] if names.QUIET in os.environ else []
    return [*words, "--", *args.command] if args.command else words


def _set_programs() -> None:
    """Name the place for this machine's compiled probes; a guest's host has named it."""
    if in_guest():
        return
    from kfabric.vm import cache, programs

    place = cache.root() / programs.NAME
    programs.prune(place)
    os.environ.setdefault(names.PROGRAMS, str(place))


def _move(place: Path, output: Path) -> None:
    """Move a recording; nothing of an earlier one stays beside it."""
    for name in _FILES:
        (output / name).unlink(missing_ok=True)
    for path in place.iterdir() if place.exists() else ():
        shutil.move(path, output / path.name)


def _show(place: Path, output: Output) -> None:
    """Pass on the output of CMD; on a terminal also show the table below it."""
    with watch.on_terminal("kfabric: loading the tracer …") as display:
        if display is None:
            copy(output)
            return
        with Follower(place / LIVE, partial(_update, display)):
            watch.print_above(display, output)


def _update(display: Live, news: dict[str, Any]) -> None:
    if "rows" in news:
        rows: list[Row] = [decode_row(item) for item in news["rows"]]
        display.update(table.live(rows, news["seconds"], sum(news["losses"].values())))
    elif "loaded" in news:
        display.update(f"kfabric: traced; the tracer took {news['loaded']:.1f} s to load")


def _finish(new: Path, output: Path, status: int) -> int:
    """Print the table and the verdict, write all files, and return the exit status.

    Standard output is CMD's own, so the table goes to standard error.
    """
    try:
        summary = decode(json.loads((new / SUMMARY).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return status or ExitStatus.NOT_VERIFIED
    material = report.load(new)
    if not in_guest():
        report.write(material, new)
    names = sorted(path.name for path in new.iterdir() if path.name != LIVE)
    _move(new, output)
    times = f"{summary.seconds:.1f} s (loading took {summary.load_seconds:.1f} s)"
    left = f"traced {times}; left in {relative(output)}: {', '.join(names)}"
    lines = [*table.report(summary), left, *material.verdict.lines()]
    print(*lines, sep="\n", file=sys.stderr)
    return status or report.status(material)
