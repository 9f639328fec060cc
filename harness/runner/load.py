# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""How busy the host was: a test that fails now and then may fail only on a busy host."""

from __future__ import annotations

import os
import re
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path

STAT = Path("/proc/stat")
PRESSURE = Path("/proc/pressure/cpu")
# In the first line of /proc/stat: user nice system idle iowait irq softirq steal. What follows
# is in user and nice already.
_FIELDS = 8
_IDLE = slice(3, 5)
_STEAL = 7


@dataclass(frozen=True)
class Sample:
    """The host at one moment. All but the average only grow."""

    average: float
    """Processes that ran or wanted to, over the last minute."""
    ticks: tuple[int, ...]
    """Of all CPUs, by what they were used for."""
    own: float
    """CPU seconds of our processes that have ended."""
    stalled: float | None
    """Seconds in which a process waited for a CPU; None if the kernel does not count them."""
    seconds: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Load:
    """The host between two moments; what the kernel does not count is None."""

    before: float
    after: float
    busy: float
    """Share of the CPUs' time that was used."""
    others: float
    """Share of the CPUs' time that processes other than ours used."""
    steal: float
    """Share of the CPUs' time that another virtual machine on the same hardware used."""
    pressure: float | None
    """Share of the time in which a process waited for a CPU."""

    def cells(self) -> dict[str, str]:
        """By column."""
        return {
            "load": f"{self.before:.1f} to {self.after:.1f}",
            "busy": f"{self.busy:.0%}",
            "others": f"{self.others:.0%}",
            "stolen": f"{self.steal:.0%}",
            "waiting": "" if self.pressure is None else f"{self.pressure:.0%}",
        }


def sample() -> Sample:
    line = STAT.read_text().partition("\n")[0]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Sample(
        os.getloadavg()[0],
        tuple(map(int, line.split()[1 : 1 + _FIELDS])),
        used.ru_utime + used.ru_stime,
        _stalled(),
    )


def _stalled() -> float | None:
    try:
        found = re.search(r"^some .*total=(\d+)", PRESSURE.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) / 1e6 if found else None


def between(first: Sample, last: Sample) -> Load:
    ticks = [after - before for before, after in zip(first.ticks, last.ticks, strict=True)]
    everything = max(sum(ticks), 1)
    busy = (everything - sum(ticks[_IDLE]) - ticks[_STEAL]) / everything
    own = (last.own - first.own) * os.sysconf("SC_CLK_TCK") / everything
    pressure = None
    if first.stalled is not None and last.stalled is not None:
        pressure = min((last.stalled - first.stalled) / max(last.seconds - first.seconds, 1e-3), 1)
    return Load(
        first.average,
        last.average,
        busy,
        max(busy - own, 0.0),
        ticks[_STEAL] / everything,
        pressure,
    )
