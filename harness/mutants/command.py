# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Break the modules in small ways, and run the tests that must fail then.

Each patch of tests/mutants/ is built and run against the tests that it names. It is killed if
one of them fails; a hang that only the watchdog detects does not count.
"""

import argparse
import itertools
import threading
import time
from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kfabric.docs import results
from kfabric.errors import ExitStatus, counted
from kfabric.mutants import catalogue
from kfabric.mutants.build import Builder
from kfabric.mutants.catalogue import Mutant, Outcome, Verdict
from kfabric.mutants.run import Run
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

_STYLES = {
    Verdict.KILLED: "green",
    Verdict.SURVIVED: "bold red",
    Verdict.CRASHED: "bold red",
    Verdict.BROKEN: "bold yellow",
}


def main(argv: Sequence[str]) -> int:
    """Run mutants; OK if tests killed all of them."""
    args = _parse(argv)
    chosen = catalogue.load(prepare.SOURCE, args.names)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    if args.list:
        view = _table("mutant", "rules", "breaks")
        for mutant in chosen:
            view.add_row(mutant.name, " ".join(mutant.rules), mutant.breaks)
        tables.show(console, view)
        return ExitStatus.OK
    measured = results.begin("mutants", ["mutants", *argv], args.results)
    began = time.monotonic()
    outcomes = _run(chosen, args, console)
    if outcomes[0].mutant.name == "original":
        console.print("The tests fail on the original: no mutant was tried.", style="bold red")
        return ExitStatus.TEST_FAILED
    view, line = table(outcomes), summary(outcomes, time.monotonic() - began)
    tables.show(console, view)
    console.print(line)
    if measured:
        measured.write(prepare.guest_image().release, f"{line}.\n\n{results.markdown(view)}")
    good = all(outcome.verdict is Verdict.KILLED for outcome in outcomes)
    return ExitStatus.OK if good else ExitStatus.TEST_FAILED


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="kfabric mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="patterns; default: all mutants")
    parser.add_argument(
        "--jobs",
        type=whole(1),
        default=GUESTS,
        metavar="N",
        help="guests at a time",
    )
    parser.add_argument(
        "--limit",
        type=positive,
        default=WAIT_SECONDS,
        metavar="S",
        help="seconds that a test waits for an expected event",
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
    testrun.precompile(image, [str(prepare.SOURCE / test) for test in tests])

    def boot(name: str) -> Vm:
        directory = GUESTS_DIRECTORY / name
        return Vm(VmSpec(name=name), image, choice.accel, directory, prepare.SOURCE)

    builder = Builder(prepare.SOURCE, image)
    progress = ProgressLines(console, len(chosen))
    return Run(builder, boot, args.jobs, args.limit, progress.show).all(chosen)


class ProgressLines:
    """Prints one line for each finished mutant, from any thread."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def show(self, outcome: Outcome) -> None:
        """Print an outcome."""
        with self._lock:
            self._console.print(self._line(outcome), soft_wrap=True)

    def _line(self, outcome: Outcome) -> Text:
        line = Text()
        if outcome.mutant.name == "original":
            good = outcome.verdict is Verdict.SURVIVED
            line.append(f"original: {'passes' if good else 'FAILS'} ")
            line.append(f"{outcome.test} {outcome.why} ({outcome.seconds:.0f} s)")
            return line
        line.append(f"{next(self._numbers):3}/{self._total} {outcome.mutant.name} ")
        line.append(outcome.verdict.value, _STYLES[outcome.verdict])
        line.append(f" {short(outcome.test)} ({outcome.seconds:.0f} s)")
        if outcome.verdict is not Verdict.KILLED:
            line.append(f"\n        {outcome.why}")
        return line


def short(test: str) -> str:
    """A test's node id without its directory."""
    return test.rpartition("/")[2]


def _table(*titles: str) -> Table:
    view = Table(box=box.SIMPLE_HEAD)
    for title in titles:
        view.add_column(title, overflow="fold")
    return view


def table(outcomes: Sequence[Outcome]) -> Table:
    """All mutants with their verdicts."""
    view = _table("mutant", "rules", "verdict", "failing test")
    view.add_column("s", justify="right")
    for outcome in sorted(outcomes, key=lambda outcome: outcome.mutant.name):
        view.add_row(
            outcome.mutant.name,
            " ".join(outcome.mutant.rules),
            Text(outcome.verdict.value, _STYLES[outcome.verdict]),
            short(outcome.test) or outcome.why,
            f"{outcome.seconds:.0f}",
        )
    return view


def summary(outcomes: Sequence[Outcome], seconds: float) -> Text:
    """One line: the number of each verdict, and the duration."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    words = [f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]]
    good = counts[Verdict.KILLED] == len(outcomes)
    minutes, rest = divmod(round(seconds), 60)
    return Text(
        f"{counted(len(outcomes), 'mutant')}: {', '.join(words)} ({minutes} min {rest} s)",
        "bold green" if good else "bold red",
    )
