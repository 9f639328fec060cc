# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Measure the cost of a wait, compared with the least that it can cost.

The figures are ratios of two costs in the same guest. A missed goal is shown in red and is not a
failure; a lost or wrong event is one. The host should be idle.
"""

from collections.abc import Sequence
from pathlib import Path

from kfabric.bench import host
from kfabric.docs import results
from kfabric.terminal.arguments import Parser, writable


def main(argv: Sequence[str]) -> int:
    """Measure, print the table, leave the report."""
    parser = Parser(prog="kfabric bench", description=__doc__)
    parser.add_argument(
        "--output",
        type=Path,
        default=host.OUTPUT,
        metavar="DIR",
        help="for report.json; default: build/bench",
    )
    parser.add_argument(results.OPTION, action="store_true", help=results.HELP)
    args = parser.parse_args(argv)
    measured = results.begin("bench", ["bench", *argv], args.results)
    return host.run(writable(args.output), measured)
