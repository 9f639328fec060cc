# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Which guest runs which test: any that is free, unless another one is prepared for it.

Some files begin with what takes a guest long (to compile a probe takes ten seconds and
more), once a process. Tests are dealt one by one, so that each guest would come by
there: such a file stays with the guest that has begun it, as long as there is anything
else to do for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import PurePath
from typing import Any

from xdist.scheduler import LoadScheduling

TOGETHER: Sequence[frozenset[str]] = (
    frozenset({"test_gallery.py"}),
    frozenset({"test_probes.py"}),
    frozenset({"test_trace.py"}),
    frozenset(
        {
            "test_profile_agrees.py",
            "test_readme.py",
            "test_wakeups_fixture.py",
            "test_wakeups_load.py",
        }
    ),
)
"""Files whose tests share what is made once a process."""


class Together(LoadScheduling):  # type: ignore[misc]  # it has no types
    """xdist's scheduler of single tests, which keeps some files in one guest."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As xdist's."""
        super().__init__(*args, **options)
        self._homes: dict[frozenset[str], Any] = {}
        self._retired: list[Any] = []

    def retire(self, node: Any) -> None:
        """Tell that this guest, which is about to be removed, ended between two tests."""
        self._retired.append(node)

    def remove_node(self, node: Any) -> str | None:
        """Nobody is prepared for what a guest that has ended was prepared for.

        :return: the test that ran in it, if one did.
        """
        self._homes = {group: home for group, home in self._homes.items() if home is not node}
        if node not in self._retired:
            crashed: str | None = super().remove_node(node)
            return crashed
        self.pending[:0] = self.node2pending.pop(node)
        for other in self.node2pending:
            self.check_schedule(other)
        return None

    def _send_tests(self, node: Any, num: int) -> None:
        """Send a guest up to so many of the tests that are left."""
        chosen = list(islice(self._for(node), num))
        # A worker begins a test when it has the next one, too.
        if len(self.node2pending[node]) + len(chosen) < 2:
            others = (index for index in self.pending if index not in chosen)
            chosen += islice(others, num - len(chosen))
        for index in chosen:
            self.pending.remove(index)
            self._homes.setdefault(self._group(index), node)
        if chosen:
            self.node2pending[node].extend(chosen)
            node.send_runtest_some(chosen)

    def _for(self, node: Any) -> Iterable[int]:
        """The tests that no other guest is prepared for."""
        for index in self.pending:
            if self._homes.get(self._group(index), node) is node:
                yield index

    def _group(self, index: int) -> frozenset[str]:
        """The files that a test's file belongs to; a test of its own has none, and no home."""
        assert self.collection is not None
        name = self.collection[index]
        file = PurePath(name.partition("::")[0]).name
        return next((group for group in TOGETHER if file in group), frozenset({name}))
