# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The user's current directory in a guest: commands run in it, at the same path.

The guest mounts it read-only, unless it lies in the checkout. Nothing is mounted over a
directory that the guest has itself: that would hide the guest's files.
"""

import os
from dataclasses import replace
from pathlib import Path

from kfabric.vm import cache, prepare, usermodule
from kfabric.vm.cache import Log
from kfabric.vm.spec import VmSpec

# All directories below these are the guest's own as well, except those of users.
_SYSTEM = tuple(
    Path("/") / name
    for name in "bin boot dev etc lib lib64 opt/kfabric proc run sbin sys usr".split()
)
_USERS = (Path("/usr/src"),)


def add(spec: VmSpec, otherwise: Path, log: Log) -> VmSpec:
    """The same guest with the current directory, in which the user's commands run.

    If the guest cannot have it, they run in the directory ``otherwise``, and a line gives the
    reason.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:
        log(f"commands run in {otherwise}: the current directory is removed")
        return replace(spec, here=otherwise)
    if here.is_relative_to(prepare.SOURCE):
        return replace(spec, here=here)
    around = tuple(path for path in spec.shares if here.is_relative_to(path))
    if not around and (reason := obstacle(here)):
        log(f"commands run in {otherwise}, not in {here}: {reason}")
        return replace(spec, here=otherwise)
    rest = tuple(path for path in spec.shares if path not in around)
    return replace(spec, shares=rest, live=around or (here,), here=here)


def obstacle(path: Path) -> str:
    """The reason for which guests cannot mount a directory of the host; empty: they can."""
    if _is_guests_own(path):
        return "the guest has its own directory there"
    if not cache.is_plain(path):
        return "its path has other characters than letters, digits and ./+@~_-"
    return "" if os.access(path, os.R_OK | os.X_OK) else "it cannot be read"


def _is_guests_own(path: Path) -> bool:
    if any(path != place and path.is_relative_to(place) for place in _USERS):
        return False
    own = path in usermodule.GUESTS_OWN or path.parent == Path("/var") or path in _USERS
    return own or any(map(path.is_relative_to, _SYSTEM))
