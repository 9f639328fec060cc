# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The fixture ``wakeups`` on the queues of any module: the gallery's bugs, and their repairs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from guest_support import DEBUGFS, NEEDS_TRACER

from kfabric.guest import modules
from kfabric.guest.modules import Modules
from kfabric.guest.wakeups import Block
from kfabric.verdict.kinds import Kind

# The first block waits for the tracer's compiler.
pytestmark = [pytest.mark.timeout(300), *NEEDS_TRACER]

Wakeups = Callable[..., Block]
GALLERY = {"module": "gallery", "event": "gallery_publish", "take": "gallery_take"}


def load() -> None:
    """Load the gallery. Its waiters sleep so long that a slow guest's waker finds them asleep.

    Longer than the limit of a step: a machine that stands still for so long is told as stuck.
    """
    modules.insert(Modules.from_environment().file("gallery"), "patience_ms=5000")


@pytest.fixture
def gallery() -> Iterator[Callable[[str], str]]:
    """Plays an entry of the gallery, whose steps must come in order: ``gallery("buggy/herd")``."""
    if not (DEBUGFS / "tracing").exists():
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=True, timeout=10)
    load()

    def play(name: str) -> str:
        facts = (DEBUGFS / "gallery" / name).read_text(encoding="ascii")
        assert "stuck" not in facts.split("\n"), f"a step of {name} came too late:\n{facts}"
        return facts

    yield play
    modules.remove("gallery")


def failure(check: Callable[[], object]) -> str:
    """The text of the AssertionError that a check raises."""
    with pytest.raises(AssertionError) as caught:
        check()
    return str(caught.value)


def test_lost_wake_up_of_a_module_fails_with_its_story(
    wakeups: Wakeups, gallery: Callable[[str], str]
) -> None:
    """Who slept where, who published, what became of the wake-up; both stacks; a trace."""
    with wakeups(**GALLERY) as rec:
        gallery("buggy/baton-signal")
    text = failure(rec.no_lost)
    assert text.startswith("WAKE NOT HANDED ON: wait 1 of thread waiter-2/")
    assert "on signal_queue [gallery]" in text
    assert "slept in:" in text and "signal_waiter" in text
    directory = Path(text.rpartition("trace: ")[2])
    left = {path.name for path in directory.iterdir()}
    assert left >= {"recording.json", "recording.bin", "timeline.json", "story.txt"}


@pytest.mark.parametrize("entry", ["baton-signal", "wake-before-publish", "herd"])
def test_repaired_module_is_verified(
    wakeups: Wakeups, gallery: Callable[[str], str], entry: str
) -> None:
    """The same interleavings, with the bugs repaired."""
    with wakeups(**GALLERY) as rec:
        gallery(f"fixed/{entry}")
    rec.verified()
    assert rec.verdict.matched >= 1


def test_block_knows_nothing_of_the_one_before(
    wakeups: Wakeups, gallery: Callable[[str], str]
) -> None:
    """An item that the bug left behind is not counted in the next block."""
    with wakeups(**GALLERY) as first:
        gallery("buggy/wake-before-publish")
    with wakeups(**GALLERY) as second:
        gallery("fixed/wake-before-publish")
    assert [finding.kind for finding in first.verdict.findings] == [Kind.LOST]
    second.verified()


def test_module_that_is_loaded_again_is_watched_again(
    wakeups: Wakeups, gallery: Callable[[str], str]
) -> None:
    """Its functions have other addresses then; the queue has its name after the module is gone."""
    modules.remove("gallery")
    with wakeups(**GALLERY) as rec:
        load()
        gallery("buggy/wake-before-publish")
        modules.remove("gallery")
    load()
    (finding,) = rec.verdict.findings
    assert finding.kind is Kind.LOST and "[gallery]" in finding.text


def test_block_without_a_marked_call_is_not_verified(
    wakeups: Wakeups, gallery: Callable[[str], str]
) -> None:
    """Nothing says what its waits waited for."""
    with wakeups(**(GALLERY | {"event": "gallery_spurious_init", "take": "gallery_nosuch"})) as rec:
        gallery("fixed/baton-signal")
    assert "no function gallery_nosuch is loaded" in failure(rec.verified)
