# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Where a kernel and its headers come from: one class for each kind of place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from harness.vm import apt, buildroot, kernel, kernelbuild
from harness.vm.headers import Headers
from harness.vm.kernel import Kernel
from harness.vm.kernelbuild import Recipe
from harness.vm.versions import Built, Stock, Version

Log = Callable[[str], None]


class Supply(Protocol):
    """A source of one kernel.

    An image keeps the release that it was built with; a supply may move on to a
    newer one, and must find the older one's headers, or say what to do.
    """

    def release(self) -> str:
        """The release that a new image gets."""

    def kernel(self, release: str, scratch: Path) -> Kernel:
        """The kernel, to be copied from; ``scratch`` is removed afterwards."""

    def headers(self, release: str) -> Headers:
        """What modules are built with."""


class Host:
    """The host's own suite: its apt, its compiler, headers among its packages."""

    def __init__(self, package: str) -> None:
        self._package = package

    def release(self) -> str:
        """What the meta-package depends on now."""
        return kernel.candidate(self._package)

    def kernel(self, release: str, scratch: Path) -> Kernel:
        """Download the package."""
        return kernel.fetch(release, scratch)

    def headers(self, release: str) -> Headers:
        """Install them if they are missing."""
        return kernel.headers(release)


class Other:
    """Another suite: all of it is in a build root."""

    def __init__(self, root: buildroot.BuildRoot) -> None:
        self._root = root

    def release(self) -> str:
        """The build root's."""
        return self._root.release

    def kernel(self, release: str, scratch: Path) -> Kernel:
        """The kernel beside the build root."""
        return self._root.kernel(scratch)

    def headers(self, release: str) -> Headers:
        """Those in the build root: its key is part of the image's."""
        return self._root.headers()


class Own:
    """A kernel that is built here; its key is part of the image's."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kernel = kernelbuild.load(directory)

    def release(self) -> str:
        """Its own, which nothing else has."""
        return self._kernel.release

    def kernel(self, release: str, scratch: Path) -> Kernel:
        """That in the cache."""
        shutil.copyfile(self._kernel.boot, scratch / kernel.FILE)
        return self._kernel

    def headers(self, release: str) -> Headers:
        """Those beside it."""
        return Headers(self._directory / kernelbuild.HEADERS)


def of(source: Path, version: Version, log: Log) -> Supply:
    """The supply of a kernel, made if needed.

    :raises SetupError: it cannot be made.
    """
    if isinstance(version.origin, Built):
        return Own(kernelbuild.ensure(source, _recipe(version.name, version.origin), log))
    if _at_home(version):
        return Host(version.origin.package)
    return Other(buildroot.ensure(source, version, log))


def key(source: Path, version: Version) -> str:
    """What an image's name tells of its supply."""
    if isinstance(version.origin, Built):
        recipe = _recipe(version.name, version.origin)
        return f"{version.suite} {kernelbuild.directory(source, recipe).name}"
    home = f"{version.suite} {version.origin}"
    return home if _at_home(version) else f"{home} {buildroot.key(source, version)}"


def _recipe(name: str, origin: Built) -> Recipe:
    return Recipe(name, origin.source, origin.configs)


def _at_home(version: Version) -> bool:
    origin = version.origin
    return isinstance(origin, Stock) and {version.suite, origin.archive} == {apt.SUITE}
