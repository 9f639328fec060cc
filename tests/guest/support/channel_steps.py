# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Scenarios of completion channels as lists of steps: played on a side, or foreseen.

A step is a word and what it is about: ``arm a solicited``, ``complete a 3``, ``get``.
``thread wait`` and ``thread destroy a`` make the call in a thread and go on once it
sleeps; ``interrupt`` has the last of these threads run a signal handler, ``asleep`` tells
whether it is still in its call, ``end`` what it answers, ``ends`` what all do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations

from channel_sides import NOTHING, Queue, Side
from side_support import Sleeper, outcomes

from kfabric.docs.channels import ANSWERING, SILENT


class Player:
    """Takes steps on a side."""

    def __init__(self, side: Side) -> None:
        """Take them on this one."""
        self._side = side
        self._threads: list[Sleeper] = []

    def play(self, steps: list[str], expected: list[str]) -> list[str]:
        """Take all steps; return what those answered that answer anything.

        Args:
            steps: what to do.
            expected: the answers that should come; what is not expected is waited
                for less long.
        """
        for name in sorted(set("abs") & {word for step in steps for word in step.split()[1:]}):
            self._side.expected = ""
            self._side.open(name)
        answers: list[str] = []
        for step in steps:
            self._side.expected = expected[len(answers)] if len(answers) < len(expected) else ""
            word, *about = step.split()
            answer = self._step(word, about)
            if word in ANSWERING:
                answers.append(answer)
        return answers

    def _step(self, word: str, about: list[str]) -> str:
        side = self._side
        if about and about[0] in side.queues:
            return self._on_queue(word, side.queues[about[0]], about[1:])
        match word, about:
            case (("poll" | "get" | "wait" | "fault"), []):
                return str(getattr(side, word)())
            case "destroy", ["channel"]:
                return side.destroy_channel()
            case "thread", ["wait"]:
                self._threads.append(side.thread(side.wait, "wait"))
            case "thread", ["destroy", name]:
                queue = side.queues[name]
                self._threads.append(side.thread(lambda: side.destroy(queue), "destroy"))
            case "interrupt", []:
                self._threads[-1].interrupt(restart=False)
            case "asleep", []:
                return "returned" if self._threads[-1].done else "sleeps"
            case "end", []:
                return self._threads[-1].outcome()
            case "ends", []:
                return " ".join(sorted(outcomes(self._threads)))
            case _:
                raise ValueError(f"no such step: {word} {about}")
        return ""

    def _on_queue(self, word: str, queue: Queue, about: list[str]) -> str:
        side, solicited = self._side, "solicited" in about
        count = next((int(each) for each in about if each.isdigit()), 1)
        match word:
            case "arm":
                side.arm(queue, solicited)
            case "complete":
                for _ in range(count):
                    side.complete(queue, solicited)
            case "fail":
                side.fail(queue)
            case "hang-up":
                side.hang_up(queue)
            case "drain":
                return side.drain(queue)
            case "ack":
                return side.ack(queue, count)
            case "destroy":
                return side.destroy(queue)
            case _:
                raise ValueError(f"no such step: {word} {queue.name}")
        return ""


class Forecast:
    """What rules E1 and E2 say of two queues that complete nothing but solicited receives."""

    def __init__(self) -> None:
        """Begin with nothing asked for and nothing there."""
        self.asked: set[str] = set()
        self.unread: list[str] = []
        self._entries = {"a": 0, "b": 0}
        self.steps: list[str] = []
        self.answers: list[str] = []

    def take(self, step: str) -> None:
        """Take a step: arm, complete, get, ack or drain."""
        self.steps.append(step)
        match step.split():
            case "arm", name, *_:
                self.asked.add(name)
            case "complete", name, "solicited":
                self._entries[name] += 1
                if name in self.asked:
                    self.asked.remove(name)
                    self.unread.append(name)
            case ["get"]:
                self.answers.append(self.unread.pop(0) if self.unread else NOTHING)
            case "ack", _:
                self.answers.append("0")
            case "drain", name:
                self.answers.append(str(self._entries[name]))
                self._entries[name] = 0
            case _:
                raise ValueError(f"nothing is foretold of {step}")

    def get_and_ack(self) -> None:
        """Get an event, and acknowledge it if there is one."""
        self.take("get")
        if self.answers[-1] != NOTHING:
            self.take(f"ack {self.answers[-1]}")


def orders() -> Forecast:
    """Ask, complete, get, ack and drain in every order in which one can ack what was got.

    Between the orders everything is brought back to the beginning.
    """
    forecast = Forecast()
    words = ("arm a", "complete a solicited", "get", "ack a", "drain a")
    for order in permutations(words):
        if order.index("get") < order.index("ack a"):
            _order(forecast, order)
    return forecast


def _order(forecast: Forecast, order: tuple[str, ...]) -> None:
    got = False
    for word in order:
        if word != "ack a" or got:
            forecast.take(word)
        got = got or (word == "get" and forecast.answers[-1] != NOTHING)
    if forecast.asked:
        forecast.take("complete a solicited")
    while forecast.unread:
        forecast.get_and_ack()
    forecast.take("drain a")


def walk(seed: int, length: int) -> Forecast:
    """So many steps at random on two queues of a channel."""
    rng = random.Random(seed)
    forecast = Forecast()
    for word, name in _random_steps(rng, length):
        if word == "get":
            forecast.get_and_ack()
        else:
            forecast.take(word.format(name))
    return forecast


def _random_steps(rng: random.Random, length: int) -> Iterator[tuple[str, str]]:
    # A message that is not solicited is a known difference: here every one is.
    words = ("arm {}", "arm {} solicited", *["complete {} solicited"] * 2, "get", "drain {}")
    for _ in range(length):
        yield rng.choice(words), rng.choice("ab")


__all__ = ["ANSWERING", "SILENT", "Forecast", "Player", "orders", "walk"]
