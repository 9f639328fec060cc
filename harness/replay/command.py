# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Replay the execution of a test that failed.

DIR is what kfabric test --record has left. The guest does the same as when it was recorded: each
instruction, each interrupt, each time that it reads. Without options it is replayed to its end, and
what its commands printed is printed again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kfabric.errors import ExitStatus, KfabricError
from kfabric.replay import again
from kfabric.replay.execution import Execution
from kfabric.replay.moments import Moment
from kfabric.replay.qemu import OUTPUT
from kfabric.terminal.arguments import Parser, positive
from kfabric.vm.steps import say


class Differs(KfabricError, status=ExitStatus.NOT_VERIFIED, label="not the same"):
    """The guest did something else than when it was recorded."""


def _moment(text: str) -> Moment:
    """A moment, in argparse's way."""
    try:
        return Moment.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(argv: Sequence[str]) -> int:
    """Replay it to its end, print what its commands printed; the status says if it was the same.

    Raises:
        Differs: the output or the kernel's log is another one.
        UsageError: there is no execution.
        SetupError: it cannot be replayed on this host.
        GuestError: QEMU failed, or did not end in time.
    """
    parser = Parser(prog="kfabric replay", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="of the execution")
    parser.add_argument(
        "--timeout", type=positive, default=3600.0, metavar="S", help="seconds for each replay"
    )
    parser.add_argument(
        "--back-to",
        type=_moment,
        metavar="MOMENT",
        help="show where the guest was: 'last call of FUNCTION', 'call 12 of FUNCTION', "
        "'visit 12 of FUNCTION+0xOFFSET', an event of the verdict's story: 'at 15.638 ms', "
        "'wait 12', 'publication 500 of THREAD/ID'; or 'last call of FUNCTION before MOMENT', "
        "'next call of FUNCTION after MOMENT'",
    )
    parser.add_argument(
        "--gdb", action="store_true", help="open gdb there, or at the beginning of the execution"
    )
    args = parser.parse_args(argv)
    execution = Execution.read(args.directory.absolute())
    about = execution.about
    say(f"replaying {about.what} ({about.ended()}) on {about.release}")
    if args.gdb:
        return again.debug(execution, args.back_to, args.timeout)
    if args.back_to:
        print(again.look(execution, args.back_to, args.timeout), end="")
        return ExitStatus.OK
    if differ := again.replay(execution, args.timeout):
        raise Differs(", ".join(differ), f"compare with {execution.directory}")
    sys.stdout.buffer.write((execution.directory / OUTPUT).read_bytes())
    sys.stdout.flush()
    say("the guest did the same, and printed the same to the byte")
    return ExitStatus.OK
