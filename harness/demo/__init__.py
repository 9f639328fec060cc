# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Prove wake-ups over rxe in a disposable guest.

Boots a guest and runs a ping-pong over a connection there, first from Python and then between
kernel threads. Probes record every wait and every wake-up; the verdict is computed from the
recording. Exit status: 0 verified, 3 a fault, 4 not verified because the probes lost events.
"""

from collections.abc import Sequence
from pathlib import Path

from kfabric.demo.job import MESSAGES, Fault
from kfabric.terminal.arguments import Parser, whole


def main(argv: Sequence[str]) -> int:
    """Run the demo; its exit status."""
    parser = Parser(prog="kfabric demo", description=__doc__)
    parser.add_argument(
        "--fault",
        choices=[fault.value for fault in Fault],
        help="inject this fault into the wait core (test-option build); default: none",
    )
    parser.add_argument(
        "--messages",
        type=whole(2),
        default=MESSAGES,
        metavar="N",
        help="messages in each direction",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: build/demo")
    args = parser.parse_args(argv)

    from kfabric.demo import host  # imports much; not for the guest

    return host.run(args.fault and Fault(args.fault), args.messages, args.output)
