# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In a guest that is steered: tells the plugin inside QEMU where a module's code is."""

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


def at(module: str) -> None:
    """Let CPUs be held in a module that was just loaded, if the run's plan has it.

    Raises:
        ValueError: the board has no room for it, or the kernel names no function of it.
    """
    plan = Plan.of_environment()
    if plan is None or module not in plan.modules:
        return
    out = Path(os.environ[names.OUT])
    found = _functions(module)
    if not found:
        raise ValueError(f"no CPU can be held in {module}: the kernel names no function of it")
    places = [address for _, address in found]
    code = range(min(places) // PAGE * PAGE, max(places) // PAGE * PAGE + PAGE)
    functions = [Function(name, address - code.start) for name, address in found]
    board.aim(out / names.BOARD, module, code, plan.holds(module, functions, len(code)))
    built = os.environ.get(names.MODULE_DIR, "")
    with (out / names.AIMS).open("a") as file:
        file.write(json.dumps(asdict(Aim(module, tuple(functions), built))) + "\n")


def _functions(module: str) -> list[tuple[str, int]]:
    """The functions of a module, and their addresses."""
    argv = ["grep", "-F", f"[{module}]", "/proc/kallsyms"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=READ_SECONDS, check=True)
    words = (line.split() for line in done.stdout.splitlines())
    return [(word[2], int(word[0], 16)) for word in words if word[1] in "tT"]
