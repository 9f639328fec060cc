# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Run classic wait bugs under the tracer; the verdict must name each of them.

Boots a guest, loads the tracer and the gallery's module, and runs each entry with its bug and
without it. The verdict must name the bug, its waiter and its waker, and must be silent on the
fixed entry; it must also be silent on many healthy wake-ups of every kind.
"""

from collections.abc import Sequence
from pathlib import Path

from kfabric.docs import results
from kfabric.errors import UsageError, near
from kfabric.gallery.entries import BY_NAME, KINDS
from kfabric.terminal.arguments import Parser, whole, writable
from kfabric.vm import prepare

OUTPUT = prepare.SOURCE / "build/gallery"
ROUNDS = 100_000


class UnknownEntry(UsageError, label="no such entry"):
    """The gallery has no entry of that name."""


def main(argv: Sequence[str]) -> int:
    """Run the entries; the exit status says whether every verdict was correct."""
    parser = Parser(prog="kfabric gallery", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="entries; default: all")
    parser.add_argument(
        "--rounds",
        type=whole(0),
        default=ROUNDS,
        help="healthy wake-ups of each kind, 0 for none",
    )
    parser.add_argument(
        "--healthy",
        nargs="+",
        choices=KINDS,
        metavar="KIND",
        help=f"kinds of healthy wake-ups: {', '.join(KINDS)}; default: all, none with NAME",
    )
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, metavar="DIR", help="default: build/gallery"
    )
    parser.add_argument("--list", action="store_true", help="print the entries, run nothing")
    parser.add_argument(results.OPTION, action="store_true", help=results.HELP)
    args = parser.parse_args(argv)
    measured = results.begin("gallery", ["gallery", *argv], args.results)
    for name in args.names:
        if name not in BY_NAME:
            raise UnknownEntry(name, near(name, BY_NAME))
    if args.list:
        for entry in BY_NAME.values():
            print(f"{entry.name:20} {entry.bug}")
        return 0
    from kfabric.gallery import host  # imports much; not for --list

    names, kinds = args.names or list(BY_NAME), args.healthy or ([] if args.names else KINDS)
    kinds = kinds if args.rounds else []
    return host.run(names, kinds, args.rounds, writable(args.output), measured)
