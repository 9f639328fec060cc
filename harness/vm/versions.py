# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The kernels that guests can run, as vm/versions.toml names them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ExitStatus, KfabricError, SetupError

FILE = "vm/versions.toml"
ENVIRONMENT = "KFABRIC_KERNEL"
"""Names the kernel of guests that are not told which to run."""


class UnknownKernel(KfabricError):
    """vm/versions.toml has no kernel of that name."""

    status = ExitStatus.USAGE
    label = "no such kernel"


@dataclass(frozen=True)
class Stock:
    """A kernel that Debian has built.

    :param package: meta-package that depends on its newest release.
    :param archive: the suite that has this package.
    """

    package: str
    archive: str


@dataclass(frozen=True)
class Built:
    """A kernel that is built here, with checks that Debian's have not.

    :param source: package with its source.
    :param configs: fragments of its configuration; see :mod:`harness.vm.kernelbuild`.
    """

    source: str
    configs: tuple[str, ...]


@dataclass(frozen=True)
class Version:
    """A kernel under its name, and the userland that goes with it.

    :param name: as users say it.
    :param suite: Debian's suite of the guest's userland.
    :param origin: where the kernel comes from.
    :param memory_mib: the least that its guests need.
    :param slow: how many times as long as usual everything may take.
    :param append: kernel parameters that it always gets.
    """

    name: str
    suite: str
    origin: Stock | Built
    memory_mib: int = 0
    slow: float = 1.0
    append: tuple[str, ...] = ()


@dataclass(frozen=True)
class Versions:
    """All that the file says.

    :param default: name of the kernel that is meant if nobody says which.
    :param kernels: in the order of the file, by name.
    """

    default: str
    kernels: Mapping[str, Version]

    def find(self, name: str = "") -> Version:
        """The kernel of that name.

        :param name: empty: the one that ``$KFABRIC_KERNEL`` names, or the default.
        :raises UnknownKernel: there is none.
        """
        wanted = name or os.environ.get(ENVIRONMENT) or self.default
        if wanted not in self.kernels:
            raise UnknownKernel(wanted, f"{FILE} has {', '.join(self.kernels)}")
        return self.kernels[wanted]

    def matrix(self) -> list[str]:
        """Names of the kernels that Debian has built, run as Debian's users do."""
        every = self.kernels.items()
        return [name for name, one in every if isinstance(one.origin, Stock) and not one.append]


def load(source: Path) -> Versions:
    """Read the file of a checkout.

    :raises SetupError: it is not as it should be.
    """
    path = source / FILE
    try:
        return parse(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SetupError(f"{FILE}: {error}") from None


def parse(text: str) -> Versions:
    """Understand the file's text.

    :raises SetupError: it has other entries than it should.
    :raises tomllib.TOMLDecodeError: it is no TOML.
    """
    table = tomllib.loads(text)
    entries = table.get("kernels", {})
    kernels = {name: _version(name, entry) for name, entry in entries.items()}
    default = str(table.get("default"))
    if default not in kernels:
        raise SetupError(f"{FILE}: default is {default}, which is no kernel of the file")
    return Versions(default, kernels)


def _version(name: str, entry: Mapping[str, Any]) -> Version:
    keys = set(entry) - set(_GUEST)
    built = keys == {"suite", "source", "configs"}
    if not built and (
        wrong := {"suite", "package"} - keys or keys - {"suite", "package", "archive"}
    ):
        raise SetupError(f"{FILE}: {name}: lacks or does not know {', '.join(sorted(wrong))}")
    if wrong := {key for key, value in entry.items() if not _fits(key, value)}:
        raise SetupError(f"{FILE}: {name}: of a wrong type: {', '.join(sorted(wrong))}")
    suite = entry["suite"]
    origin: Stock | Built
    if built:
        origin = Built(entry["source"], tuple(entry["configs"]))
    else:
        origin = Stock(entry["package"], entry.get("archive", suite))
    memory, slow = int(entry.get("memory_mib", 0)), float(entry.get("slow", 1.0))
    return Version(name, suite, origin, memory, slow, tuple(entry.get("append", ())))


_GUEST: Mapping[str, tuple[type, ...]] = {
    "memory_mib": (int,),
    "slow": (int, float),
    "append": (list,),
}
"""What may be said of any kernel's guests."""


def _fits(key: str, value: object) -> bool:
    if key in ("configs", "append"):
        return isinstance(value, list) and all(isinstance(one, str) and one for one in value)
    return bool(value) and isinstance(value, _GUEST.get(key, (str,)))
