# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Ways to wait that kfabric itself does not use are right in the shim of ``kfabric prove``."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric.prove import build, run
from kfabric.prove.build import Sources
from kfabric.prove.output import Result
from kfabric.prove.run import Job, Runner

SECONDS = 60.0
"""Ends an exploration that hangs; none of them needs more than a few seconds."""

BIT = """\
#include <linux/wait_bit.h>

unsigned long word = 1;

void release(void)
{
	clear_and_wake_up_bit(0, &word);
}

void take(void)
{
	wait_on_bit_lock(&word, 0, TASK_UNINTERRUPTIBLE);
	release();
}
"""

LOOK = BIT.replace("_lock(&word", "(&word").replace("\trelease();\n", "")

LOCKED = """\
#include <linux/wait.h>

static DEFINE_SPINLOCK(lock);
static DECLARE_WAIT_QUEUE_HEAD(queue);
static unsigned int there;

void release(void)
{
	spin_lock_irq(&lock);
	there++;
	spin_unlock_irq(&lock);
	wake_up_interruptible_sync(&queue);
	wake_up(&queue);
}

void take(void)
{
	spin_lock_irq(&lock);
	wait_event_lock_irq(queue, there, lock);
	spin_unlock_irq(&lock);
}
"""

SCENARIO = """\
#include <prove.h>

void release(void);
void take(void);

PROVE_SCENARIO(waits, .says = "two threads wait, a third one ends it",
	.threads = { { "first", take }, { "second", take }, { "owner", release } });
"""

WAITS = {
    "wait_on_bit_lock": (BIT, "clear_and_wake_up_bit(0", "clear_bit_unlock(0"),
    "wait_on_bit": (LOOK, "clear_and_wake_up_bit(0", "clear_bit_unlock(0"),
    "wait_event_lock_irq": (LOCKED, "\twake_up(&queue);\n", ""),
}
"""Code that is right, and the change without which nobody is woken."""

each_wait = pytest.mark.parametrize("name", WAITS)


def explore(source: str, memory: str, place: Path) -> Result:
    """Play every execution in which two threads wait."""
    tested, scenario = place / "tested.c", place / "scenario.c"
    tested.write_text(source)
    scenario.write_text(SCENARIO)
    with Runner(build.ensure(Sources((tested,), (scenario,), kfabric=False, base=place))) as runner:
        (known,) = runner.scenarios()
        ((_, seen),) = run.every(runner, [Job(known, memory=memory, seconds=SECONDS)])
    return seen.result


@pytest.mark.parametrize("memory", ["sc", "tso", "pso"])
@each_wait
def test_right_use_is_proved(name: str, memory: str, tmp_path: Path) -> None:
    """No execution has a finding."""
    result = explore(WAITS[name][0], memory, tmp_path)
    assert (result.complete, result.finding) == (True, None)


@each_wait
def test_missing_wake_up_is_found(name: str, tmp_path: Path) -> None:
    """A thread sleeps for ever if nobody wakes it."""
    source, wake, nothing = WAITS[name]
    assert source.count(wake) == 1
    result = explore(source.replace(wake, nothing), "sc", tmp_path)
    assert result.finding
    assert result.finding.kind == "asleep"
