# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Programs from a seed: the same seed and number give the same program, anywhere."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import Final, Self

from kfabric.fuzz.grammar import FIELDS, FLAGS, OTHER_STEPS, PRODUCES
from kfabric.fuzz.kinds import Draw, Kind
from kfabric.fuzz.preambles import PREAMBLES
from kfabric.fuzz.program import Program, Step

THREADS: Final = 3
#: Probabilities that a step of a preamble is left out, or that a field of it is changed.
_LEFT_OUT, _CHANGED = 0.02, 0.03
#: Probabilities of a bad value; each program draws one of them.
_WILD: Final = (0.0, 0.02, 0.05, 0.15, 0.4)
#: Probability that size, flags, padding or address of the structure is wrong.
_FRAME = 0.03
_BODY: Final = (20, 40, 80)
_WITHOUT_OBJECT: Final = ("VERSION", "GETINFO", "STRERROR", "IOCTL", "BUF_ALLOC")
_REFERENCE: Final = re.compile(r"(%|@addr:)(\w+)")

_KINDS: Final[Mapping[str, Mapping[str, Kind]]] = {**OTHER_STEPS, **FIELDS}
_WEIGHTS: Final[dict[str, float]] = {
    **dict.fromkeys([*FIELDS, *OTHER_STEPS], 3.0),
    **{op: 1.0 for op in FIELDS if op.endswith("_OPEN")},
    **dict.fromkeys(("CLOSE", "MOCK", "CONTROL", "WAIT", "CQ_SREAD", "CQ_READ"), 8.0),
    **dict.fromkeys(("SEND", "RECV", "TSEND", "TRECV", "GET_CQ_EVENT", "REQ_NOTIFY", "BATCH"), 6.0),
    **dict.fromkeys(("VERSION", "GETINFO", "STRERROR", "DEV_READ", "DEV_WRITE", "DEV_SEEK"), 0.5),
    **dict.fromkeys(("DEV_POLL", "IOCTL", "DUP", "ATOMIC_VALID", "AV_STRADDR"), 0.5),
    **dict.fromkeys(("REOPEN", "FORK", "LOSE"), 0.3),
    "EP_OPEN": 2.0,
}
_OPS: Final = tuple(_WEIGHTS)
_CUMULATED: Final = tuple(accumulate(_WEIGHTS.values()))


@dataclass(frozen=True)
class Origin:
    """Names a program: the seed of the run, the process, and the program of that process."""

    seed: int
    process: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The reverse of `str`."""
        return cls(*map(int, text.split(".")))

    def __str__(self) -> str:
        return f"{self.seed}.{self.process}.{self.number}"


def program(origin: Origin) -> Program:
    """Make the program of an origin."""
    rng = Random(str(origin))
    draw = Draw(rng, wild=rng.choice(_WILD))
    steps: list[Step] = []
    names = rng.choices(list(PREAMBLES), [weight for weight, _ in PREAMBLES.values()], k=2)
    for number, name in enumerate(names if rng.random() < 0.1 else names[:1]):
        steps += _preamble(draw, PREAMBLES[name][1], f"s{number}")
    used = rng.choice([1, THREADS, THREADS, THREADS])
    for _ in range(rng.choice(_BODY)):
        thread = rng.randrange(used) if used > 1 else None
        steps.append(_step(draw, f"x{len(steps)}", thread))
    return Program(tuple(steps), (str(origin),))


def _preamble(draw: Draw, preamble: Program, prefix: str) -> list[Step]:
    """The steps of a preamble under new names; now and then one is changed or left out."""
    steps = []
    names = {step.name: f"{prefix}{step.name}" for step in preamble.steps if step.name}
    for plain in preamble.steps:
        step = _renamed(plain, names)
        chance = draw.rng.random()
        if chance < _LEFT_OUT:
            continue
        if chance < _LEFT_OUT + _CHANGED:
            step = _changed(draw, step)
        _note(draw, step)
        steps.append(step)
    return steps


def _renamed(step: Step, names: dict[str, str]) -> Step:
    """Replace the name of the step, and those that it refers to."""

    def new(match: re.Match[str]) -> str:
        return match[1] + names.get(match[2], match[2])

    args = {key: _REFERENCE.sub(new, value) for key, value in step.args.items()}
    return replace(step, args=args, name=names.get(step.name, ""))


def _changed(draw: Draw, step: Step) -> Step:
    """Change a field to another valid or invalid value, or make the frame wrong."""
    kinds = _KINDS[step.op]
    if not kinds or draw.rng.random() < 0.3:
        return _framed(draw, step)
    key = draw.rng.choice(list(kinds))
    value = kinds[key].bad(draw) if draw.rng.random() < 0.5 else kinds[key].good(draw)
    return replace(step, args={**step.args, key: value})


def _step(draw: Draw, name: str, thread: int | None) -> Step:
    """A random step on objects that exist, as far as this is known before the run."""
    for _ in range(8):
        (op,) = draw.rng.choices(_OPS, cum_weights=_CUMULATED)
        args = {key: kind.draw(draw) for key, kind in _KINDS[op].items()}
        # A call whose first object does not exist would do nothing.
        if op in _WITHOUT_OBJECT or next(iter(args.values()), "") != "0":
            break
    step = Step(op, {k: v for k, v in args.items() if v not in ("0", "0x0")}, name, thread)
    if op in FLAGS and draw.rng.random() < 0.5:
        step = replace(step, args={**step.args, "flags": hex(draw.rng.choice(FLAGS[op]))})
    if draw.rng.random() < _FRAME:
        step = _framed(draw, step)
    _note(draw, step)
    return step


def _framed(draw: Draw, step: Step) -> Step:
    """Make size, flags, padding or address of the structure wrong, or use another client."""
    rng = draw.rng
    size = rng.choice(["0", "4", "7", "8", "-8", "-1", "+8", "+1", "4096", "4097", "0xffffffff"])
    change = rng.choice(
        [
            {"size": size},
            {"size": "+8", "tail": "1"},
            {"flags": draw.boundary()},
            {"__reserved": "1"},
            {"place": rng.choice(["end", "cut", "ro", "unmapped", "null", "kernel", "hole"])},
            {"fd": "1"},
        ]
    )
    return replace(step, args={**step.args, **change})


def _note(draw: Draw, step: Step) -> None:
    """Note the object that a step produces if it succeeds."""
    produced = PRODUCES.get(step.op)
    if step.op == "CONTROL" and int(step.args.get("command", "0"), 0) == 5:
        produced = "fd"
    if step.op in ("EQ_READ", "EQ_SREAD"):
        produced = "event"
    if produced and step.name:
        draw.pool.setdefault(produced, []).append(step.name)
