# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The kernels that guests can run: those of vm/versions.toml, and trees that the user built."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfabric.errors import SetupError, UsageError
from kfabric.vm import kerneltree

FILE = "vm/versions.toml"
ENVIRONMENT = "KFABRIC_KERNEL"
"""Names the kernel of guests whose specification names none."""
CHECKED_MIB, CHECKED_SLOW = 2560, 6.0
"""The memory and the slowness of guests whose kernel checks each access or lock."""


class UnknownKernel(UsageError, label="no such kernel"):
    """vm/versions.toml has no kernel of that name."""


@dataclass(frozen=True)
class Stock:
    """A kernel that Debian has built."""

    package: str
    """Meta-package that depends on its newest release."""
    archive: str
    """The suite that has this package."""


@dataclass(frozen=True)
class Built:
    """A kernel that is built here, with checks that Debian's kernels lack."""

    source: str
    """Package with its source."""
    configs: tuple[str, ...]
    """Fragments of its configuration; see :mod:`kfabric.vm.kernelbuild`."""
    additions: tuple[str, ...] = ()
    """Folders with patches and files for the source."""


@dataclass(frozen=True)
class Tree:
    """A kernel that the user has built; see :mod:`kfabric.vm.kerneltree`."""

    directory: Path
    userland: Version
    """The kernel whose guests have the same userland."""


@dataclass(frozen=True)
class Version:
    """A kernel under its name in the file, or that of its directory, and its userland."""

    name: str
    suite: str
    """Debian's suite of the guest's userland."""
    origin: Stock | Built | Tree
    memory_mib: int = 0
    """The minimum for its guests."""
    slow: float = 1.0
    """Factor for all time limits."""
    append: tuple[str, ...] = ()
    """Kernel parameters for every guest."""


@dataclass(frozen=True)
class Versions:
    """The contents of the file; kernels by name, in the order of the file."""

    default: str
    kernels: Mapping[str, Version]

    def find(self, name: str = "") -> Version:
        """The kernel of that name, or that of ``$KFABRIC_KERNEL``, or the default.

        A name with a slash is the directory of a kernel tree. Raises UnknownKernel, or
        NoKernelTree.
        """
        wanted = name or os.environ.get(ENVIRONMENT) or self.default
        if "/" in wanted:
            return self._of_tree(Path(wanted).absolute())
        if wanted not in self.kernels:
            named = "" if name else f", which ${ENVIRONMENT} names"
            raise UnknownKernel(f"{wanted}{named}", f"{FILE} has {', '.join(self.kernels)}")
        return self.kernels[wanted]

    def _of_tree(self, directory: Path) -> Version:
        kerneltree.check(directory)
        userland = self.kernels[self.default]
        tree = Tree(directory, userland)
        if len(kerneltree.lacks(directory, kerneltree.CHECKS)) == len(kerneltree.CHECKS):
            return Version(str(directory), userland.suite, tree)
        return Version(str(directory), userland.suite, tree, CHECKED_MIB, CHECKED_SLOW)

    def matrix(self) -> list[str]:
        """Names of the stock kernels without extra parameters."""
        every = self.kernels.items()
        return [name for name, one in every if isinstance(one.origin, Stock) and not one.append]


def label(name: str) -> str:
    """A kernel's name as a part of file names."""
    return name.strip("/").replace("/", "-")


def lacks(version: Version, names: Iterable[str]) -> list[str]:
    """The options that a kernel does not have; those of vm/versions.toml have all."""
    origin = version.origin
    return kerneltree.lacks(origin.directory, names) if isinstance(origin, Tree) else []


def require(version: Version, names: Iterable[str], what: str) -> None:
    """Raise NoKernelTree if a kernel lacks options that ``what`` needs."""
    if missing := lacks(version, names):
        text = f"{version.name} lacks {', '.join(missing)}, without which {what}"
        raise kerneltree.NoKernelTree(text, "set them and build it again")


def load(source: Path) -> Versions:
    """Read the file of a checkout; raises SetupError if it is malformed."""
    try:
        return parse((source / FILE).read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SetupError(f"{FILE}: {error}") from None


def parse(text: str) -> Versions:
    """Parse the file's text; raises TOMLDecodeError, or SetupError for a wrong entry."""
    table = tomllib.loads(text)
    entries = table.get("kernels", {})
    kernels = {name: _version(name, entry) for name, entry in entries.items()}
    default = str(table.get("default"))
    if default not in kernels:
        raise SetupError(f"{FILE}: default is {default}, which is no kernel of the file")
    return Versions(default, kernels)


def _version(name: str, entry: Mapping[str, Any]) -> Version:
    keys = set(entry) - set(_GUEST)
    built = keys - {"additions"} == {"suite", "source", "configs"}
    if not built and (
        wrong := {"suite", "package"} - keys or keys - {"suite", "package", "archive"}
    ):
        raise SetupError(f"{FILE}: {name}: lacks or does not know {', '.join(sorted(wrong))}")
    if wrong := {key for key, value in entry.items() if not _fits(key, value)}:
        raise SetupError(f"{FILE}: {name}: of a wrong type: {', '.join(sorted(wrong))}")
    suite = entry["suite"]
    origin: Stock | Built
    if built:
        additions = tuple(entry.get("additions", ()))
        origin = Built(entry["source"], tuple(entry["configs"]), additions)
    else:
        origin = Stock(entry["package"], entry.get("archive", suite))
    memory, slow = int(entry.get("memory_mib", 0)), float(entry.get("slow", 1.0))
    return Version(name, suite, origin, memory, slow, tuple(entry.get("append", ())))


_GUEST: Mapping[str, tuple[type, ...]] = {
    "memory_mib": (int,),
    "slow": (int, float),
    "append": (list,),
}
"""Optional keys of any kernel."""


def _fits(key: str, value: object) -> bool:
    if key in ("configs", "additions", "append"):
        return isinstance(value, list) and all(isinstance(one, str) and one for one in value)
    return bool(value) and isinstance(value, _GUEST.get(key, (str,)))
