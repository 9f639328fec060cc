# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Configurations of kernels: what is asked for, and what has come of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.errors import SetupError
from harness.vm import cache

_LINE = re.compile(r'(CONFIG_\w+)=([ymn]|-?\d+|0x[0-9a-fA-F]+|"[^"]*")')

Options = Mapping[str, str]
"""Values by name, e.g. ``{"CONFIG_KASAN": "y"}``; "n": not set."""


def read(paths: Iterable[Path]) -> dict[str, str]:
    """What some fragments ask for together; a later one wins.

    :raises SetupError: a line is not of the form CONFIG_NAME=value.
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
    """As Kconfig reads it."""
    return "".join(f"{name}={value}\n" for name, value in options.items())


def parse(config: str) -> dict[str, str]:
    """The options that a kernel's .config sets."""
    lines = (line.partition("=") for line in config.splitlines() if line.startswith("CONFIG_"))
    return {name: value for name, _, value in lines}


def check(asked: Options, config: str) -> None:
    """Make sure that everything asked for is so.

    Kconfig drops without a word what does not exist or lacks what it depends on,
    and sets what something else selects.

    :param config: text of the .config.
    :raises SetupError: with each option that is not as asked.
    """
    got = parse(config)
    wrong = [
        f"{name} is {got.get(name, 'n')} instead of {value}"
        for name, value in asked.items()
        if got.get(name, "n") != value
    ]
    if wrong:
        hint = "see their dependencies in the kernel's Kconfig files"
        raise SetupError(f"not configured as asked: {', '.join(wrong)}", hint)
