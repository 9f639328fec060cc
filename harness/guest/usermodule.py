# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The guest's part of testing a user's modules: loads them, and checks their end.

    python3 -m kfabric.guest.usermodule [--unloaded]

loads the modules. If one of them uses kfabric, or a parameter wants the address of an RDMA link,
our modules and a link come first. In the test process a plugin provides the fixture ``module``.
After the last test it unloads the modules, and fails that test if a module cannot be unloaded or
leaves something behind.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kfabric import names
from kfabric.guest import aim, leaks, modules, phases, ready, topology
from kfabric.guest.modules import ModuleError, kernel_name
from kfabric.guest.waiting import Deadline

STATE = Path("/run/kfabric-module.json")
"""What is known from before the modules were loaded."""
UNLOAD_SECONDS = 10.0
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


class Before(NamedTuple):
    """The guest before the modules were loaded."""

    link: topology.RdmaLink | None
    """Made for them; None: they do not need one."""
    census: leaks.Census
    loaded: tuple[str, ...]
    """Those of the tested modules that the guest itself had loaded; they stay."""


class UserModule:
    """The modules that are tested, in the order of loading: the image's, then those built.

    Args:
        directory: The directory of the built modules' files.
        files: The names of these files, without .ko.
        parameters: Words ``[module.]name=value``.
        address: The address of the RDMA link, if there is one.
        modprobe: The names of the image's modules.
    """

    def __init__(
        self,
        directory: Path,
        files: Sequence[str],
        parameters: Sequence[str],
        address: str = "",
        modprobe: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.touched = False
        """Whether they were loaded or unloaded since this was last set."""
        self._files = tuple(files)
        self._parameters = tuple(parameters)
        self._address = address
        self._modprobe = tuple(modprobe)

    @property
    def names(self) -> tuple[str, ...]:
        """The modules' names, as the kernel writes them."""
        return tuple(map(kernel_name, (*self._modprobe, *self._files)))

    @property
    def loaded(self) -> tuple[str, ...]:
        """Names of those that are loaded now."""
        return tuple(name for name in self.names if modules.state(name) is not None)

    @property
    def needs_kfabric(self) -> bool:
        """Whether one of the built modules calls ours, or a parameter wants a link's address."""
        used = (_depends(self.directory / f"{file}.ko") for file in self._files)
        return any(set(modules.OURS) & found for found in used) or any(
            names.ADDRESS in word for word in self._parameters
        )

    def load(self, *parameters: str, **values: object) -> None:
        """Load those that are not loaded.

        ``module.load(addr=verbs.address)``, or words for one of several modules:
        ``module.load("my_core.depth=4")``. Without any: those of the command line.

        Raises:
            ModuleError: A module does not load, with the kernel's messages; or none of those
                that were loaded has one of the parameters, and they are unloaded again.
        """
        self.touched = True
        given = [*parameters, *(f"{name}={value}" for name, value in values.items())]
        words = given or list(self._parameters)
        ignored: dict[str, set[str]] = {}
        for name, file in zip(self.names, (*self._modprobe, *self._files), strict=True):
            if modules.state(name) is None:
                mine = self._of(name, words)
                ignored[name] = set(
                    modules.insert(self.directory / f"{file}.ko", " ".join(mine))
                    if file in self._files
                    else modules.probe(file, mine)
                )
        if unknown := _unknown(words, ignored):
            self.unload()
            raise ModuleError(errno.EINVAL, f"{', '.join(ignored)} has no parameter {unknown}")

    def unload(self, deadline: Deadline | float = UNLOAD_SECONDS) -> None:
        """Unload those that are loaded, last one first.

        Raises:
            ModuleInUse: A module is in use at the deadline.
        """
        self.touched = True
        limit = Deadline.of(deadline)
        for name in reversed(self.loaded):
            modules.remove_when_free(name, limit)

    def require_no_words_for(self, others: Sequence[str]) -> None:
        """Raise ModuleError for a parameter of a module that the guest itself had loaded."""
        for owner, parameter in map(_split, self._parameters):
            if owner in others or (others and not owner and not self.names):
                what = f"{owner or ', '.join(others)} is loaded already, so {parameter} is too late"
                raise ModuleError(errno.EBUSY, what)

    def _of(self, name: str, words: Sequence[str]) -> list[str]:
        """A module's own words, for the kernel."""
        mine = []
        for word in words:
            owner, parameter = _split(word)
            if owner in ("", name):
                _, equals, value = word.partition("=")
                mine.append(f"{parameter}{equals}{value}".replace(names.ADDRESS, self._address))
        return mine


def _split(word: str) -> tuple[str, str]:
    """The module, empty for all, and the parameter of a word ``[module.]name=value``."""
    owner, _, parameter = word.partition("=")[0].rpartition(".")
    return kernel_name(owner), parameter


def _unknown(words: Sequence[str], ignored: dict[str, set[str]]) -> str:
    """The first parameter that every module ignored that got it; empty if there is none."""
    for owner, parameter in map(_split, words):
        got = [found for name, found in ignored.items() if owner in ("", name)]
        if got and all(parameter in found for found in got):
            return parameter
    return ""


def _depends(module: Path) -> set[str]:
    """The modules whose functions a module calls."""
    found = _DEPENDS.search(module.read_bytes())
    return set(found[1].decode().split(",")) if found else set()


def _remember(before: Before) -> None:
    link = asdict(before.link) if before.link else None
    STATE.write_text(json.dumps(before._replace(link=None)._asdict() | {"link": link}))


def _recall() -> Before:
    known: dict[str, Any] = json.loads(STATE.read_text())
    link = known["link"]
    if link:
        link = topology.RdmaLink(link["name"], topology.Netdev(**link["netdev"]))
    return Before(link, known["census"], tuple(known["loaded"]))


def _tested(link: topology.RdmaLink | None = None, but: Sequence[str] = ()) -> UserModule:
    """The modules that the environment names, ``but`` without these of the image's."""
    return UserModule(
        Path(os.environ.get(names.MODULE_DIR, "")),
        modules.user_files(),
        json.loads(os.environ[names.MODULE_PARAMETERS]),
        link.address if link else "",
        [name for name in modules.image_names() if kernel_name(name) not in but],
    )


class UserModuleChecks:
    """The plugin's part in a test process of a guest: fixtures, and the end of the modules."""

    def __init__(self) -> None:
        before = _recall()
        self._before = before.census
        self._module = _tested(before.link, before.loaded)

    @pytest.fixture(scope="session")
    @classmethod
    def verbs(cls) -> Iterator[topology.RdmaLink]:
        """The RDMA link that was made before the modules were loaded; if none was, a new one."""
        if link := _recall().link:
            yield link
            return
        modules.need()
        with topology.rxe_on_dummy() as link:
            yield link

    @pytest.fixture
    def module(self) -> Iterator[UserModule]:
        """The modules that are tested: ``module.unload()``, ``module.load(count=3)``.

        After the test they are loaded again if they were loaded before it.
        """
        before = self._module.loaded
        self._module.touched = False
        yield self._module
        if self._module.touched:
            self._module.unload()
            if before:
                self._module.load()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Unload the modules after the last test; it fails if they leave something behind."""
        last = nextitem is None
        return (yield from phases.then(lambda: "\n".join(self.retire()) if last else ""))

    def retire(self) -> list[str]:
        """Unload the modules; a line for each problem."""
        names = ", ".join(self._module.loaded)
        try:
            self._module.unload()
        except ModuleError as error:
            return [f"a module cannot be unloaded after the last test: {error.strerror}"]
        left = leaks.since(self._before)
        return [f"{names or 'the tested module'} left behind, unloaded: {line}" for line in left]


def main() -> None:
    """Load everything. Raises OSError."""
    link = ready.prepare() if _tested().needs_kfabric else None
    there = tuple(name for name in map(kernel_name, modules.image_names()) if modules.state(name))
    _remember(Before(link, leaks.take(), there))
    tested = _tested(link, there)
    tested.require_no_words_for(there)
    for name in there:
        aim.at(name)
    if "--unloaded" not in sys.argv[1:]:
        tested.load()


if __name__ == "__main__":
    ready.leave_after(main)
