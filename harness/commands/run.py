# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Run one command in a new guest; the exit status is that of the command."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.errors import GuestSplat
from harness.vm import prepare
from harness.vm.machine import Vm
from harness.vm.options import add_guest_options, disposable, guest
from harness.vm.wire import Kind


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
        cwd = tested.directory if tested else prepare.SOURCE
        status = _forward(vm, args.command, args.timeout, cwd)
        if splats := vm.splats():
            raise GuestSplat(splats[0].title, console=splats[0].text)
    return status


def _forward(vm: Vm, command: list[str], timeout: float, cwd: Path) -> int:
    """Copy the command's output as it comes."""
    remote = vm.popen(command, timeout=timeout, cwd=str(cwd))
    remote.close_stdin()
    for kind, data in remote.stream():
        stream = sys.stdout if kind is Kind.STDOUT else sys.stderr
        stream.buffer.write(data)
        stream.flush()
    status = remote.rc
    assert status is not None
    return status if status >= 0 else 128 - status
