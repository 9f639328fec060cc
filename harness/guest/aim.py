# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In a guest that is steered: tells the plugin inside QEMU where a module's code is."""

import errno
import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path

from kfabric import names
from kfabric.steer import board
from kfabric.steer.plan import Aim, Function, Plan

PAGE = 4096
READ_SECONDS = 60.0


class Unheld(OSError):
    """No CPU can be held in a module."""

    def __init__(self, module: str, why: str) -> None:
        super().__init__(errno.EINVAL, f"no CPU can be held in {module}: {why}")


def at(module: str) -> None:
    """Let CPUs be held in a module that was just loaded, if the run's plan has it.

    Raises Unheld: the board has no room for it, or the kernel names no function of it.
    """
    plan = Plan.of_environment()
    if plan is None or module not in plan.modules:
        return
    out = Path(os.environ[names.OUT])
    found = _functions(module)
    if not found:
        raise Unheld(module, "the kernel names no function of it")
    places = [address for _, address in found]
    code = range(min(places) // PAGE * PAGE, max(places) // PAGE * PAGE + PAGE)
    functions = [Function(name, address - code.start) for name, address in found]
    built = os.environ.get(names.MODULE_DIR, "")
    # What is held is known to the host before it is held: the kernel may panic at once.
    with (out / names.AIMS).open("a") as file:
        file.write(json.dumps(asdict(Aim(module, tuple(functions), built))) + "\n")
    try:
        board.aim(out / names.BOARD, module, code, plan.holds(module, functions, len(code)))
    except ValueError as error:
        raise Unheld(module, str(error)) from None


def off(module: str) -> None:
    """Hold no CPU where a module was that is gone: other code may get its place."""
    plan = Plan.of_environment()
    if plan is not None and module in plan.modules:
        board.forget(Path(os.environ[names.OUT]) / names.BOARD, module)


def _functions(module: str) -> list[tuple[str, int]]:
    """The functions of a module, and their addresses."""
    argv = ["grep", "-F", f"[{module}]", "/proc/kallsyms"]
    # grep's status is 1 if there is none.
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, text=True, timeout=READ_SECONDS, check=False
    )
    words = (line.split() for line in done.stdout.splitlines())
    return [(word[2], int(word[0], 16)) for word in words if word[1] in "tTwW"]
