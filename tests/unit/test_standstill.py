# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The line that names the tests which run, if none has ended for a while."""

from __future__ import annotations

import pytest

from kfabric.runner.standstill import Standstill


class Scene:
    """Guests, a clock, and the lines that were printed."""

    def __init__(self) -> None:
        self.now = 100.0
        self.running: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.standstill = Standstill(lambda: self.running, self.lines.append, lambda: self.now)

    def begin(self, guest: str, test: str) -> None:
        """A guest begins a test."""
        self.running.append((guest, test))
        self.standstill.begin(test)

    def look(self, now: float) -> list[str]:
        """The lines that a look at this time prints."""
        self.now = now
        self.lines.clear()
        self.standstill.look()
        return list(self.lines)


@pytest.fixture
def scene() -> Scene:
    """A run in which no test has begun."""
    return Scene()


def test_test_that_does_not_end_is_named_with_its_guest(scene: Scene) -> None:
    """All of them in one line, each with its own time."""
    scene.begin("guest0.0", "test_a.py::test_a")
    scene.now = 103.0
    scene.begin("guest1.0", "test_a.py::test_b")
    assert scene.look(122.0) == []
    assert scene.look(123.0) == [
        "guest0.0: test_a.py::test_a has run for 23 s; guest1.0: test_a.py::test_b has run for 20 s"
    ]


def test_lines_become_rarer(scene: Scene) -> None:
    """The log of a test of some hours has few of them."""
    scene.begin("guest0.0", "a")
    printed = [after for after in range(0, 1000, 2) if scene.look(100.0 + after)]
    assert printed == [20, 40, 80, 160, 320, 640]


def test_test_that_ends_begins_the_silence_anew(scene: Scene) -> None:
    """So there is no line in a run that goes on, however long one of its tests takes."""
    scene.begin("guest0.0", "long")
    for now in range(100, 200, 15):
        assert scene.look(now) == []
        scene.standstill.end()
    assert scene.look(211.0) == ["guest0.0: long has run for 111 s"]
    scene.standstill.end()
    assert scene.look(230.0) == []
    assert scene.look(231.0) == ["guest0.0: long has run for 131 s"]


def test_guest_that_has_not_begun_its_test_is_not_named(scene: Scene) -> None:
    """It still boots or collects; the first line comes as soon as a test has run for long."""
    scene.running.append(("guest0.0", "a"))
    assert scene.look(190.0) == []
    scene.standstill.begin("a")
    assert scene.look(209.0) == []
    assert scene.look(210.0) == ["guest0.0: a has run for 20 s"]
