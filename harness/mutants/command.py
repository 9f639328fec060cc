# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Break the modules in small ways, and run the tests that must fail then.

Each patch of tests/mutants/ is built and run against the tests that it names. It is killed if
one of them fails; a hang that only the watchdog detects does not count. With --prove, mutants of
kmod/core are played in the scenarios of kfabric prove instead, which needs no guest.
"""

import argparse
import time
from collections.abc import Sequence

from rich.console import Console

from kfabric.docs import results
from kfabric.docs.results import Measurement
from kfabric.errors import ExitStatus, UsageError
from kfabric.mutants import catalogue, scenarios, show
from kfabric.mutants.build import Builder
from kfabric.mutants.catalogue import Mutant, Outcome
from kfabric.mutants.run import Run
from kfabric.prove import variants
from kfabric.runner import testrun
from kfabric.terminal import tables
from kfabric.terminal.arguments import Parser, positive, whole
from kfabric.vm import accel, prepare
from kfabric.vm.machine import Vm
from kfabric.vm.spec import VmSpec

GUESTS = 2
WAIT_SECONDS = 16.0
# Width of the table if standard output is not a terminal.
WIDTH = 160
GUESTS_DIRECTORY = prepare.SOURCE / "build/mutants/guests"


def main(argv: Sequence[str]) -> int:
    """Run mutants; OK if tests killed all of them."""
    args = _parse(argv)
    if args.executions and not args.prove:
        raise UsageError("--executions needs --prove")
    chosen = catalogue.load(prepare.SOURCE, args.names)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    if args.list:
        view = show.plain("mutant", "rules", "breaks")
        for mutant in chosen:
            view.add_row(mutant.name, " ".join(mutant.rules), mutant.breaks)
        tables.show(console, view)
        return ExitStatus.OK
    section = "prove_mutants" if args.prove else "mutants"
    measured = results.begin(section, ["mutants", *argv], args.results)
    if args.prove:
        return _play(chosen, args, console, measured)
    began = time.monotonic()
    outcomes = _run(chosen, args, console)
    if outcomes[0].mutant.name == "original":
        console.print("The tests fail on the original: no mutant was tried.", style="bold red")
        return ExitStatus.TEST_FAILED
    view, line = show.table(outcomes), show.summary(outcomes, time.monotonic() - began)
    tables.show(console, view)
    console.print(line)
    if measured:
        measured.write(prepare.guest_image().release, f"{line}.\n\n{results.markdown(view)}")
    return _status(outcomes)


def _play(
    mutants: Sequence[Mutant],
    args: argparse.Namespace,
    console: Console,
    measured: Measurement | None,
) -> int:
    """Play mutants in scenarios; OK if all are killed or excused."""
    began = time.monotonic()
    chosen = scenarios.of_core(mutants)
    excused = scenarios.excuses(prepare.SOURCE, catalogue.load(prepare.SOURCE))
    progress = show.ProgressLines(console, len(chosen))
    executions = args.executions or variants.EXECUTIONS
    run = scenarios.Run(prepare.SOURCE, excused, args.jobs, executions, progress.show)
    outcomes = run.all(chosen, bool(args.names))
    view, line = show.of_scenarios(outcomes), show.summary(outcomes, time.monotonic() - began)
    tables.show(console, view)
    lines = [f"{line}."]
    if run.left_out:
        lines.append(f"Left out, with a finding on the original: {', '.join(run.left_out)}.")
    console.print(*lines, sep="\n", soft_wrap=True)
    if measured:
        measured.write("none", f"{' '.join(lines)}\n\n{results.markdown(view)}")
    return _status(outcomes)


def _status(outcomes: Sequence[Outcome]) -> int:
    good = all(outcome.verdict.good for outcome in outcomes)
    return ExitStatus.OK if good else ExitStatus.TEST_FAILED


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="kfabric mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="patterns; default: all mutants")
    parser.add_argument(
        "--jobs",
        type=whole(1),
        default=GUESTS,
        metavar="N",
        help="guests, or with --prove explorations, at a time",
    )
    parser.add_argument(
        "--limit",
        type=positive,
        default=WAIT_SECONDS,
        metavar="S",
        help="seconds that a test waits for an expected event",
    )
    words = "play the mutants of kmod/core in the scenarios of kfabric prove, without guests"
    parser.add_argument("--prove", action="store_true", help=words)
    parser.add_argument(
        "--executions",
        type=whole(1),
        metavar="N",
        help=f"with --prove: at most N of each scenario; default: {variants.EXECUTIONS}",
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    parser.add_argument(results.OPTION, action="store_true", help=results.HELP)
    return parser.parse_args(argv)


def _run(chosen: Sequence[Mutant], args: argparse.Namespace, console: Console) -> list[Outcome]:
    image = prepare.guest_image()
    choice = accel.choose(image)
    if choice.new:
        prepare.say(choice.line())
    tests = sorted({test.partition("::")[0] for mutant in chosen for test in mutant.tests})

    def boot(name: str) -> Vm:
        directory = GUESTS_DIRECTORY / name
        return Vm(VmSpec(name=name), image, choice.accel, directory, prepare.SOURCE)

    builder = Builder(prepare.SOURCE, image)
    progress = show.ProgressLines(console, len(chosen))
    with testrun.precompiling(image, [str(prepare.SOURCE / test) for test in tests]):
        return Run(builder, boot, args.jobs, args.limit, progress.show).all(chosen)
