# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Run one command in a new guest; the exit status is that of the command.

It runs in the current directory, which the guest sees read-only at the same path. Its standard
input is that of kfabric, unless that is a terminal.
"""

from collections.abc import Sequence

from kfabric.terminal.arguments import Parser, positive
from kfabric.terminal.streams import copy, feed
from kfabric.vm.options import add_guest_options, disposable, guest


def main(argv: Sequence[str]) -> int:
    """Boot, run the command, and return its exit status (128+n for signal n).

    Raises:
        GuestSplat: the kernel reported an error, whatever the command returned.
    """
    parser = Parser(prog="kfabric run", description=__doc__)
    add_guest_options(parser)
    parser.add_argument(
        "--timeout", type=positive, default=3600.0, metavar="S", help="seconds for CMD"
    )
    parser.add_argument("command", nargs="+", metavar="CMD", help="its words, after --")
    args = parser.parse_args(argv)
    vm, tested = guest(args, "run")
    with disposable(vm, tested):
        remote = vm.popen(args.command, timeout=args.timeout, cwd=vm.here)
        feed(remote.send, remote.close_stdin)
        copy(remote.output())
        vm.require_no_splat()
    return remote.exit_status
