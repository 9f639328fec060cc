# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Run a share of the long suites: mutants, the gallery, the fuzzer.

The last commit chooses the share. Mutants whose patch or tests it changes come first. What
else is run rotates with the number of the commit, and the fuzzer's seed follows from its hash.
"""

import math
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kfabric.errors import ExitStatus, SetupError
from kfabric.gallery.entries import BY_NAME, KINDS
from kfabric.mutants import catalogue
from kfabric.mutants.catalogue import Mutant
from kfabric.terminal.arguments import Parser, not_negative
from kfabric.vm import prepare, tools

# The sizes of a share.
CHANGED = 6
MUTANTS = 6
ENTRIES = 6
ROUNDS = 20_000
CALLS = 100_000

_GIT_SECONDS = 60.0

T = TypeVar("T")


@dataclass(frozen=True)
class Commit:
    """The commit that chooses.

    Attributes:
        name: its hash.
        number: the number of commits up to it; in a shallow clone a number from its hash.
        changed: the files that it changes; `None` in a shallow clone.
    """

    name: str
    number: int
    changed: frozenset[str] | None

    @property
    def seed(self) -> int:
        """A number that follows from its hash."""
        return int(self.name[:8], 16)


def main(argv: Sequence[str]) -> int:
    """Run a share; returns the first exit status that is not 0."""
    parser = Parser(prog="kfabric share", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the commands, run nothing")
    parser.add_argument(
        "--limit",
        type=not_negative,
        default=math.inf,
        metavar="S",
        help="seconds after which no further suite begins; default: no limit",
    )
    args = parser.parse_args(argv)
    commit, mutants = head(prepare.SOURCE), catalogue.load(prepare.SOURCE)
    commands = suites(commit, mutants)
    print(f"share: of commit {commit.name[:12]}; {about(commit, mutants)}", flush=True)
    if args.list:
        print("\n".join(map(_line, commands)))
        return ExitStatus.OK
    return _run_all(commands, time.monotonic() + args.limit)


def _run_all(commands: Iterable[Sequence[str]], deadline: float) -> int:
    codes = []
    for words in commands:
        if time.monotonic() < deadline:
            codes.append(_run(words))
        else:
            print(f"share: {words[0]}: left out for want of time", flush=True)
    return next(filter(None, codes), ExitStatus.OK)


def _run(words: Sequence[str]) -> int:
    print(_line(words), flush=True)
    began = time.monotonic()
    argv = [sys.executable, "-m", "kfabric.cli", *words]
    # The paths of tests are relative to the checkout.
    code = subprocess.run(argv, cwd=prepare.SOURCE, check=False).returncode
    result = f"exit status {code}" if code else "passed"
    print(f"share: {words[0]}: {result} ({time.monotonic() - began:.0f} s)", flush=True)
    return code


def _line(words: Sequence[str]) -> str:
    return f"share: kfabric {shlex.join(words)}"


def head(source: Path) -> Commit:
    """The commit of a checkout.

    Raises:
        SetupError: it has none.
    """
    name = _git(source, "rev-parse", "HEAD")
    if _git(source, "rev-parse", "--is-shallow-repository") == "true":
        return Commit(name, int(name[:8], 16), None)
    number = int(_git(source, "rev-list", "--count", "HEAD"))
    # Of a merge: everything that it brings to the branch.
    changed = _git(source, "log", "-1", "-m", "--first-parent", "--name-only", "--format=")
    return Commit(name, number, frozenset(changed.splitlines()))


def _git(source: Path, *words: str) -> str:
    done = tools.captured(["git", "-C", str(source), *words], _GIT_SECONDS)
    if done.returncode:
        raise SetupError("there is no commit that could choose a share", "", done.stdout)
    return done.stdout.strip()


def suites(commit: Commit, mutants: Iterable[Mutant]) -> list[list[str]]:
    """The commands of a share, each as words after `kfabric`."""
    mutants = sorted(mutants, key=lambda mutant: mutant.name)
    first = turn(of_change(commit, mutants), commit.number, CHANGED)
    others = [mutant for mutant in mutants if mutant not in first]
    chosen = [*first, *turn(others, commit.number, MUTANTS)]
    entries = turn(list(BY_NAME), commit.number, ENTRIES)
    kinds = turn(KINDS, commit.number, 1)
    return [
        ["mutants", *(mutant.name for mutant in chosen)],
        ["gallery", *entries, "--rounds", str(ROUNDS), "--healthy", *kinds],
        ["fuzz", "--calls", str(CALLS), "--seed", str(commit.seed)],
    ]


def turn(items: Sequence[T], number: int, size: int) -> list[T]:
    """The items whose turn it is; consecutive numbers go through all of them."""
    if size >= len(items):
        return list(items)
    start = number * size
    return [items[(start + n) % len(items)] for n in range(size)]


def of_change(commit: Commit, mutants: Iterable[Mutant]) -> list[Mutant]:
    """The mutants whose patch, or a file of whose tests, the commit changes."""
    changed = commit.changed or frozenset()
    return [mutant for mutant in mutants if not changed.isdisjoint(_files(mutant))]


def _files(mutant: Mutant) -> set[str]:
    tests = {test.partition("::")[0] for test in mutant.tests}
    return {f"{catalogue.DIRECTORY}/{mutant.patch.name}", *tests}


def about(commit: Commit, mutants: Iterable[Mutant]) -> str:
    """What is known of the change, in words."""
    if commit.changed is None:
        return "a shallow clone, so the change is not known"
    number = len(of_change(commit, mutants))
    return f"patch or tests changed of {number} mutants, {min(number, CHANGED)} of them first"
