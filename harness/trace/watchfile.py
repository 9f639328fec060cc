# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The file ``wakeups.toml`` in a module's directory: what ``--verify-wakeups`` watches there.

    module = "my_mod"
    event = "my_mod_publish"
    take = ["my_mod_take", "my_mod_flush"]
    late_ms = 500

``module``, ``event`` and ``take`` are the options of ``kfabric trace``; each is a name or a
list of names.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfabric.trace.scope import MODULES_LIMIT, Scope

NAME = "wakeups.toml"
LATE_MS = 500.0
_NAMES = ("module", "event", "take")


class WatchFileError(ValueError):
    """A file ``wakeups.toml`` that cannot be used; the text names the file and the reason."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The queues that are watched, and how long a wake-up may take, in milliseconds."""

    scope: Scope
    late_ms: float = LATE_MS


def watched(
    *,
    module: str | list[str],
    event: str | list[str],
    take: str | list[str],
    late_ms: float = LATE_MS,
) -> Watched:
    """The queues of modules, with the functions that publish and take.

    Raises:
        ValueError: A name is missing.
    """
    names = {"module": _names(module), "event": _names(event), "take": _names(take)}
    for key, found in names.items():
        if not found:
            raise ValueError(f"{key} is missing: a verdict needs module, event and take")
    if len(names["module"]) > MODULES_LIMIT:
        raise ValueError(f"at most {MODULES_LIMIT} modules")
    modules = tuple(name.replace("-", "_") for name in names["module"])
    return Watched(Scope(modules=modules, publish=names["event"], take=names["take"]), late_ms)


def _names(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) and value else tuple(value)


def read(directory: Path) -> Watched | None:
    """Read the file of a directory; None if there is none. Raises WatchFileError."""
    path = directory / NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return watched(**_checked(tomllib.loads(text)))
    except ValueError as error:
        raise WatchFileError(f"{path}: {error}") from error


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The file's values, all of them known and of the right type. Raises ValueError."""
    if strange := sorted(set(values) - {*_NAMES, "late_ms"}):
        raise ValueError(f"unknown: {', '.join(strange)}")
    for key in _NAMES:
        value = values.get(key, [])
        if not all(isinstance(one, str) for one in (value if isinstance(value, list) else [value])):
            raise ValueError(f"{key} must be a name or a list of names")
    late_ms = values.get("late_ms", LATE_MS)
    if isinstance(late_ms, bool) or not isinstance(late_ms, int | float):
        raise ValueError("late_ms must be a number")
    return {key: values.get(key, []) for key in _NAMES} | {"late_ms": float(late_ms)}
