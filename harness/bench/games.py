# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Times of games that were played many times: what they say, and whether they would say it again.

A game may have several modes: it depends on which CPUs the threads and the softirq run. The
games of one kind are therefore also compared with each other, every second one with the others
(A/A). A ratio of times says nothing if equal games differ by more than the limit.
"""

from collections.abc import Sequence
from itertools import chain

LIMIT = 1.03
"""The largest A/A ratio with which a ratio of times is believed."""
_BINS = 8
_BARS = " ▁▂▃▄▅▆▇█"


def lowest(values: Sequence[float]) -> float:
    """The lowest decile: other work on the host makes some times longer, none shorter."""
    return sorted(values)[len(values) // 10]


def again(values: Sequence[float]) -> float:
    """The figure of every second game by that of the others; 1 or more.

    Args:
        values: at least two.
    """
    halves = lowest(values[::2]), lowest(values[1::2])
    return max(halves) / min(halves)


def modes(*kinds: Sequence[float]) -> list[str]:
    """A histogram of each kind's times, as a word of bars on the same scale.

    The scale goes from the shortest time to twice that; longer ones are in the last bar.
    """
    first = min(chain(*kinds))
    return [_histogram([value / first for value in values]) for values in kinds]


def _histogram(values: Sequence[float]) -> str:
    counts = [0] * _BINS
    for value in values:
        counts[min(int((value - 1) * _BINS), _BINS - 1)] += 1
    most = max(counts)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] for count in counts)
