# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The checkout: sources that builds read and guests mount; an installed tool makes one.

A wheel has no checkout, but the package in it carries what a run needs of one in the folder
``checkout`` (pyproject.toml lists it). The first command lays it out in the cache, together with
the packages as harness/ and kfabric_py/. From then on the directory serves as a checkout does.
"""

import importlib.util
import shutil
from pathlib import Path

from kfabric.errors import SetupError
from kfabric.root import INSTALLED, PACKAGE, ROOT
from kfabric.vm import cache

CARRIED = "checkout"


def _checkout() -> Path:
    """The checkout of this package; that of an installed one is made if need be.

    Raises SetupError.
    """
    if not (PACKAGE / CARRIED).is_dir():
        return ROOT
    found = importlib.util.find_spec("kfabric_py")
    if not (found and found.origin):
        raise SetupError("the package kfabric-py is not installed", "install it with pip")
    return lay_out(contents(PACKAGE, Path(found.origin).parent))


def contents(package: Path, client: Path) -> dict[Path, Path]:
    """The files of the checkout that two installed packages make, each with its origin.

    Args:
        package: the directory of ``kfabric``.
        client: the directory of ``kfabric_py``.
    """
    carried = package / CARRIED
    places = [(Path(), carried), (Path("harness"), package), (Path("kfabric_py"), client)]
    return {
        place / path.relative_to(top): path
        for place, top in places
        for path in sorted(top.rglob("*"))
        if path.is_file()
        and "__pycache__" not in path.parts
        and not (top == package and path.is_relative_to(carried))
    }


def lay_out(files: dict[Path, Path]) -> Path:
    """The directory of the cache with these files, made if need be; its name is their hash."""
    parts = (part for to, path in files.items() for part in (bytes(to), path.read_bytes()))
    target = _directory() / cache.key(parts)
    # A run may have made the directory again after it was removed.
    if (target / "harness").is_dir():
        return target
    with cache.locked(target.parent / "lock"):
        if not (target / "harness").is_dir():
            with cache.building(target) as scratch:
                _copy(files, scratch)
    return target


def remove_others() -> None:
    """Remove the checkouts of other versions of an installed tool, with all that they have built.

    If SOURCE is no checkout of the cache, it is not known which of them are still used.
    """
    if not SOURCE.is_relative_to(_directory()):
        return
    with cache.locked(_directory() / "lock"):
        for place in _directory().iterdir():
            if place.is_dir() and place != SOURCE:
                cache.remove(place)


def _directory() -> Path:
    return cache.root() / "checkouts"


def _copy(files: dict[Path, Path], directory: Path) -> None:
    for to, path in files.items():
        (directory / to).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, directory / to)
    link_packages(directory)


def link_packages(directory: Path) -> None:
    """Let Python find the packages of a new checkout, as vm/bootstrap.sh does."""
    (directory / "build/python").mkdir(parents=True)
    (directory / "build/python/kfabric").symlink_to("../../harness")


SOURCE = _checkout()
"""The checkout. Importing this module makes that of an installed tool."""


def results() -> Path:
    """Where commands leave their results by default.

    An installed tool leaves nothing in its SOURCE, which the user does not see.
    """
    return (Path.cwd() if INSTALLED else SOURCE) / "build"
