# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The demo: what host and guest exchange, and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric import demo
from kfabric.demo import host, ulp
from kfabric.demo.job import REPORT, Fault, GuestReport, Peer, Scenario

RESULT = """state=passed
listener pid=812 error=0 waits=1000 messages=997 counter=997 ns=7
connector pid=813 error=0 waits=998 messages=997 counter=997 ns=8
"""


def test_report_survives_the_way_to_the_host(tmp_path: Path) -> None:
    """What the guest writes is what the host reads."""
    report = GuestReport(
        (Scenario("from Python", (Peer("ping", 1, 997, "no"),)), Scenario("x", ())),
        {20: "ping's set"},
        {"memory_used_mib": 300},
    )
    report.write(tmp_path)
    assert GuestReport.read(tmp_path) == report


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"scenarios": [{}], "names": {}, "facts": {}}'])
def test_damaged_report_is_refused(text: str, tmp_path: Path) -> None:
    """A report is read whole or not at all."""
    (tmp_path / REPORT).write_text(text)
    with pytest.raises(ValueError):
        GuestReport.read(tmp_path)


def test_result_of_the_kernel_threads_is_read() -> None:
    """The example's file names both threads."""
    scenario = ulp.parse(RESULT, 997)
    assert scenario.peers == (
        Peer("listener", 812, 997, ns=7),
        Peer("connector", 813, 997, ns=8),
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
    assert complaint in [peer.error for peer in ulp.parse(text, 997).peers]


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
