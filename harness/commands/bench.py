# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric bench``: what a wait costs, against the least that it can cost.

The figures are ratios, both sides measured in the same guest. A goal that was
missed is shown in red and is no failure; what was lost on the way is one. The
host should have nothing else to do.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.bench import host
from harness.docs import results


def main(argv: Sequence[str]) -> int:
    """Measure, print the table and leave the report."""
    parser = argparse.ArgumentParser(prog="kfabric bench", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=host.OUTPUT, metavar="DIR", help="for report.json"
    )
    parser.add_argument(results.OPTION, action="store_true", help=results.HELP)
    args = parser.parse_args(argv)
    measured = results.begin("bench", ["bench", *argv], args.results)
    return host.run(args.output.resolve(), measured)
