# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric run -- CMD``: one command in a fresh guest."""

from __future__ import annotations

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
    """Boot, run, and return the command's exit status (128+n for signal n).

    :raises GuestSplat: the kernel complained, whatever the command returned.
    """
    args = _parse(argv)
    vm, tested = guest(args, "run")
    with disposable(vm, tested):
        cwd = tested.directory if tested else prepare.SOURCE
        status = _forward(vm, args.command, args.timeout, cwd)
        if splats := vm.splats():
            raise GuestSplat(splats[0].title, console=splats[0].text)
    return status


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kfabric run", description=__doc__)
    add_guest_options(parser)
    parser.add_argument("--timeout", type=float, default=3600.0, metavar="S", help="for CMD")
    parser.add_argument("command", nargs="+", metavar="CMD")
    return parser.parse_args(argv)


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
