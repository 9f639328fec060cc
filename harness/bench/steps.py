# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The seconds that a developer waits: from a command, or from an edit, to its verdict.

Each step is a command that is played some times in a clone of the checkout, on this host as it is.
The first time builds what the later ones use, and is not counted.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kfabric.bench import pictures, timeline
from kfabric.bench.timeline import Play
from kfabric.demo.show import framed
from kfabric.docs import results
from kfabric.docs.results import Measurement
from kfabric.errors import ExitStatus, SetupError
from kfabric.root import python_path
from kfabric.terminal import tables
from kfabric.vm import prepare, tools
from kfabric.vm.source import link_packages

PLAYS = 3
_SECONDS = 1800.0
_CLONE_SECONDS = 120.0
_TEST = ("test", "tests/guest/test_eq.py::test_written_event_comes_back")
_WORD = 20
"""Characters of the longest word with a slash that is shown."""
_EDITED = "/* An edit of kfabric bench steps. */\n"


@dataclass(frozen=True, slots=True)
class Step:
    """What a developer does, and waits for.

    Attributes:
        title: of its row.
        goal: seconds.
        words: the command, after `kfabric`.
        edits: a file of the checkout that gets one more line before each time.
        beyond: the title of a step whose time is not part of this one's.
    """

    title: str
    goal: float
    words: tuple[str, ...]
    edits: str = ""
    beyond: str = ""


STEPS = (
    Step("kfabric run -- true", 0.8, ("run", "--", "true")),
    Step("one guest test", 3, _TEST),
    Step("its --verify-wakeups", 1, (*_TEST, "--verify-wakeups"), beyond="one guest test"),
    Step("an edit of kmod/core, one guest test", 7, _TEST, edits="kmod/core/cq.c"),
    Step(
        "an edit of a module, its test",
        5,
        ("test", "--module", "examples/pingpong_ulp", "--module-param", "addr={address}"),
        edits="examples/pingpong_ulp/side.c",
    ),
    Step("kfabric trace --module 9pnet -- true", 4, ("trace", "--module", "9pnet", "--", "true")),
    Step("kfabric demo", 10, ("demo",)),
)


@dataclass(frozen=True, slots=True)
class Took:
    """A step and how long it took.

    Attributes:
        first: seconds of the time that is not counted.
        others: the other times.
    """

    step: Step
    first: float
    others: tuple[Play, ...]

    @property
    def typical(self) -> Play:
        """The one that took the median of the times that are counted."""
        return sorted(self.others, key=lambda play: play.seconds)[len(self.others) // 2]


def run(measured: Measurement | None = None) -> int:
    """Play all steps and print the table.

    Raises:
        SetupError: a command failed, or the checkout cannot be cloned.
    """
    release = prepare.guest_image().release
    with _clone(prepare.SOURCE) as checkout:
        took = {step.title: _take(step, checkout) for step in STEPS}
    shown = table([row(one, took) for one in took.values()])
    typical = [(title, one.typical) for title, one in took.items()]
    where = table_of_parts(typical)
    for each in (shown, where):
        tables.show(Console(highlight=False), each)
    if measured:
        measured.write(release, "\n".join(map(results.markdown, (shown, where))))
        pictures.write(pictures.STEPS, pictures.steps(typical))
    return ExitStatus.OK


@dataclass(frozen=True, slots=True)
class Row:
    """A step with what was measured.

    Attributes:
        seconds: to compare with its goal.
        plays: the times that it was computed from.
    """

    step: Step
    seconds: float
    plays: str

    @property
    def met(self) -> bool:
        """Whether the goal was reached."""
        return self.seconds <= self.step.goal


def row(took: Took, others: Mapping[str, Took]) -> Row:
    """The row of a step; ``others`` are all steps by their title."""
    base = others[took.step.beyond].typical.seconds if took.step.beyond else 0.0
    plays = ", ".join(f"{each.seconds:.1f}" for each in took.others)
    text = f"{plays} s; first {took.first:.1f} s"
    return Row(
        took.step, took.typical.seconds - base, f"{text}; less {base:.1f} s" if base else text
    )


def table(rows: Sequence[Row]) -> Table:
    """One line for each step."""
    shown = framed("from edit to verdict, in seconds (docs/bench.md)", ("step", "median", "goal"))
    shown.columns[0].no_wrap = False
    shown.add_column("met?", no_wrap=True)
    shown.add_column("from")
    for one in rows:
        met, style = ("yes", "") if one.met else ("MISSED", "bold red")
        goal = f"≤ {one.step.goal:g}"
        shown.add_row(one.step.title, f"{one.seconds:.1f}", goal, met, one.plays, style=style)
    return shown


def table_of_parts(plays: Sequence[tuple[str, Play]]) -> Table:
    """Where the seconds of each step are: a line for each part."""
    shown = framed("where they are", ("step", "seconds"))
    shown.columns[0].no_wrap = False
    shown.add_column("after it printed")
    for title, play in plays:
        for number, part in enumerate(play.parts()):
            took = f"{part.end - part.begin:.1f}"
            shown.add_row("" if number else title, took, Text(_short(part.line)))
    return shown


def _short(line: str) -> str:
    """A line without the frames and paths that some have."""
    words = line.replace("=", "").replace("-----", "").split()
    return " ".join(word for word in words if "/" not in word or len(word) < _WORD)


@contextmanager
def _clone(source: Path) -> Iterator[Path]:
    """A clone of a checkout's last commit, in which Python finds its packages."""
    with tempfile.TemporaryDirectory(prefix="kfabric-steps-") as scratch:
        place = Path(scratch) / "kfabric"
        words = ["git", "clone", "--quiet", "--shared", str(source), str(place)]
        done = tools.captured(words, _CLONE_SECONDS)
        if done.returncode:
            raise SetupError("the checkout cannot be cloned", "", done.stdout)
        link_packages(place)
        yield place


def _take(step: Step, checkout: Path) -> Took:
    prepare.say(f"{step.title}, {1 + PLAYS} times")
    first, *others = (_once(step, checkout) for _ in range(1 + PLAYS))
    return Took(step, first.seconds, tuple(others))


def _once(step: Step, checkout: Path) -> Play:
    """One time. Raises SetupError if the command fails."""
    if step.edits:
        with (checkout / step.edits).open("a") as file:
            file.write(_EDITED)
    argv = [sys.executable, "-m", "kfabric.cli", *step.words]
    path = {"PYTHONPATH": python_path(checkout)}
    play = timeline.play(argv, checkout, _SECONDS, path)
    if play.status:
        raise SetupError(f"{step.title}: exit status {play.status}", "", play.output)
    return play
