# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Kernel configuration fragments: reads them, and compares them with the resulting .config."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from kfabric.errors import SetupError
from kfabric.vm import cache

_LINE = re.compile(r'(CONFIG_\w+)=([ymn]|-?\d+|0x[0-9a-fA-F]+|"[^"]*")')

Options = Mapping[str, str]
"""Values by name, e.g. ``{"CONFIG_KASAN": "y"}``; "n": not set."""


def read(paths: Iterable[Path]) -> dict[str, str]:
    """The options of some fragments together; a later one wins.

    Raises SetupError for a line that is not of the form CONFIG_NAME=value.
    """
    options: dict[str, str] = {}
    for path in paths:
        for line in cache.list_lines(path):
            match = _LINE.fullmatch(line)
            if match is None:
                raise SetupError(f"{path.name}: not an option: {line}")
            options[match[1]] = match[2]
    return options


def text(options: Options) -> str:
    return "".join(f"{name}={value}\n" for name, value in options.items())


def check(asked: Options, config: str) -> None:
    """Raise SetupError with each option that a .config does not have as asked.

    Kconfig silently drops options that do not exist or whose dependencies are not met, and
    sets those that another option selects.
    """
    lines = (line.partition("=") for line in config.splitlines() if line.startswith("CONFIG_"))
    got = {name: value for name, _, value in lines}
    wrong = [
        f"{name} is {got.get(name, 'n')} instead of {value}"
        for name, value in asked.items()
        if got.get(name, "n") != value
    ]
    if wrong:
        hint = "see their dependencies in the kernel's Kconfig files"
        raise SetupError(f"not configured as asked: {', '.join(wrong)}", hint)
