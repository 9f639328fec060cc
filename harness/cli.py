# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The command ``kfabric``: runs a subcommand and maps failures to exit statuses.

A subcommand is a module with ``main(argv) -> int``, imported only when it is run. To add
one, add a line to COMMANDS.
"""

import importlib
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from harness.errors import ExitStatus, KfabricError, report

COMMANDS = {
    "demo": ("harness.demo", "prove wake-ups over rxe in a disposable guest"),
    "test": ("harness.runner.testrun", "run the tests, on the host and in guests"),
    "trace": ("harness.trace.command", "watch any module's wait queues while a command runs"),
    "top": ("harness.top.command", "live counters of every kfabric object while a command runs"),
    "report": ("harness.commands.report", "make a web page of a recording"),
    "bench": ("harness.commands.bench", "measure the cost of a wait, in two guests"),
    "run": ("harness.commands.run", "run one command in a guest, with its exit status"),
    "shell": ("harness.commands.shell", "an interactive shell in a guest"),
    "modules": ("harness.commands.modules", "build the kernel modules"),
    "post-mortem": ("harness.postmortem.command", "show where tasks slept when a guest panicked"),
    "vm": ("harness.commands.vm", "build or clean the guest image"),
    "mutants": ("harness.mutants.command", "break the modules in small ways: the tests must fail"),
    "gallery": ("harness.commands.gallery", "classic wait bugs: the verdict must name each"),
    "fuzz": ("harness.commands.fuzz", "random calls on /dev/kfabric, from many threads"),
    "share": ("harness.commands.share", "a share of the long suites, chosen by the commit"),
    "docs": ("harness.commands.docs", "build the site of the documents and the API reference"),
    "check": ("harness.commands.check", "static checks of everything"),
}


def usage() -> str:
    width = max(map(len, COMMANDS))
    rows = [f"  {name:{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    head = "usage: kfabric COMMAND [ARGUMENT...]   (kfabric COMMAND --help for more)"
    return "\n".join([head, "", *rows])


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; the exit status of the process."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] in (["-h"], ["--help"], ["help"]):
        print(usage())
        return ExitStatus.OK
    if not words or words[0] not in COMMANDS:
        print(usage(), file=sys.stderr)
        return ExitStatus.USAGE
    signal.signal(signal.SIGTERM, _terminate)
    try:
        module = importlib.import_module(COMMANDS[words[0]][0])
        status: int = module.main(words[1:])
        return status
    except KfabricError as error:
        return report(error)
    except KeyboardInterrupt:
        print("kfabric: interrupted", file=sys.stderr)
        return ExitStatus.INTERRUPTED


def _terminate(number: int, _frame: FrameType | None) -> None:
    """Make SIGTERM unwind like Ctrl-C, so that guests and files are cleaned up."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
