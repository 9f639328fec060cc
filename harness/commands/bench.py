# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Measure the cost of a wait, compared with the least that it can cost.

The figures are ratios of two costs in the same guest. A missed goal is shown in red and is not a
failure; a lost or wrong event is one. The host should be idle.

"gate" counts what operations take, which does not depend on the host, and compares it with the
reference in the checkout. "compare" does the same with two reports. Both fail if a figure has
changed by more than 3 %. Figures of two kernels are not judged: exit status 4.

"steps" measures what a developer waits for: from a command, or from an edit, to its verdict.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from kfabric.bench import gate, host, steps
from kfabric.docs import results
from kfabric.terminal.arguments import Parser, existing_file, writable


def main(argv: Sequence[str]) -> int:
    """Measure, print the table, leave the report; or compare what was counted."""
    args = _parse(argv)
    if args.action == "compare":
        return host.judge(*map(gate.Reference.of_report, args.reports))
    if args.action == "steps":
        return steps.run(results.begin("steps", ["bench", *argv], args.results))
    output = writable(args.output)
    if args.action == "gate":
        return host.check(output, args.update)
    return host.run(output, results.begin("bench", ["bench", *argv], args.results))


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="kfabric bench", description=__doc__)
    parser.add_argument(
        "action",
        nargs="?",
        choices=["measure", "gate", "compare", "steps"],
        default="measure",
        help="what to do; default: measure",
    )
    parser.add_argument(
        "reports", nargs="*", type=existing_file, metavar="REPORT", help="compare: two report.json"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=host.OUTPUT,
        metavar="DIR",
        help="for report.json; default: build/bench",
    )
    parser.add_argument("--update", action="store_true", help="gate: replace the reference")
    parser.add_argument(
        results.OPTION, action="store_true", help=f"measure and steps: {results.HELP}"
    )
    args = parser.parse_args(argv)
    if len(args.reports) != (2 if args.action == "compare" else 0):
        parser.error("compare takes two reports, and nothing else takes any")
    if args.update and args.action != "gate":
        parser.error("--update is for gate")
    if args.results and args.action not in ("measure", "steps"):
        parser.error(f"{results.OPTION} is for measure and steps")
    return args
