# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Changes a copy of the core, and plays the scenarios on each change until one finds it.

The copy always has the same path, so that the objects of unchanged files are in the cache.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeVar

from kfabric.errors import KfabricError
from kfabric.prove import build, session
from kfabric.prove.build import Sources
from kfabric.prove.output import Finding, Output, Scenario
from kfabric.prove.run import Job, Runner
from kfabric.vm import cache
from kfabric.vm.steps import Steps, say

PROCESSES = 2
EXECUTIONS = 2_000
"""Of each scenario, unless another number is asked for."""
SECONDS = 10.0
"""Of each scenario, where the machine is so slow that this ends it first."""
COPIED = ("kmod/*.h", f"{build.CORE}/*.[ch]", "kmod/include/**/*.h", f"{build.SCENARIOS}/*.[ch]")
NO_FAULT = ("limit", "hang")
"""Kinds of findings that say only that the checker could not play an execution."""

T = TypeVar("T")
R = TypeVar("R")
Change = Callable[[Path], None]
"""Changes the files below a directory."""


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of a change.

    Args:
        job: the exploration that found it; None if none did.
        finding: what it found.
        executions: of all explorations together.
        seconds: from the start of the first one.
        broken: why it does not build; empty if it does.
        same: the program is that of the unchanged files.
    """

    job: Job | None = None
    finding: Finding | None = None
    executions: int = 0
    seconds: float = 0.0
    broken: str = ""
    same: bool = False


class Explorer(Protocol):
    """A :class:`Runner`, as far as it is needed."""

    def explore(self, job: Job) -> Output:
        """Explore one scenario."""


class Variants:
    """Builds and plays changed copies of a checkout's core; a context manager.

    Args:
        checkout: where the core and its scenarios are.
        executions: at most so many of each scenario.
        processes: how many explorations run at a time.
    """

    def __init__(
        self, checkout: Path, executions: int = EXECUTIONS, processes: int = PROCESSES
    ) -> None:
        self._checkout = checkout
        self._tree = checkout / "build/prove-variants"
        self._executions = executions
        self._processes = processes
        self._building = threading.Lock()
        self._stack = ExitStack()
        self._base: dict[Path, bytes] = {}
        self._original = Path()
        self._scenarios: list[Scenario] = []

    def __enter__(self) -> Self:
        self._stack.enter_context(cache.locked(self._tree.with_suffix(".lock")))
        found = _files(self._checkout)
        self._base = {path.relative_to(self._checkout): path.read_bytes() for path in found}
        self._restore()
        self._original = build.ensure(self.sources)
        known = self._runner(self._original).scenarios()
        self._scenarios = sorted(known, key=lambda scenario: scenario.name)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def sources(self) -> Sources:
        """What is compiled: the files of the copy."""
        return build.of_kfabric(self._tree)

    def jobs(
        self, memories: Sequence[str], names: Sequence[str] = ()
    ) -> tuple[list[Job], list[Job]]:
        """The explorations that can show a change, and those that find a fault without one.

        Raises UnknownScenario if there is no scenario of one of the names; none: all.
        """
        chosen = session.chosen(self._scenarios, names)
        plan = session.Plan(
            self.sources, memories=memories, executions=self._executions, seconds={None: SECONDS}
        )
        jobs = plan.jobs(chosen)
        runner = self._runner(self._original)
        faulty = []
        with Steps("playing the unchanged core", len(jobs), say) as steps:
            for job, seen in zip(jobs, self._each(runner.explore, jobs), strict=True):
                faulty += [job] if seen.result.finding else []
                steps.advance()
        return [job for job in jobs if job not in faulty], faulty

    def each(self, changes: Sequence[tuple[Change, Sequence[Job]]]) -> Iterator[Tried]:
        """Try all changes, several at a time; yields their results in order."""
        return self._each(lambda one: self._attempt(*one), changes)

    def _each(self, do: Callable[[T], R], things: Sequence[T]) -> Iterator[R]:
        pool = ThreadPoolExecutor(self._processes)
        try:
            yield from pool.map(do, things)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _attempt(self, change: Change, jobs: Sequence[Job]) -> Tried:
        try:
            with self._building:
                program = self._changed(change)
        except KfabricError as error:
            return Tried(broken=error.line())
        if program == self._original:
            return Tried(same=True)
        try:
            return first_finding(self._runner(program), jobs)
        finally:
            program.unlink(missing_ok=True)

    def _changed(self, change: Change) -> Path:
        """The program of the copy with one change, which is then taken back."""
        try:
            change(self._tree)
            return build.ensure(self.sources)
        finally:
            self._restore()

    def _restore(self) -> None:
        """Make the copy equal to the checkout when the block began."""
        for path, text in self._base.items():
            target = self._tree / path
            if not target.exists() or target.read_bytes() != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(text)
        for path in _files(self._tree):
            if path.relative_to(self._tree) not in self._base:
                path.unlink()

    def _runner(self, program: Path) -> Runner:
        """Its explorations end with the variants' block."""
        return self._stack.enter_context(Runner(program))


def _files(base: Path) -> Iterator[Path]:
    return (path for glob in COPIED for path in base.glob(glob))


def first_finding(runner: Explorer, jobs: Sequence[Job]) -> Tried:
    """Explore one after the other until there is a finding."""
    began, executions = time.monotonic(), 0
    for job in jobs:
        result = runner.explore(job).result
        executions += result.executions
        if result.finding and result.finding.kind not in NO_FAULT:
            return Tried(job, result.finding, executions, time.monotonic() - began)
    return Tried(executions=executions, seconds=time.monotonic() - began)


def by_rules(jobs: Sequence[Job], rules: Sequence[str]) -> list[Job]:
    """The same explorations; those of scenarios that stand for more of the rules come first."""
    return sorted(jobs, key=lambda job: -len({*rules}.intersection(job.scenario.rules)))
