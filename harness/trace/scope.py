# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The scope of a trace, and its options on the command line of host and guest."""

import argparse
import re
from dataclasses import dataclass

from kfabric.terminal.arguments import whole

MODULES_LIMIT = 4
_ADDRESS_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Scope:
    """The queues to trace, and the details to record.

    Without ``modules`` and ``queue``: the queues on which threads of the command's
    processes, or of process ``pid``, sleep or wake others.

    Args:
        modules: Queues in their data, or on which their code sleeps or wakes.
        queue: Only this queue, by its symbol or address.
        pid: With one of these, only waits of this process and its children.
        publish: Functions that publish the things that sleepers wait for.
        take: Functions that take them.
        stacks: Record the kernel stacks of sleeper and waker for each wait.
        user_stacks: Record the stacks of their programs, too.
    """

    modules: tuple[str, ...] = ()
    queue: str = ""
    pid: int = 0
    publish: tuple[str, ...] = ()
    take: tuple[str, ...] = ()
    stacks: bool = True
    user_stacks: bool = False

    @property
    def by_tree(self) -> bool:
        """Do the traced processes select the queues?"""
        return not self.modules and not self.queue

    @property
    def address(self) -> int | None:
        """The address in ``queue``, with 0x or in the kernel's format; None for a symbol."""
        digits = self.queue.lower().removeprefix("0x")
        if len(digits) != _ADDRESS_DIGITS and not self.queue[:1].isdigit():
            return None
        try:
            return int(digits, 16)
        except ValueError:
            return None

    def argv(self) -> list[str]:
        """The command-line options for this scope."""
        words = [f"--module={name}" for name in self.modules]
        words += [f"--queue={self.queue}"] if self.queue else []
        words += [f"--pid={self.pid}"] if self.pid else []
        words += [f"--event={name}" for name in self.publish]
        words += [f"--take={name}" for name in self.take]
        words += [] if self.stacks else ["--no-stacks"]
        return words + (["--user-stacks"] if self.user_stacks else [])


def add_scope_options(parser: argparse.ArgumentParser, directories: bool = False) -> None:
    """Add the options of a scope; ``directories``: a module may be that of a directory."""
    words = "wait queues that this module sleeps on or wakes; may be repeated"
    words += "; that of DIR, which has a Kbuild, is built and loaded" if directories else ""
    metavar = "M|DIR" if directories else "M"
    parser.add_argument(
        "--module",
        type=_module,
        action="append",
        default=[],
        dest="modules",
        metavar=metavar,
        help=words,
    )
    words = "just this queue, without --module; default: all"
    parser.add_argument("--queue", default="", metavar="SYMBOL|ADDRESS", help=words)
    words = "only this process and its children; default: every process"
    parser.add_argument("--pid", type=whole(1), default=0, metavar="P", help=words)
    words = "note each call of function F, which publishes the things that sleepers wait for; "
    words += "may be repeated"
    parser.add_argument("--event", type=_name, action="append", default=[], metavar="F", help=words)
    words = "the same for a function that takes them; may be repeated"
    parser.add_argument("--take", type=_name, action="append", default=[], metavar="F", help=words)
    words = "leave out the kernel stacks of sleeper and waker"
    parser.add_argument("--no-stacks", action="store_true", help=words)
    words = "add the stacks of the programs of sleeper and waker"
    parser.add_argument("--user-stacks", action="store_true", help=words)


def _name(text: str) -> str:
    """A type: the name of a module or a function."""
    if not re.fullmatch(r"[\w.-]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a module or a function")
    return text


def _module(text: str) -> str:
    """A type: the name of a module, or a directory."""
    return text if is_path(text) else _name(text)


def is_path(text: str) -> bool:
    """Is it a directory and no name, whether it exists or not?"""
    return "/" in text or text in (".", "..")


def scope_of(args: argparse.Namespace) -> Scope:
    """The scope of parsed options.

    Raises:
        ValueError: They contradict each other.
    """
    if args.modules and args.queue:
        raise ValueError("--module and --queue exclude each other")
    if len(args.modules) > MODULES_LIMIT:
        raise ValueError(f"at most {MODULES_LIMIT} modules")
    if args.no_stacks and args.user_stacks:
        raise ValueError("--no-stacks and --user-stacks exclude each other")
    return Scope(
        modules=tuple(name.replace("-", "_") for name in args.modules),
        queue=args.queue,
        pid=args.pid,
        publish=tuple(args.event),
        take=tuple(args.take),
        stacks=not args.no_stacks,
        user_stacks=args.user_stacks,
    )
