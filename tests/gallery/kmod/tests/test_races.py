# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The gallery's races, unstepped: what a search with held CPUs is played on."""

import re
from pathlib import Path

import pytest

from kfabric.gallery.entries import RACES

GALLERY = Path("/sys/kernel/debug/gallery")


def missed(variant: str, name: str) -> int:
    """Play it; the rounds in which a thread slept beside an item when the waker had ended."""
    told = (GALLERY / f"unstepped-{variant}" / name).read_text()
    found = re.fullmatch(r"rounds [1-9]\d* missed (\d+)\n", told)
    assert found, told
    return int(found[1])


@pytest.mark.parametrize("name", RACES)
def test_race(name: str) -> None:
    """W1: it has one, so that a search finds it."""
    assert missed("buggy", name) == 0


@pytest.mark.parametrize("name", RACES)
def test_repaired(name: str) -> None:
    """W1: no sleeper misses its wake-up, wherever CPUs are held."""
    assert missed("fixed", name) == 0
