# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What host and guest of the demo say to each other, and its command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import demo
from harness.demo import host, ulp
from harness.demo.job import ACCOUNT, Account, Fault, Part, Player

RESULT = """state=passed
listener pid=812 error=0 waits=1000 messages=997 counter=997 ns=7
connector pid=813 error=0 waits=998 messages=997 counter=997 ns=8
"""


def test_account_survives_the_way_to_the_host(tmp_path: Path) -> None:
    """What the guest writes is what the host reads."""
    told = Account(
        (Part("from Python", (Player("ping", 1, 997, "no"),)), Part("x", ())),
        {20: "ping's set"},
        {"memory_used_mib": 300},
    )
    told.write(tmp_path)
    assert Account.read(tmp_path) == told


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"parts": [{}], "names": {}, "facts": {}}'])
def test_damaged_account_is_refused(text: str, tmp_path: Path) -> None:
    """Never half an account."""
    (tmp_path / ACCOUNT).write_text(text)
    with pytest.raises(ValueError):
        Account.read(tmp_path)


def test_result_of_the_kernel_threads_is_read() -> None:
    """The example's file names both threads."""
    part = ulp.parse(RESULT, 997)
    assert part.players == (
        Player("listener", 812, 997, ns=7),
        Player("connector", 813, 997, ns=8),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            RESULT.replace("error=0 waits=998 messages=997", "error=-110 waits=9 messages=8"),
            "error -110 after 8 of 997 messages",
        ),
        ("state=playing\n", "no result: state=playing"),
    ],
)
def test_failed_kernel_threads_complain(text: str, complaint: str) -> None:
    """A thread with an error, or none at all, is not content."""
    assert complaint in [player.error for player in ulp.parse(text, 997).players]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], (None, 997, None)),
        (["--fault", "lost"], (Fault.LOST, 997, None)),
        (["--messages", "11", "--output", "/x"], (None, 11, Path("/x"))),
    ],
)
def test_command_line(
    argv: list[str], expected: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options reach the run."""
    seen: list[tuple[object, ...]] = []

    def run(*args: object) -> int:
        seen.append(args)
        return 3

    monkeypatch.setattr(host, "run", run)
    assert demo.main(argv) == 3
    assert seen == [expected]


@pytest.mark.parametrize("argv", [["--fault", "none"], ["--messages", "1"], ["--messages", "x"]])
def test_bad_command_line_is_refused(argv: list[str]) -> None:
    """Before anything is built or booted."""
    with pytest.raises(SystemExit) as caught:
        demo.main(argv)
    assert caught.value.code == 2
