# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Run one command in a new guest; the exit status is that of the command."""

import argparse
from collections.abc import Sequence

from harness.streams import copy
from harness.vm import usermodule
from harness.vm.options import add_guest_options, disposable, guest


def main(argv: Sequence[str]) -> int:
    """Boot, run the command, and return its exit status (128+n for signal n).

    Raises:
        GuestSplat: the kernel reported an error, whatever the command returned.
    """
    parser = argparse.ArgumentParser(prog="kfabric run", description=__doc__)
    add_guest_options(parser)
    parser.add_argument(
        "--timeout", type=float, default=3600.0, metavar="S", help="of CMD; default: %(default)g s"
    )
    parser.add_argument("command", nargs="+", metavar="CMD")
    args = parser.parse_args(argv)
    vm, tested = guest(args, "run")
    with disposable(vm, tested):
        cwd = str(usermodule.home(tested))
        remote = vm.popen(args.command, timeout=args.timeout, cwd=cwd)
        remote.close_stdin()
        copy(remote.output())
        vm.require_no_splat()
    return remote.exit_status
