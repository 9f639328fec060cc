# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric test --record` and `kfabric replay`, on a module that wakes its reader too early."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from kfabric.replay.execution import ABOUT
from kfabric.replay.qemu import CONSOLE, OUTPUT
from kfabric.root import ROOT
from tests.vm.commands import kfabric

EXAMPLE = ROOT / "examples/replay/early_bell"
SECONDS = 1500.0
TEST = "test_guest_never_sleeps_before_an_open_door"


def record(place: Path, *options: str) -> Path:
    """The execution of the example's test, which fails on one CPU."""
    module = place / "early_bell"
    shutil.copytree(EXAMPLE, module)
    output = place / "output"
    words = ("--vms", "1", "--cpus", "1", "--append", "preempt=full", "--record", *options)
    done = kfabric(
        *("test", *words, "--output", str(output), "--module", str(module)), seconds=SECONDS
    )
    assert done.returncode == ExitStatus.TEST_FAILED
    (found,) = (output / "executions").iterdir()
    assert f"kfabric replay {found}" in done.stderr
    return found


@pytest.fixture(scope="module")
def execution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It, without the verdict."""
    return record(tmp_path_factory.mktemp("their"))


CRASH = """\
// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
#include <linux/module.h>
#include <linux/wait.h>

static DECLARE_WAIT_QUEUE_HEAD(nobody);
static bool never;

static noinline void bell_crash(void)
{
	BUG();
}

static noinline void bell_hang(void)
{
	wait_event(nobody, READ_ONCE(never));
}

static int bell_play(const char *text, const struct kernel_param *kp)
{
	if (*text == 'c')
		bell_crash();
	else
		bell_hang();
	return 0;
}

static const struct kernel_param_ops bell_play_ops = { .set = bell_play };
module_param_cb(play, &bell_play_ops, NULL, 0200);
MODULE_LICENSE("Dual BSD/GPL");
"""
CRASHES = """\
def test_bell() -> None:
    with open("/sys/module/early_bell/parameters/play", "w") as play:
        play.write("{}")
"""


@pytest.mark.stress
@pytest.mark.parametrize(("how", "function"), [("crash", "bell_crash"), ("hang", "bell_hang")])
def test_guest_that_does_not_come_to_its_end_is_replayed(
    tmp_path: Path, how: str, function: str
) -> None:
    """W1: it panics at once, or because of a hung task; the replay goes back to the cause."""
    module = tmp_path / "early_bell"
    shutil.copytree(EXAMPLE, module)
    (module / "early_bell.c").write_text(CRASH)
    (module / "tests/test_bell.py").write_text(CRASHES.format(how))
    output = tmp_path / "output"
    words = ("--vms", "1", "--cpus", "1", "--record", "--output", str(output))
    done = kfabric("test", *words, "--module", str(module), seconds=SECONDS)
    assert done.returncode == ExitStatus.TEST_FAILED
    (kept,) = (output / "executions").iterdir()
    assert json.loads((kept / ABOUT).read_text())["status"] is None
    done = kfabric("replay", str(kept), "--back-to", f"last call of {function}", seconds=SECONDS)
    assert done.returncode == ExitStatus.OK
    first, second, *_ = done.stdout.splitlines()
    assert f"{function} ()" in first and "bell_play (" in second


@pytest.mark.stress
@pytest.mark.parametrize(
    ("event", "function"),
    [("begins wait", "prepare_to_wait"), ("enters the marked function", "bell_open")],
)
def test_replay_goes_back_to_the_events_of_the_story(
    tmp_path: Path, event: str, function: str
) -> None:
    """W1: a line of the verdict's story leads to what the thread did then."""
    kept = record(tmp_path, "--verify-wakeups")
    (story,) = kept.glob("out/wakeups/*/story.txt")
    found = re.search(rf"(\d+\.\d{{3}} ms)  .* {event}", story.read_text())
    assert found
    words = ("replay", str(kept), "--back-to", f"at {found[1]}")
    done = kfabric(*words, seconds=SECONDS)
    assert done.returncode == ExitStatus.OK
    assert f" in {function} ()" in done.stdout.splitlines()[1]


def test_test_that_fails_again_is_kept(execution: Path) -> None:
    """W1: with its status and its output, and in less than 50 MiB."""
    about = json.loads((execution / ABOUT).read_text())
    assert about["status"] == 1 and about["what"].endswith(f"::{TEST}")
    assert "assert '5\\n' == '0\\n'" in (execution / OUTPUT).read_text()
    size = sum(path.stat().st_size for path in execution.rglob("*") if path.is_file())
    assert size < 50 << 20


def test_replay_is_the_same_to_the_byte(execution: Path) -> None:
    """What the test printed, and what the kernel logged, with its times."""
    done = kfabric("replay", str(execution), seconds=SECONDS)
    assert done.returncode == ExitStatus.OK
    assert done.stdout == (execution / OUTPUT).read_text()


def test_replay_that_is_not_the_same_says_so(execution: Path, tmp_path: Path) -> None:
    """One character of the kernel's log is another one."""
    other = tmp_path / "other"
    shutil.copytree(execution, other)
    text = (other / CONSOLE).read_text()
    (other / CONSOLE).write_text(text.replace("early_bell", "early-bell", 1))
    done = kfabric("replay", str(other), seconds=SECONDS)
    assert done.returncode == ExitStatus.NOT_VERIFIED
    assert f"not the same: {CONSOLE}" in done.stderr


def test_replay_goes_back_to_the_last_call(execution: Path) -> None:
    """The last ring before the test fails, and who called it."""
    words = ("replay", str(execution), "--back-to", "last call of bell_ring")
    done = kfabric(*words, seconds=SECONDS)
    assert done.returncode == ExitStatus.OK
    first, *callers = done.stdout.splitlines()
    assert "bell_ring ()" in first and "early_bell.c:" in first
    assert "bell_porter" in callers[0] and "kthread ()" in callers[1]
    assert "bell_ring was called 5 times" in done.stderr


def test_replay_goes_back_to_the_last_of_many_calls(execution: Path) -> None:
    """QEMU stops the guest some calls before, and gdb passes the rest."""
    words = ("replay", str(execution), "--back-to", "last call of schedule_timeout")
    done = kfabric(*words, seconds=SECONDS)
    assert done.returncode == ExitStatus.OK
    assert "schedule_timeout ()" in done.stdout.splitlines()[0]
    told = re.search(r"schedule_timeout was called (\d+) times", done.stderr)
    assert told and int(told[1]) > 100
