# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric test --module --verify-wakeups` with a module that sleeps on a queue of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_blocks import shown

from kfabric.errors import ExitStatus
from tests.vm.commands import Done, complaints, kfabric

RUN_SECONDS = 400.0
SOURCE = r"""
// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/wait.h>

static DECLARE_WAIT_QUEUE_HEAD(belt_wq);
static atomic_t belt_items;
static uint belt_taken;
static bool belt_forget;
static struct task_struct *belt_consumer;

void belt_publish(void);
void belt_take(void);

noinline void belt_publish(void)
{
	atomic_inc(&belt_items);
}

noinline void belt_take(void)
{
	if (atomic_dec_if_positive(&belt_items) >= 0)
		WRITE_ONCE(belt_taken, belt_taken + 1);
}

static int belt_put(const char *text, const struct kernel_param *kp)
{
	belt_publish();
	if (!belt_forget)
		wake_up(&belt_wq);
	return 0;
}

static const struct kernel_param_ops belt_put_ops = { .set = belt_put };
module_param_cb(put, &belt_put_ops, NULL, 0200);
module_param_named(taken, belt_taken, uint, 0400);
module_param_named(forget, belt_forget, bool, 0600);

static bool belt_ready(void)
{
	return atomic_read(&belt_items) || kthread_should_stop();
}

/* A lost wake-up is late by a second; nothing hangs. */
static int belt_run(void *arg)
{
	while (!kthread_should_stop()) {
		wait_event_interruptible_timeout(belt_wq, belt_ready(), HZ);
		while (atomic_read(&belt_items))
			belt_take();
	}
	return 0;
}

static int __init belt_init(void)
{
	belt_consumer = kthread_run(belt_run, NULL, "belt-consumer");
	return PTR_ERR_OR_ZERO(belt_consumer);
}

/* It may leave no item: a call that takes comes before the next load. */
static void __exit belt_exit(void)
{
	kthread_stop(belt_consumer);
	belt_take();
}

module_init(belt_init);
module_exit(belt_exit);
MODULE_LICENSE("Dual BSD/GPL");
"""
TESTS = '''
from pathlib import Path

import pytest

from kfabric.guest.waiting import wait_until

BELT = Path("/sys/module/belt/parameters")


def put():
    """One item arrives, sooner or later."""
    taken = int((BELT / "taken").read_text())
    (BELT / "put").write_text("1")
    wait_until(lambda: int((BELT / "taken").read_text()) == taken + 1, "the item", 10)


@pytest.fixture(autouse=True)
def loaded_again(module):
    """Its thread then goes to sleep before the eyes of the tracer."""
    module.unload()
    module.load()


def test_item_is_taken():
    for _ in range(31):
        put()


def test_item_is_taken_late():
    (BELT / "forget").write_text("1")
    put()


@pytest.mark.wrong_wakeups("lost", reason="the module forgets it")
def test_late_item_is_announced():
    (BELT / "forget").write_text("1")
    put()


@pytest.mark.wrong_wakeups("lost", reason="the module forgets it")
def test_bug_became_a_test(wakeups):
    (BELT / "forget").write_text("1")
    with wakeups(module="belt", event="belt_publish", take="belt_take") as rec:
        put()
    with pytest.raises(AssertionError, match="LOST: .* belt-consumer/.* on belt_wq .belt.") as lost:
        rec.no_lost()
    assert "no wake call followed the publication" in str(lost.value)
'''
# The name is hidden from what decides whether our modules are built.
BLOCK = """
from pathlib import Path

import pytest

from kfabric.guest.waiting import wait_until

BELT = Path("/sys/module/belt/parameters")


@pytest.mark.usefixtures("wake" + "ups")
def test_first_block_of_a_file(request, module):
    wakeups = request.getfixturevalue("wake" + "ups")
    with wakeups(module="belt", event="belt_publish", take="belt_take") as rec:
        module.load(forget=1)
        (BELT / "put").write_text("1")
        wait_until(lambda: int((BELT / "taken").read_text()) == 1, "the item", 10)
    with pytest.raises(AssertionError, match="LOST: .* belt-consumer/.* on belt_wq .belt."):
        rec.no_lost()
    assert not Path("/sys/module/kfabric").exists()
"""
WATCH = 'module = "belt"\nevent = "belt_publish"\ntake = "belt_take"\n'


def write(place: Path) -> Path:
    """The module's directory, without tests."""
    directory = place / "their/belt"
    (directory / "tests").mkdir(parents=True)
    (directory / "Kbuild").write_text("obj-m += belt.o\n")
    (directory / "belt.c").write_text(SOURCE.lstrip())
    return directory


def run(place: Path, watch: str) -> tuple[Done, dict[str, str]]:
    """Test the module with a file ``wakeups.toml``; the run, and its failures by test."""
    directory = write(place)
    (directory / "wakeups.toml").write_text(watch)
    (directory / "tests/test_belt.py").write_text(TESTS)
    document = shown("tests/vm/test_user_module_wakeups.py")
    (directory / "tests/test_shown.py").write_text(document.text)
    return play(place, "--verify-wakeups")


def play(place: Path, *options: str) -> tuple[Done, dict[str, str]]:
    """Run the tests of the module's directory."""
    report = place / "junit.xml"
    argv = ["test", "--vms=1", *options, f"--kfabric-dir={place}/guests"]
    argv += [f"--junitxml={report}", "--module=belt", "--", "belt/tests"]
    done = kfabric(*argv, seconds=RUN_SECONDS, cwd=place / "their")
    return done, complaints(report)


def test_lost_wake_up_on_its_own_queue_fails_the_test(tmp_path: Path) -> None:
    """Its assertions pass; the file wakeups.toml says what the queue's sleepers wait for."""
    done, cases = run(tmp_path, WATCH)
    assert done.returncode == ExitStatus.TEST_FAILED
    text = cases.pop("test_item_is_taken_late")
    assert "LOST: wait " in text and "belt-consumer/" in text
    assert "on belt_wq [belt]" in text and "no wake call followed the publication" in text
    assert "test_no_wake_up_is_lost" in cases  # that of the document
    assert set(cases.values()) == {""} and len(cases) == 4
    assert re.search(
        r"kfabric: \d\d of these waits were on the queues of wakeups\.toml", done.stdout
    )


def test_block_needs_none_of_ours_and_names_a_queue_that_came_during_it(tmp_path: Path) -> None:
    """Its module is loaded in the first block, after the tracer; its thread sleeps at once."""
    (write(tmp_path) / "tests/test_block.py").write_text(BLOCK)
    done, cases = play(tmp_path, "--module-unloaded")
    assert cases == {"test_first_block_of_a_file": ""}
    assert done.returncode == ExitStatus.OK


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('module = "belt"\n', "event is missing: a verdict needs module, event and take"),
        (f"{WATCH}late = 3\n", "unknown: late"),
        ('module = "belt', "wakeups.toml: "),
    ],
)
def test_wrong_file_is_reported_before_a_guest_boots(
    tmp_path: Path, text: str, reason: str
) -> None:
    """With its name."""
    done, cases = run(tmp_path, text)
    assert done.returncode == ExitStatus.USAGE
    assert "belt/wakeups.toml: " in done.stderr + done.stdout
    assert reason in done.stderr + done.stdout
    assert cases == {}
