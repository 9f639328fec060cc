# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric report``: one page about a recording, to open in any browser.

DIR has recording.json and recording.bin, as ``kfabric trace`` and ``kfabric demo``
leave them. The page is DIR/report.html; it needs nothing else, and no network.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness import report
from harness.errors import ExitStatus


def main(argv: Sequence[str]) -> int:
    """Write the page, and the traces if asked to; print where they are."""
    parser = argparse.ArgumentParser(prog="kfabric report", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="with a recording")
    parser.add_argument(
        "--all",
        action="store_true",
        help="also timeline.json (Chrome), trace.pftrace (Perfetto), stacks.folded",
    )
    args = parser.parse_args(argv)
    material = report.load(args.directory)
    if args.all:
        made = report.write(material, args.directory)
    else:
        made = [report.write_page(material, args.directory)]
    print(*made, sep="\n")
    print(material.verdict.line())
    return ExitStatus.OK
