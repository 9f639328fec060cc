# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In a guest that is recorded: leaves what a debugger of the replay needs, addresses and times."""

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from kfabric import names

SECTIONS = Path("/sys/module")


def leave(module: str) -> None:
    """Write the kernel's symbols, and where the sections of a module are that was just loaded."""
    if names.RECORDED not in os.environ:
        return
    out = Path(os.environ[names.OUT])
    shutil.copyfile("/proc/kallsyms", out / names.KALLSYMS)
    file = out / names.SECTIONS
    known = json.loads(file.read_text()) if file.exists() else {}
    known[module] = {
        path.name: int(path.read_text(), 16) for path in (SECTIONS / module / "sections").iterdir()
    }
    file.write_text(json.dumps(known))
    # A kernel that panics writes nothing more to the disk.
    os.sync()


def tell(directory: Path, events: Iterable[tuple[int, str, str]]) -> None:
    """Write the times of events, and the kernel's symbols again: those of its probes, too.

    Args:
        directory: gets the file.
        events: when (ns of CLOCK_MONOTONIC), how long after the first one, and what.
    """
    if names.RECORDED in os.environ:
        (directory / names.EVENTS).write_text(json.dumps(list(events)))
        shutil.copyfile("/proc/kallsyms", Path(os.environ[names.OUT]) / names.KALLSYMS)
