# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The guest's part of testing an external module: loads it, and checks its end.

    python3 -m harness.guest.ulp [--unloaded]

loads our modules, makes an RDMA link, and loads the external modules. In the test process
a plugin provides the fixture ``ulp``. After the last test it unloads the modules, and
fails that test if a module cannot be unloaded or leaves something behind.
"""

import json
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from harness import names
from harness.guest import leaks, modules, phases, ready, topology
from harness.guest.modules import ModuleError, kernel_name
from harness.guest.waiting import Deadline

STATE = Path("/run/kfabric-ulp.json")
"""The link, and the census from before the external modules were loaded."""
UNLOAD_SECONDS = 10.0
ADDRESS = "{address}"
"""Stands in a parameter for the address of the RDMA link."""


class Ulp:
    """The modules that are tested, in the order of loading.

    Args:
        directory: The directory of the modules' files.
        names: The names of the files, without .ko.
        parameters: Words ``[module.]name=value``.
        link: The RDMA link that was made before.
    """

    def __init__(
        self,
        directory: Path,
        names: Sequence[str],
        parameters: Sequence[str],
        link: topology.RdmaLink,
    ) -> None:
        self.directory = directory
        self.link = link
        self.touched = False
        """Whether they were loaded or unloaded since this was last set."""
        self._files = tuple(names)
        self._parameters = tuple(parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """The modules' names, as the kernel writes them."""
        return tuple(map(kernel_name, self._files))

    @property
    def loaded(self) -> tuple[str, ...]:
        """Names of those that are loaded now."""
        return tuple(name for name in self.names if modules.state(name) is not None)

    def load(self, *parameters: str, **values: object) -> None:
        """Load those that are not loaded.

        ``ulp.load(addr=ulp.link.address)``, or words for one of several modules:
        ``ulp.load("my_core.depth=4")``. Without any: those of the command line.

        Raises:
            ModuleError: A module does not load; the text has the kernel's messages.
        """
        self.touched = True
        words = [*parameters, *(f"{name}={value}" for name, value in values.items())]
        for file in self._files:
            if modules.state(kernel_name(file)) is None:
                text = self._text(file, words or self._parameters)
                modules.insert(self.directory / f"{file}.ko", text)

    def unload(self, deadline: Deadline | float = UNLOAD_SECONDS) -> None:
        """Unload those that are loaded, last one first.

        Raises:
            ModuleInUse: A module is in use at the deadline.
        """
        self.touched = True
        limit = Deadline.of(deadline)
        for name in reversed(self.loaded):
            modules.remove_when_free(name, limit)

    def _text(self, file: str, words: Sequence[str]) -> str:
        mine = []
        for word in words:
            module, dot, _ = word.partition("=")[0].rpartition(".")
            if not dot or kernel_name(module) == kernel_name(file):
                mine.append(word.removeprefix(f"{module}{dot}"))
        return " ".join(mine).replace(ADDRESS, self.link.address)


def _recall() -> tuple[topology.RdmaLink, leaks.Census]:
    known = json.loads(STATE.read_text())
    link = known["link"]
    netdev = topology.Netdev(**link["netdev"])
    return topology.RdmaLink(link["name"], netdev), known["before"]


def _ulp(link: topology.RdmaLink) -> Ulp:
    directory = Path(os.environ[names.ULP])
    return Ulp(directory, modules.ulp_files(), json.loads(os.environ[names.ULP_PARAMETERS]), link)


class UlpChecks:
    """The plugin's part in a test process of a guest: fixtures, and the end of the modules."""

    def __init__(self) -> None:
        link, self._before = _recall()
        self._ulp = _ulp(link)

    @pytest.fixture(scope="session")
    @classmethod
    def verbs(cls) -> topology.RdmaLink:
        """The RDMA link that was made before the modules were loaded."""
        return _recall()[0]

    @pytest.fixture
    def ulp(self) -> Iterator[Ulp]:
        """The modules that are tested: ``ulp.unload()``, ``ulp.load(count=3)``.

        After the test they are loaded again if they were loaded before it.
        """
        before = self._ulp.loaded
        self._ulp.touched = False
        yield self._ulp
        if self._ulp.touched:
            self._ulp.unload()
            if before:
                self._ulp.load()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Unload the modules after the last test; it fails if they leave something behind."""
        last = nextitem is None
        return (yield from phases.then(lambda: "\n".join(self.retire()) if last else ""))

    def retire(self) -> list[str]:
        """Unload the modules; a line for each problem."""
        names = ", ".join(self._ulp.loaded)
        try:
            self._ulp.unload()
        except ModuleError as error:
            return [f"a module cannot be unloaded after the last test: {error.strerror}"]
        left = leaks.since(self._before)
        return [f"{names or 'the tested module'} left behind, unloaded: {line}" for line in left]


def main() -> None:
    """Load everything. Raises OSError."""
    link = ready.prepare()
    STATE.write_text(json.dumps({"link": asdict(link), "before": leaks.take()}))
    if "--unloaded" not in sys.argv[1:]:
        _ulp(link).load()


if __name__ == "__main__":
    ready.leave_after(main)
