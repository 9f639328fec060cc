# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Make an HTML page of a recording.

DIR has recording.json and recording.bin, as kfabric trace and kfabric demo leave them. The page
is DIR/report.html; it needs no other file and no network. The exit status is 3 if a fault was
found, 4 if the recording has gaps.
"""

from collections.abc import Sequence
from pathlib import Path

from kfabric import report
from kfabric.terminal.arguments import Parser, writable


def main(argv: Sequence[str]) -> int:
    """Write the page, and with --all the traces; print their names."""
    parser = Parser(prog="kfabric report", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="directory of the recording")
    parser.add_argument(
        "--all",
        action="store_true",
        help="also write timeline.json (Chrome), trace.pftrace (Perfetto) and stacks.folded",
    )
    args = parser.parse_args(argv)
    material = report.load(args.directory)
    writable(args.directory)
    if args.all:
        print(*report.write(material, args.directory), sep="\n")
    else:
        print(report.write_page(material, args.directory))
    print(*material.verdict.lines(), sep="\n")
    return report.status(material)
