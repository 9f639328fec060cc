# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Replays an execution, and says whether the guest did the same."""

import filecmp
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kfabric.replay.execution import Execution
from kfabric.replay.qemu import CONSOLE, OUTPUT, Machine, Mode

COMPARED = (OUTPUT, CONSOLE)


@contextmanager
def replaying(execution: Execution) -> Iterator[tuple[Machine, Path]]:
    """A guest that will do the same again, and the directory that gets what it prints.

    Raises SetupError, UsageError.
    """
    with tempfile.TemporaryDirectory(prefix="kfabric-", dir=execution.directory) as scratch:
        place = Path(scratch)
        execution.unpack(place)
        with Machine(execution.about.hardware, place, Mode.REPLAY) as machine:
            yield machine, place


def replay(execution: Execution, seconds: float) -> list[str]:
    """Replay an execution to its end; the names of files that are not as they were recorded.

    Raises CommandTimeout, GuestLost, SetupError.
    """
    with replaying(execution) as (machine, place):
        machine.finish(time.monotonic() + seconds)
        recorded = execution.directory
        return [n for n in COMPARED if not filecmp.cmp(recorded / n, place / n, shallow=False)]
