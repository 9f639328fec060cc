# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completes words in a shell, with argcomplete, which is imported only then.

    eval "$(build/venv/bin/register-python-argcomplete kfabric)"

The shell starts the command with ENVIRONMENT set. The parser of the subcommand then answers instead
of parsing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

ENVIRONMENT = "_ARGCOMPLETE"
"""Set by the shell: the number of words before the arguments."""


def command(names: Iterable[str]) -> str:
    """The subcommand in the line; exits with an answer if that is the word to complete."""
    line = os.environ["COMP_LINE"].encode()[: int(os.environ["COMP_POINT"])].decode()
    start = int(os.environ[ENVIRONMENT])
    words = [*line.split(), *([""] if line[-1:].isspace() else [])]
    if len(words) > start + 1:
        os.environ[ENVIRONMENT] = str(start + 1)
        return words[start]
    import argparse

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("command", choices=list(names))
    answer(parser)
    return ""


def answer(parser: argparse.ArgumentParser) -> None:
    """Print the words that fit, and exit."""
    import argcomplete

    argcomplete.autocomplete(parser)
