# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The parser of a subcommand's command line, and the types of its arguments.

    parser = Parser(prog="kfabric run", description=__doc__)
    parser.add_argument("--cpus", type=whole(1), default=2, help="virtual CPUs")

A wrong argument is one line on standard error and the exit status USAGE, before anything is
built or booted.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from kfabric.errors import ExitStatus, UsageError
from kfabric.terminal import completion

MOST_SECONDS = 1e9
"""Locks and queues take no longer time limit."""
MARK = ".kfabric"
"""File in a directory whose other files a later command may replace."""


class _Formatter(argparse.HelpFormatter):
    """Adds the default to the help of each option that has one and does not state it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help, action.default
        stated = not text or "default" in text or not action.option_strings
        if stated or action.nargs == 0 or default in ("", [], argparse.SUPPRESS):
            return text
        if default is None:
            return f"{text}; default: none"
        return f"{text}; default: %(default){'g' if isinstance(default, float) else 's'}"


class Parser(argparse.ArgumentParser):
    """Prints one line for a wrong command line, and the defaults in its help."""

    _answering = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **options})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, or answer the shell (:mod:`kfabric.terminal.completion`)."""
        if completion.ENVIRONMENT in os.environ and not self._answering:
            self._answering = True  # argcomplete has it parse
            completion.answer(self)
        return super().parse_known_args(args, namespace)

    @property
    def option_strings(self) -> list[str]:
        """All its options, as they are written."""
        return list(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        line = " ".join(message.removeprefix("argument ").splitlines())
        self.exit(ExitStatus.USAGE, f"{self.prog}: {line} (see {self.prog} --help)\n")


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type: a whole number within limits."""
    limits = f"at least {least}" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"{number} is not {limits}")
        return number

    return parse


def positive(text: str) -> float:
    """A type: a number of seconds or mebibytes above 0."""
    number = not_negative(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not more than 0")
    return number


def not_negative(text: str) -> float:
    """A type: a number of seconds, where 0 means none."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    if not 0 <= number <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 0 to {MOST_SECONDS:g}")
    return number


def existing_file(text: str) -> Path:
    """A type: a file that exists."""
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}")
    return path


def writable(path: Path) -> Path:
    """The absolute path of a directory for results, made if it is missing.

    Raises:
        UsageError: no file can be made there.
    """
    import tempfile  # guests parse arguments, too, and import slowly

    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path.resolve()
    except OSError as error:
        raise UsageError(f"cannot write to {path}", error.strerror or str(error)) from None


def relative(path: Path) -> Path:
    """A path as a user writes it: from the current directory on if it lies below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def program() -> str:
    """The command kfabric, as the user called it."""
    import shutil  # guests parse arguments, too, and import slowly

    called = sys.argv[0]
    typed = Path(called).name == "kfabric" and shutil.which("kfabric") != called
    return called if typed else "kfabric"


def results_directory(given: Path | None, default: Path) -> Path:
    """The absolute path of a directory that has results and nothing else, made if it is missing.

    Args:
        given: the user's choice.
        default: ours, in which no files of the user are expected.

    Raises:
        UsageError: it has other files, or no file can be made there.
    """
    path = default if given is None else given
    place = writable(path)
    ours = place == default.resolve() or (place / MARK).exists()
    if not ours and any(place.iterdir()):
        raise UsageError(f"{path} has files that are not kfabric's", "give another --output")
    (place / MARK).write_text("The results of a command of kfabric. The next one replaces them.\n")
    return place
