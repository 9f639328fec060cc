# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Which tests stay together, and ``--shard K/N``: the tests of one runner of several.

All runners collect the same tests. Each one sorts their names and deals them out in the same
way, so that no test is left out and none runs twice.
"""

import argparse
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import pytest

TOGETHER: Sequence[frozenset[str]] = (
    frozenset({"test_gallery.py"}),
    frozenset({"test_probes.py"}),
    frozenset({"test_trace.py"}),
    frozenset({"test_wakeups_module.py"}),
    frozenset(
        {
            "test_profile_agrees.py",
            "test_documents.py",
            "test_wakeups_fixture.py",
            "test_wakeups_load.py",
        }
    ),
)
"""Files whose tests share work that is done once per process."""

APART = frozenset({"test_document_commands.py"})
"""Files whose tests on the host share nothing that takes long."""

COUNTS = "kfabric-shard"
"""Key of a worker's output: how many tests its shard has, and how many there are in all."""


def group(test: str) -> frozenset[str]:
    """The group of a test's file; a test without one is a group of its own."""
    name = PurePath(file(test)).name
    return next((group for group in TOGETHER if name in group), frozenset({test}))


def on_host(test: str) -> str:
    """The group of a test on the host: its file."""
    return test if PurePath(file(test)).name in APART else file(test)


def file(test: str) -> str:
    """The file of a test."""
    return test.partition("::")[0]


@dataclass(frozen=True)
class Shard:
    """The tests of one runner.

    Attributes:
        number: from 1 to count.
        count: how many runners there are.
    """

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def of(self, tests: Iterable[str], together: Callable[[str], Hashable]) -> frozenset[str]:
        """The tests of this shard, whatever the order of ``tests``.

        The largest group goes first, each to the shard that has the fewest tests so far.

        Args:
            tests: the names of all tests.
            together: the group of a test; it stays in one shard.
        """
        groups: dict[Hashable, list[str]] = {}
        for test in sorted(set(tests)):
            groups.setdefault(together(test), []).append(test)
        shards: list[list[str]] = [[] for _ in range(self.count)]
        for members in sorted(groups.values(), key=lambda members: (-len(members), members)):
            min(shards, key=len).extend(members)
        return frozenset(shards[self.number - 1])


def parse(text: str) -> Shard:
    """A type of arguments: K/N."""
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N, such as 1/4")
    shard = Shard(*map(int, match.groups()))
    if not 1 <= shard.number <= shard.count:
        raise argparse.ArgumentTypeError(f"{text!r}: K must be from 1 to N")
    return shard


class Deal:
    """Leaves out the tests of other shards.

    Tests are collected in each guest; the process that the user started learns the numbers from
    there. A shard without tests is no error, because there may be more runners than tests.

    Args:
        shard: which one.
        guests: the tests run in guests, which begin afresh: only TOGETHER keeps tests together.
            Otherwise the tests of a file stay together, but not those of APART.
    """

    def __init__(self, shard: Shard, guests: bool) -> None:
        self._shard = shard
        self._together: Callable[[str], Hashable] = group if guests else on_host
        self._counts: Sequence[int] | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """After -k and -m, so that the shards of what these chose have the same size."""
        mine = self._shard.of((item.nodeid for item in items), self._together)
        others = [item for item in items if item.nodeid not in mine]
        self._counts = len(items) - len(others), len(items)
        items[:] = [item for item in items if item.nodeid in mine]
        config.hook.pytest_deselected(items=others)
        if hasattr(config, "workeroutput"):
            config.workeroutput[COUNTS] = self._counts

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the numbers of a worker; one that crashed has none."""
        output = getattr(node, "workeroutput", None) or {}
        self._counts = output.get(COUNTS, self._counts)

    @pytest.hookimpl
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._empty:
            session.exitstatus = pytest.ExitCode.OK

    @property
    def _empty(self) -> bool:
        """Whether there are tests, but none for this shard."""
        return self._counts is not None and not self._counts[0] and bool(self._counts[1])

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._counts is not None:
            mine, everything = self._counts
            number = "none" if self._empty else mine
            terminalreporter.write_line(
                f"kfabric: shard {self._shard} has {number} of the {everything} tests"
            )
