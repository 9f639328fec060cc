# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Sources of a kernel and its headers: the host's suite, another suite, our build or the user's."""

import shutil
from pathlib import Path
from typing import Protocol

from kfabric.vm import apt, buildroot, kernel, kernelbuild, kerneltree
from kfabric.vm.cache import Log
from kfabric.vm.headers import Headers
from kfabric.vm.kernel import Kernel
from kfabric.vm.kernelbuild import Recipe
from kfabric.vm.versions import Built, Stock, Tree, Version


class Supply(Protocol):
    """A source of one kernel.

    An image keeps the release that it was built with. A source may move on to a newer
    release, but must still find the older one's headers, or report what to do.
    """

    def release(self) -> str:
        """The release for a new image."""

    def kernel(self, release: str, scratch: Path) -> Kernel:
        """The kernel, to be copied from; ``scratch`` is removed afterwards."""

    def headers(self, release: str) -> Headers:
        """The headers to build modules with."""


class Host:
    """The host's own suite: its apt, its compiler, headers among its packages."""

    def __init__(self, package: str) -> None:
        self._package = package

    def release(self) -> str:
        return kernel.candidate(self._package)

    def kernel(self, release: str, scratch: Path) -> Kernel:
        return kernel.fetch(release, scratch)

    def headers(self, release: str) -> Headers:
        return kernel.headers(release)


class OwnBuild:
    """A kernel that is built here; its key is part of the image's."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kernel = kernelbuild.load(directory)

    def release(self) -> str:
        return self._kernel.release

    def kernel(self, release: str, scratch: Path) -> Kernel:
        shutil.copyfile(self._kernel.boot, scratch / kernel.FILE)
        return self._kernel

    def headers(self, release: str) -> Headers:
        return Headers(self._directory / kernelbuild.HEADERS)


class UserTree:
    """A kernel that the user has built; modules stay in its tree, and are linked."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def release(self) -> str:
        return kerneltree.release(self._directory)

    def kernel(self, release: str, scratch: Path) -> Kernel:
        tree, boot = scratch / kernel.TREE, scratch / kernel.FILE
        kerneltree.link_modules(self._directory, tree)
        # Compressed, as kernelbuild's: it may have KASAN.
        shutil.copyfile(self._directory / kerneltree.BZIMAGE, boot)
        return Kernel(release, tree, boot)

    def headers(self, release: str) -> Headers:
        return Headers(self._directory, environment=kerneltree.environment(self._directory))


def of(source: Path, version: Version, log: Log) -> Supply:
    """The source of a kernel, built if needed; raises SetupError or BuildError."""
    if isinstance(version.origin, Tree):
        return UserTree(version.origin.directory)
    if isinstance(version.origin, Built):
        return OwnBuild(kernelbuild.ensure(source, _recipe(version.name, version.origin), log))
    if _at_home(version):
        return Host(version.origin.package)
    return buildroot.ensure(source, version, log)


def key(source: Path, version: Version) -> str:
    """The kernel's source as a part of an image's key."""
    if isinstance(version.origin, Tree):
        tree = version.origin
        return f"{key(source, tree.userland)} {kerneltree.identity(tree.directory)}"
    if isinstance(version.origin, Built):
        recipe = _recipe(version.name, version.origin)
        return f"{version.suite} {kernelbuild.directory(source, recipe).name}"
    home = f"{version.suite} {version.origin}"
    return home if _at_home(version) else f"{home} {buildroot.key(source, version)}"


def _recipe(name: str, origin: Built) -> Recipe:
    return Recipe(name, origin.source, origin.configs, origin.additions)


def _at_home(version: Version) -> bool:
    origin = version.origin
    return isinstance(origin, Stock) and {version.suite, origin.archive} == {apt.SUITE}
