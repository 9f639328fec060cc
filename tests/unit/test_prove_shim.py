# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The shim's primitives: what each promises holds, and code that relies on more is found out."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kfabric.prove import build

ROOT = Path(__file__).parents[2]
PRIMITIVES = ROOT / "tests/prove/shim/primitives.c"
SHIM = ROOT / "harness/prove/shim/include"

# Scenarios of the file, and the finding of each; "tso": only where stores are buffered.
RIGHT = (
    "rcu-free-later",
    "rcu-two-readers",
    "rcu-synchronize",
    "rcu-callback",
    "work-queued-twice",
    "work-cancelled",
    "deadline-or-signal",
    "wait-event-woken",
    "wait-event-asks",
    "wait-event-signal",
    "wait-event-killed",
    "completion-all",
    "data-race-read",
    "data-race-write",
)
WRONG = {
    "state-sleep": ("atomic-sleep",),
    "state-end": ("held-at-end",),
    "rcu-sleep-inside": ("atomic-sleep",),
    "rcu-end-inside": ("held-at-end",),
    "rcu-too-long": ("race", "use-after-free"),
    "rcu-at-once": ("race", "use-after-free"),
    "work-forgotten": ("use-after-free",),
    "wait-event-deaf": ("asleep",),
    "completion-once": ("asleep",),
    "irqs-enabled-inside": ("irq-unsafe",),
    "allocation-inside": ("atomic-sleep",),
    "lock-not-held": ("not-held",),
    "data-race-other": ("race",),
    "data-race-freed": ("use-after-free",),
}
MEMORIES = ("sc", "tso", "pso", "weak")


@functools.cache
def program() -> Path:
    """The scenarios, with the checker and the shim."""
    return build.ensure(build.Sources((), (PRIMITIVES,), False, ROOT))


def result(scenario: str, memory: str) -> dict[str, Any]:
    """The last line of exploring a scenario completely."""
    done = subprocess.run(
        [program(), scenario, "--memory", memory],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("scenario", RIGHT)
def test_primitive_keeps_its_promise(scenario: str, memory: str) -> None:
    """Every interleaving was played, and none breaks the promise."""
    found = result(scenario, memory)
    assert found["finding"] is None
    assert found["complete"]


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("scenario", WRONG)
def test_wrong_use_is_found(scenario: str, memory: str) -> None:
    """Some interleaving shows what is wrong, by its name."""
    found = result(scenario, memory)
    assert found["finding"] is not None
    assert found["finding"]["kind"] in WRONG[scenario]


def test_missing_barrier_needs_buffered_stores() -> None:
    """A look for sleepers before the store is visible is found with store buffers only."""
    assert result("wait-event-no-barrier", "sc")["finding"] is None
    assert result("wait-event-no-barrier", "tso")["finding"]["kind"] == "asleep"


@pytest.mark.parametrize("header", sorted(SHIM.rglob("*.h")), ids=lambda path: path.name)
def test_header_stands_alone(header: Path) -> None:
    """A header compiles whatever stands before it, as the kernel's own do."""
    include = [f"-I{path}" for path in (SHIM, build.ENGINE)]
    done = subprocess.run(
        ["gcc", "-std=gnu11", "-Wall", "-fsyntax-only", *include, "-xc", "-"],
        input=f"#include <{header.relative_to(SHIM)}>\n",
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
