# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The command ``kfabric``: runs a subcommand and maps failures to exit statuses.

A subcommand is a module with ``main(argv) -> int``, imported only when it is run. To add
one, add a line to COMMANDS.
"""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType, ModuleType

from kfabric import names, root
from kfabric.errors import ExitStatus, KfabricError, UsageError, near, needs_checkout, report
from kfabric.terminal import completion

COMMANDS = {
    "setup": ("kfabric.commands.setup", "install the Debian packages that guests need"),
    "demo": ("kfabric.demo", "prove wake-ups over rxe in a disposable guest"),
    "test": ("kfabric.runner.testrun", "run the tests, on the host and in guests"),
    "replay": ("kfabric.replay.command", "replay the execution of a test that failed"),
    "merge": ("kfabric.runner.merge", "merge the results of kfabric test --shard"),
    "new": ("kfabric.commands.new", "write a kernel module with a test, to begin with"),
    "trace": ("kfabric.trace.command", "watch any module's wait queues while a command runs"),
    "top": ("kfabric.top.command", "live counters of every kfabric object while a command runs"),
    "report": ("kfabric.commands.report", "make a web page of a recording"),
    "bench": ("kfabric.commands.bench", "measure the cost of a wait, in two guests"),
    "run": ("kfabric.commands.run", "run one command in a guest, with its exit status"),
    "shell": ("kfabric.commands.shell", "an interactive shell in a guest"),
    "modules": ("kfabric.commands.modules", "build the kernel modules"),
    "post-mortem": ("kfabric.postmortem.command", "show where tasks slept when a guest panicked"),
    "vm": ("kfabric.commands.vm", "build, list or remove guest images"),
    "prove": ("kfabric.commands.prove", "play every interleaving of the wait core, or of yours"),
    "mutants": ("kfabric.mutants.command", "break the modules in small ways: the tests must fail"),
    "gallery": ("kfabric.commands.gallery", "classic wait bugs: the verdict must name each"),
    "fuzz": ("kfabric.commands.fuzz", "random calls on /dev/kfabric, from many threads"),
    "share": ("kfabric.commands.share", "a share of the long suites, chosen by the commit"),
    "docs": ("kfabric.commands.docs", "build the site of the documents and the API reference"),
    "check": ("kfabric.commands.check", "static checks of everything"),
}


NEED_CHECKOUT = frozenset({"bench", "check", "docs", "fuzz", "gallery", "mutants", "share"})
"""Those of them that work on kfabric itself; an installed tool lacks them."""


class UnknownCommand(UsageError, label="no such command"):
    """There is no subcommand of that name."""


def usage() -> str:
    width = max(map(len, COMMANDS))
    rows = [f"  {name:{width}}  {COMMANDS[name][1]}" for name in available()]
    head = "usage: kfabric [-q] COMMAND [ARGUMENT...]   (kfabric COMMAND --help for more)"
    quiet = "-q, --quiet: no lines about progress; errors and results only"
    return "\n".join([head, "", *rows, "", quiet])


def available() -> list[str]:
    """The subcommands that this tool has."""
    return [name for name in COMMANDS if not (root.INSTALLED and name in NEED_CHECKOUT)]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; the exit status of the process."""
    words = list(sys.argv[1:] if argv is None else argv)
    if completion.ENVIRONMENT in os.environ:
        words = [completion.command(available())]
    if words[:1] in (["-h"], ["--help"], ["help"]):
        print(usage())
        return ExitStatus.OK
    if words[:1] in (["-V"], ["--version"]):
        print(f"kfabric {version()}")
        return ExitStatus.OK
    if words[:1] in (["-q"], ["--quiet"]):
        os.environ[names.QUIET] = "1"  # for the processes that the command starts, too
        del words[0]
    if not words:
        print(usage(), file=sys.stderr)
        return ExitStatus.USAGE
    signal.signal(signal.SIGTERM, _terminate)
    try:
        status: int = _module(words[0]).main(words[1:])
        return status
    except KfabricError as error:
        return report(error)
    except KeyboardInterrupt:
        print("kfabric: interrupted", file=sys.stderr)
        return ExitStatus.INTERRUPTED


def version() -> str:
    """The version of the installed package."""
    from importlib import metadata  # slow, and rarely needed

    try:
        return metadata.version("kfabric")
    except metadata.PackageNotFoundError:
        return "of a checkout that is not installed"


def _module(name: str) -> ModuleType:
    """The module of a subcommand. Raises UsageError."""
    if name not in COMMANDS:
        raise UnknownCommand(name, near(name, available(), "see kfabric --help"))
    if name not in available():
        raise needs_checkout(f"kfabric {name}")
    return importlib.import_module(COMMANDS[name][0])


def _terminate(number: int, _frame: FrameType | None) -> None:
    """Make SIGTERM unwind like Ctrl-C, so that guests and files are cleaned up."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
