# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The bell that rings too early, which is seen on one CPU."""

from pathlib import Path

BELL = Path("/sys/module/early_bell/parameters")
GUESTS = 5


def test_guest_never_sleeps_before_an_open_door() -> None:
    """Each ring of the bell lets a guest in."""
    (BELL / "play").write_text(f"{GUESTS}\n")
    assert (BELL / "slept_too_long").read_text() == "0\n"
