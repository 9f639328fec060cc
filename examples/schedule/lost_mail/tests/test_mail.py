# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The box for one letter, which loses a wake-up now and then."""

from pathlib import Path

BOX = Path("/sys/module/lost_mail/parameters")
LETTERS = 300


def test_reader_never_sleeps_beside_a_letter() -> None:
    """Each letter wakes the reader."""
    (BOX / "play").write_text(f"{LETTERS}\n")
    assert (BOX / "slept_too_long").read_text() == "0\n"
