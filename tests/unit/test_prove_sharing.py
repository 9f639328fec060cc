# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Which plain accesses are in the counterexamples of ``kfabric prove``."""

from __future__ import annotations

import shutil
from io import StringIO

import pytest
from rich.console import Console

from kfabric.prove import build, run, show
from kfabric.prove.build import Sources
from kfabric.prove.output import Memory, Step
from kfabric.prove.run import Job, Outcome, Runner
from kfabric.prove.sharing import communicating

NEEDS_GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this host")

TESTED = """\
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/string.h>

struct inner {
	int first;
	int second;
};

struct box {
	spinlock_t lock;
	int state;
	int alone;
	struct list_head list;
	struct inner inner;
	char name[24];
};

static struct box box = { .list = LIST_HEAD_INIT(box.list) };
static struct list_head entry;

void writer(void)
{
	spin_lock(&box.lock);
	box.alone = 5;
	box.state = 7;
	memset(box.name, 'a', sizeof(box.name));
	list_add(&entry, &box.list);
	spin_unlock(&box.lock);
	box.inner.second = 1;
}

int reader(void)
{
	int state;

	spin_lock(&box.lock);
	state = box.state + box.name[2];
	if (!list_empty(&box.list))
		list_del(&entry);
	spin_unlock(&box.lock);
	return state + READ_ONCE(box.inner.second);
}
"""

SCENARIO = """\
#include <prove.h>

void writer(void);
int reader(void);

static void look(void)
{
	prove_check(reader() >= 0, "a number");
}

PROVE_SCENARIO(racing, .says = "a race after a lock section",
	.threads = { { "writer", writer }, { "reader", look } });
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of the counterexample."""
    place = tmp_path_factory.mktemp("sharing")
    tested, scenario = place / "tested.c", place / "scenario.c"
    tested.write_text(TESTED)
    scenario.write_text(SCENARIO)
    program = build.ensure(Sources((tested,), (scenario,), kfabric=False, base=place))
    with Runner(program) as runner:
        (known,) = runner.scenarios()
        job = Job(known)
        seen = runner.explore(job)
        by, shown = run.fewest_switches(runner, job, seen)
    text = StringIO()
    outcome = Outcome(job, seen.result, 0, shown, by)
    console = Console(file=text, highlight=False, width=160)
    show.show(console, show.counterexample(outcome, program))
    return text.getvalue().splitlines()


@NEEDS_GCC
def test_plain_accesses_by_which_threads_communicate_are_shown(printed: list[str]) -> None:
    """With their values; not what one thread uses alone, nor what lists do inside."""
    text = " ".join(" ".join(printed).split())
    assert "plain write box.state = 7" in text and "plain read box.state = 7" in text
    assert "plain write box.name[0] (24 bytes)" in text and "plain read box.name[2] = 97" in text
    assert "box.alone" not in text and "prev" not in text


@NEEDS_GCC
def test_race_names_the_member_in_its_headline(printed: list[str]) -> None:
    """And no offset."""
    assert printed[0].startswith(
        "racing: RACE: marked read of box.inner.second by reader, "
        "unordered with the plain write by writer ("
    )


@NEEDS_GCC
def test_both_accesses_of_a_race_are_in_the_table(printed: list[str]) -> None:
    """The later one without a value, as it has not been done."""
    text = " ".join(" ".join(printed).split())
    assert "plain write box.inner.second = 1" in text
    assert text.endswith("unlocks box.lock 42 reads box.inner.second")


def access(thread: str, op: str, address: int, value: str = "1", place: int = 0) -> Step:
    """A plain access of four bytes."""
    return Step(thread, f"plain-{op}", value=value, place=place, memory=Memory(address), size=4)


def test_memory_of_one_thread_is_left_out() -> None:
    """So is what threads only read, unless it is at fault."""
    alone = [access("a", "write", 0x10), access("a", "read", 0x10)]
    read = [access("a", "read", 0x20), access("b", "read", 0x20, place=9)]
    shared = [access("a", "write", 0x30), access("b", "read", 0x32)]
    steps = [*alone, *read, *shared]
    assert communicating(steps, ()) == shared
    assert communicating(steps, (9,)) == [read[1], *shared]


def test_same_value_is_read_once() -> None:
    """Until it changes."""
    steps = [access("b", "write", 0x10, value) for value in "12"]
    reads = [access("a", "read", 0x10, value) for value in "112"]
    kept = communicating([steps[0], reads[0], reads[1], steps[1], reads[2]], ())
    assert kept == [steps[0], reads[0], steps[1], reads[2]]


def test_frames_at_one_place_of_a_stack_are_not_shared() -> None:
    """Another thread wrote to a frame that has returned."""
    lent = Step("b", "plain-write", memory=Memory(0x10, start=0x40), size=4)
    later = Step("a", "plain-write", memory=Memory(0x10, start=0x50), size=4)
    assert communicating([lent, later], ()) == []


def test_frame_is_shown_from_when_another_thread_comes_there() -> None:
    """Not how its owner fills it before."""
    frame = Memory(0x10, start=0x50)
    fill, use = (Step("a", "plain-write", "a-stack-64", v, memory=frame, size=4) for v in "12")
    visit = Step("b", "plain-read", "a-stack-64", "1", memory=frame, size=4)
    assert communicating([fill, visit, use], ()) == [visit, use]
