# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Distributes tests to guests one by one, keeping some files in one guest.

Some files start with work that takes long, once per process (compiling a probe takes ten
seconds and more). Such a file stays with the guest that has begun it, as long as there are
other tests for the other guests.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from xdist.scheduler import LoadScheduling

from kfabric.runner import shards


class Together(LoadScheduling):  # type: ignore[misc]  # it has no types
    """xdist's scheduler of single tests, with a home guest for some files."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._homes: dict[frozenset[str], Any] = {}
        self._retired: list[Any] = []

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Take the tests that a guest has collected, if it is to run any.

        While nothing seems to be left to run, xdist ends each new guest instead of adding it.
        If another guest ends badly then, the run goes on; the new guest collects and ends.
        """
        if node in self.node2pending:
            super().add_node_collection(node, collection)

    @property
    def needs_guest(self) -> bool:
        """Whether a new guest would have something to do: to collect, or to run a test."""
        return bool(self.pending) or not self.collection_is_completed

    def retire(self, node: Any) -> None:
        """Record that a guest, which is about to be removed, ended between two tests."""
        self._retired.append(node)

    def remove_node(self, node: Any) -> str | None:
        """Forget the files of a guest that has ended; the test that it was running, if any."""
        self._homes = {group: home for group, home in self._homes.items() if home is not node}
        if node not in self._retired:
            crashed: str | None = super().remove_node(node)
            return crashed
        self.pending[:0] = self.node2pending.pop(node)
        for other in self.node2pending:
            self.check_schedule(other)
        return None

    def _send_tests(self, node: Any, num: int) -> None:
        free = (i for i in self.pending if self._homes.get(self._group(i), node) is node)
        chosen = list(islice(free, num))
        # A worker starts a test only when it also has the next one.
        if len(self.node2pending[node]) + len(chosen) < 2:
            others = (index for index in self.pending if index not in chosen)
            chosen += islice(others, num - len(chosen))
        if not chosen:
            return
        try:
            node.send_runtest_some(chosen)
        except OSError:
            return  # The worker has just ended; remove_node() follows. The tests are still here.
        for index in chosen:
            self.pending.remove(index)
            self._homes.setdefault(self._group(index), node)
        self.node2pending[node].extend(chosen)

    def _group(self, index: int) -> frozenset[str]:
        """The group of a test's file; a test without one is a group of its own."""
        assert self.collection is not None
        return shards.group(self.collection[index])
