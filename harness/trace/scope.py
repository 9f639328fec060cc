# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What is traced: the options that a person gives, the same on the host and in a guest."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

MODULES_LIMIT = 4
_ADDRESS_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Scope:
    """Which queues are told, and what else.

    Without ``modules`` and ``queue``: those that threads of the command's processes,
    or of process ``pid``, sleep on or wake.

    :param modules: queues that their code sleeps on or wakes, or that their data holds.
    :param queue: just this one, by its symbol or address.
    :param pid: with either of them, only waits of this process and its children.
    :param publish: functions that publish what sleepers wait for.
    :param take: functions that take it.
    :param stacks: whether each wait is told with the stacks of sleeper and waker.
    """

    modules: tuple[str, ...] = ()
    queue: str = ""
    pid: int = 0
    publish: tuple[str, ...] = ()
    take: tuple[str, ...] = ()
    stacks: bool = True

    @property
    def by_tree(self) -> bool:
        """Do the processes choose the queues?"""
        return not self.modules and not self.queue

    @property
    def address(self) -> int | None:
        """The number that ``queue`` is, with 0x or as the kernel writes it; None: a symbol."""
        digits = self.queue.lower().removeprefix("0x")
        if len(digits) != _ADDRESS_DIGITS and not self.queue[:1].isdigit():
            return None
        try:
            return int(digits, 16)
        except ValueError:
            return None

    def argv(self) -> list[str]:
        """The options that give this scope."""
        words = [f"--module={name}" for name in self.modules]
        words += [f"--queue={self.queue}"] if self.queue else []
        words += [f"--pid={self.pid}"] if self.pid else []
        words += [f"--event={name}" for name in self.publish]
        words += [f"--take={name}" for name in self.take]
        return words + ([] if self.stacks else ["--no-stacks"])


def add_scope_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that make a scope."""
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        metavar="M",
        help="wait queues that this module sleeps on or wakes; may be given several times",
    )
    parser.add_argument("--queue", default="", metavar="SYMBOL|ADDRESS", help="just this queue")
    parser.add_argument(
        "--pid", type=int, default=0, metavar="P", help="only this process and its children"
    )
    parser.add_argument(
        "--event",
        action="append",
        default=[],
        metavar="F",
        help="note each call of function F, which publishes what sleepers wait for",
    )
    parser.add_argument(
        "--take",
        action="append",
        default=[],
        metavar="F",
        help="the same of a function that takes it",
    )
    parser.add_argument(
        "--no-stacks", action="store_true", help="leave out the kernel stacks of sleeper and waker"
    )


def scope_of(args: argparse.Namespace) -> Scope:
    """The scope that parsed options give.

    :raises ValueError: they contradict each other; the text says why.
    """
    if args.module and args.queue:
        raise ValueError("--module and --queue exclude each other")
    if len(args.module) > MODULES_LIMIT:
        raise ValueError(f"at most {MODULES_LIMIT} modules")
    return Scope(
        modules=tuple(name.replace("-", "_") for name in args.module),
        queue=args.queue,
        pid=args.pid,
        publish=tuple(args.event),
        take=tuple(args.take),
        stacks=not args.no_stacks,
    )
