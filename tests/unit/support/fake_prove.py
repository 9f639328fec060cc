# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Stands for the compiled program of ``kfabric prove``: prints canned lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Between its parts: the scenario's name, a vertical bar, the mode and bound; "" for any.
_SCRIPT = """\
#!{python}
import json, sys, time
canned = json.load(open({canned!r}))
words = sys.argv[1:]
if words == ["--list"]:
    lines = canned["--list"]
else:
    options = dict(zip(words[1::2], words[2::2]))
    bound = options.get("--bound", options.get("--mode", ""))
    key = words[0] + (" past" if words[-1] == "--past-races" else "")
    lines = canned.get(key + " " + bound, canned.get(key))
for line in lines:
    if "sleep" in line:
        time.sleep(line["sleep"])
    elif "exit" in line:
        print(line["text"], file=sys.stderr)
        sys.exit(line["exit"])
    else:
        print(json.dumps(line), flush=True)
"""


def program(
    directory: Path, scenarios: Sequence[Mapping[str, Any]], answers: Mapping[str, Any]
) -> Path:
    """A program that prints canned lines.

    Args:
        directory: where it is written.
        scenarios: the lines of ``--list``.
        answers: the lines by scenario, or by scenario and mode (a number: the bound). The
            scenario and `` past``: those past data races.
    """
    canned = directory / "canned.json"
    canned.write_text(json.dumps({"--list": list(scenarios), **answers}))
    made = directory / "program"
    made.write_text(_SCRIPT.format(python=sys.executable, canned=str(canned)))
    made.chmod(0o755)
    return made


def scenario(name: str, **more: Any) -> dict[str, Any]:
    """A line of ``--list``: two threads, a reader and a publisher."""
    plain = {
        "says": "one reads, one publishes",
        "rules": "W2 V1",
        "tables": "1",
        "threads": ["reader", "publisher"],
        "bound": 0,
        "fails": 0,
        "file": "cq.c",
        "line": 7,
    }
    return {"name": name, **plain, **more}


def result(**more: Any) -> dict[str, Any]:
    """The last line of an exploration: complete, without a finding."""
    counts = {"executions": 13, "pruned": 2, "steps": 400, "depth": 40, "seconds": 0.01}
    return {"type": "result", **counts, "complete": True, "why_not": None, "finding": None, **more}


def finding(kind: str = "asleep", schedule: str = "0x3,1x2", **more: Any) -> dict[str, Any]:
    """The last line of an exploration that found something."""
    found = {"kind": kind, "text": "reader sleeps for ever", "thread": "reader"}
    return result(complete=False, finding={**found, "schedule": schedule}, **more)


def step(thread: str, op: str, name: str = "", value: str = "", place: int = 0) -> dict[str, Any]:
    """A step of a counterexample."""
    what = {"object": name, "value": value, "place": hex(place), "stack": []}
    return {"type": "step", "thread": thread, "op": op, **what}


def event(name: str, thread: str, execution: int = 0, **fields: int) -> dict[str, Any]:
    """A tracepoint's event."""
    return {
        "type": "record",
        "execution": execution,
        "name": name,
        "thread": thread,
        "fields": fields,
    }
