# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The examples of ``kfabric prove``: every bug is found, and every fix is proved."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from kfabric.prove import build, run
from kfabric.prove.build import Sources
from kfabric.prove.output import Result
from kfabric.prove.run import Job, Runner
from kfabric.vm.prepare import SOURCE

EXAMPLES = SOURCE / "examples/prove"
MEMORIES = ("sc", "tso", "pso")
SECONDS = 60.0
"""Ends an exploration that hangs; none of them needs more than a few seconds."""


class Bug(NamedTuple):
    """A folder with a bug.

    Args:
        folder: its name.
        kind: the kind of the finding.
        memories: the memory models that show it.
    """

    folder: str
    kind: str
    memories: tuple[str, ...] = MEMORIES


READY = "asleep-beside-ready"
BUGS = (
    Bug("rq_qos", "asleep"),
    Bug("rq_qos_stack", "dead-stack"),
    Bug("ring_buffer", "asleep"),
    Bug("aio", READY),
    Bug("pipe", READY),
    Bug("sbitmap", "asleep", ("tso", "pso")),
)
CORRECT = "mailbox"


class Breakage(NamedTuple):
    """A change of the mailbox that breaks it.

    Args:
        name: what is wrong then.
        old: a piece of its source.
        new: what replaces it.
        kind: the kind of the finding.
    """

    name: str
    old: str
    new: str
    kind: str


LOOK = "\t\tif (mailbox_try(box))\n\t\t\tbreak;\n"
STATE = "\t\tset_current_state(TASK_UNINTERRUPTIBLE);\n"
ARM = "\t\tmailbox_arm(box);\n"
SLEEP = "\t\tschedule();\n"
LOOP = "\tfor (;;) {\n"
BREAKAGES = (
    Breakage("no look between the queue and the sleep", LOOK + SLEEP, SLEEP + LOOK, READY),
    Breakage("state set after the look", STATE + ARM + LOOK, ARM + LOOK + STATE, READY),
    Breakage(
        "woken before the message is stored",
        "\tmailbox_store(box);\n\tmailbox_notify(box);\n",
        "\tmailbox_notify(box);\n\tmailbox_store(box);\n",
        READY,
    ),
    Breakage(
        "one look after the sleep instead of a loop",
        SLEEP,
        SLEEP + "\t\tmailbox_try(box);\n\t\tbreak;\n",
        "check",
    ),
    Breakage(
        "armed once instead of before every sleep",
        LOOP + STATE + ARM,
        ARM.removeprefix("\t") + LOOP + STATE,
        READY,
    ),
)


def explore(tested: Path, scenario: Path, memory: str) -> list[Result]:
    """Play every execution of every scenario of a file."""
    sources = Sources((tested,), (scenario,), kfabric=False, base=tested.parent)
    with Runner(build.ensure(sources)) as runner:
        jobs = [Job(known, memory=memory, seconds=SECONDS) for known in runner.scenarios()]
        return [seen.result for _, seen in run.every(runner, jobs)]


def changed(folder: Path, name: str, old: str, new: str, place: Path) -> Path:
    """Copy a folder, with one piece of one file replaced; that file."""
    shutil.copytree(folder, place, dirs_exist_ok=True)
    source = (folder / name).read_text()
    assert source.count(old) == 1
    (place / name).write_text(source.replace(old, new))
    return place / name


def kinds(results: list[Result]) -> set[str]:
    return {result.finding.kind for result in results if result.finding}


@pytest.mark.parametrize(
    ("bug", "memory"), [(bug, memory) for bug in BUGS for memory in bug.memories]
)
def test_bug_is_found(bug: Bug, memory: str) -> None:
    """Each buggy file has the finding that its README names, under each memory model."""
    folder = EXAMPLES / bug.folder
    assert kinds(explore(folder / "buggy.c", folder / "scenario.c", memory)) == {bug.kind}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("bug", BUGS)
def test_fix_is_proved(bug: Bug, memory: str) -> None:
    """Every execution of each fixed file was played, and none has a finding."""
    folder = EXAMPLES / bug.folder
    results = explore(folder / "fixed.c", folder / "scenario.c", memory)
    assert results
    assert not kinds(results)
    assert all(result.complete for result in results)


def test_missing_barrier_shows_only_with_store_buffers() -> None:
    """Under sequential consistency the missing barrier of sbitmap/buggy.c changes nothing."""
    folder = EXAMPLES / "sbitmap"
    (result,) = explore(folder / "buggy.c", folder / "scenario.c", "sc")
    assert result.complete
    assert result.finding is None


@pytest.mark.parametrize("memory", ["tso", "pso"])
def test_waker_without_a_barrier_is_found(memory: str, tmp_path: Path) -> None:
    """The barrier of tag_put() is as necessary as that of its waiter."""
    folder = EXAMPLES / "sbitmap"
    broken = changed(folder, "fixed.c", "\tsmp_mb();", "", tmp_path)
    assert kinds(explore(broken, tmp_path / "scenario.c", memory)) == {"asleep"}


@pytest.mark.parametrize("memory", MEMORIES)
def test_mailbox_is_proved(memory: str) -> None:
    """The example that the breakages start from is correct."""
    folder = EXAMPLES / CORRECT
    results = explore(folder / "mailbox.c", folder / "scenario.c", memory)
    assert [(result.complete, result.finding) for result in results] == [(True, None)] * 2


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda one: one.name)
def test_broken_mailbox_is_found(breakage: Breakage, tmp_path: Path) -> None:
    """Each classic mistake in a wait loop is found."""
    broken = changed(EXAMPLES / CORRECT, "mailbox.c", breakage.old, breakage.new, tmp_path)
    assert kinds(explore(broken, tmp_path / "scenario.c", "sc")) == {breakage.kind}


def test_every_folder_is_tested() -> None:
    """A new folder is not forgotten here, nor in the README."""
    folders = {path.parent.name for path in EXAMPLES.glob("*/scenario.c")}
    assert folders == {bug.folder for bug in BUGS} | {CORRECT}
    readme = (EXAMPLES / "README.md").read_text()
    assert not [folder for folder in folders if f"`{folder}`" not in readme]
