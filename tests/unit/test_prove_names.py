# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The names of variables and members in the counterexamples of ``kfabric prove``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kfabric.prove import build, debug_info, names, places, run
from kfabric.prove.build import Sources
from kfabric.prove.debug_info import DebugInfo
from kfabric.prove.output import Memory, Step
from kfabric.prove.places import Place
from kfabric.prove.run import Job, Runner

NEEDS_GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this host")

TESTED = """\
#include <linux/atomic.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

struct inner {
	int first;
	int second[3];
};

struct item {
	atomic_t count;
	struct inner inner;
};

struct box {
	spinlock_t lock;
	union {
		int number;
		int other;
	};
	struct inner inner;
};

static struct box box;
static struct item *items[2];
static int *raw, *theirs;
struct inner *shared;

void prepare(void)
{
	items[0] = kzalloc(sizeof(struct item), GFP_KERNEL);
	items[1] = kzalloc(sizeof(*items[1]), GFP_KERNEL);
	raw = kzalloc(12, GFP_KERNEL);
	shared = kzalloc(sizeof(*shared), GFP_KERNEL);
	spin_lock_init(&box.lock);
}

void release(void)
{
	kfree(items[0]);
	kfree(items[1]);
	kfree(raw);
	kfree(shared);
}

void owner(void)
{
	struct item *item = kzalloc(sizeof(*item), GFP_KERNEL);
	struct inner mine = { 0 };

	spin_lock(&box.lock);
	WRITE_ONCE(box.inner.second[1], 1);
	WRITE_ONCE(box.number, 1);
	spin_unlock(&box.lock);
	atomic_inc(&items[0]->count);
	WRITE_ONCE(item->inner.second[0], 1);
	WRITE_ONCE(raw[1], 1);
	WRITE_ONCE(shared->second[2], 1);
	smp_store_release(&theirs, &mine.second[2]);
	WRITE_ONCE(mine.first, 1);
	WRITE_ONCE(theirs, NULL);
	kfree(item);
}

int other(void)
{
	int *p = smp_load_acquire(&theirs);

	if (p)
		WRITE_ONCE(*p, 2);
	return p != NULL;
}
"""

SCENARIO = """\
#include <prove.h>

void prepare(void);
void release(void);
void owner(void);
int other(void);

static void look(void)
{
	prove_check(!other(), "nothing is there");
}

PROVE_SCENARIO(named, .says = "two threads store", .setup = prepare,
	.finish = release, .threads = { { "owner", owner }, { "other", look } });
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The names that the program prints, and the better ones."""
    place = tmp_path_factory.mktemp("names")
    tested, scenario = place / "tested.c", place / "scenario.c"
    tested.write_text(TESTED)
    scenario.write_text(SCENARIO)
    program = build.ensure(Sources((tested,), (scenario,), kfabric=False, base=place))
    with Runner(program) as runner:
        (known,) = runner.scenarios()
        ((_, seen),) = run.every(runner, [Job(known)])
    assert seen.result.finding and seen.result.finding.kind == "check"
    addresses = [step.memory.place for step in seen.steps if step.memory]
    better = names.named(seen.steps, program, places.find(program, addresses))
    steps = zip(seen.steps, better, strict=True)
    return {f"{old.op} {new.object}": old.object for old, new in steps if old.object}


@NEEDS_GCC
@pytest.mark.parametrize(
    "step",
    [
        "lock box.lock",
        "unlock box.lock",
        "write box.inner.second[1]",
        "write theirs",
        "read theirs",
    ],
)
def test_global_variable_has_the_name_of_its_member(step: str, found: dict[str, str]) -> None:
    """Down to the lock, the atomic variable or the number."""
    assert step in found


@NEEDS_GCC
@pytest.mark.parametrize(
    "step", ["alloc item#1", "write item#1.inner.second[0]", "update item#2.count"]
)
def test_allocation_has_the_name_of_its_type(step: str, found: dict[str, str]) -> None:
    """With a number, as there are two of them."""
    assert step in found


@NEEDS_GCC
def test_allocation_for_a_global_pointer_has_the_name_of_its_type(found: dict[str, str]) -> None:
    """As those of tests/prove/support.c."""
    assert "write inner.second[2]" in found


@NEEDS_GCC
@pytest.mark.parametrize("step", ["write mine.first of owner", "write mine.second[2] of owner"])
def test_local_variable_has_its_name_and_that_of_its_thread(
    step: str, found: dict[str, str]
) -> None:
    """Whichever thread reaches it."""
    assert step in found


@NEEDS_GCC
def test_what_is_not_known_keeps_its_offset(found: dict[str, str]) -> None:
    """A member of a union may be another one; an allocation may have no type."""
    assert found["write box+8"] == "box+8"
    assert found["write setup#2+4"] == "setup#2+4"


def test_program_that_cannot_be_read_keeps_the_offsets(tmp_path: Path) -> None:
    """So does a step whose object has a name already."""
    steps = [Step("a", "read", "x+8", memory=Memory(0x1008)), Step("a", "sleep", "state of a")]
    assert names.named(steps, tmp_path / "none", {}) == steps


LINES = """\
 <0><c>: Abbrev Number: 1 (DW_TAG_compile_unit)
    <d>   DW_AT_name        : (line_strp) (offset: 0): x.c
 <1><10>: Abbrev Number: 2 (DW_TAG_base_type)
    <11>   DW_AT_byte_size   : (data1) 4
 <1><20>: Abbrev Number: 3 (DW_TAG_subprogram)
    <21>   DW_AT_name        : (indirect string, offset: 0x3): f
    <22>   DW_AT_low_pc      : 0x100
    <23>   DW_AT_high_pc     : 0x80
 <2><30>: Abbrev Number: 4 (DW_TAG_lexical_block)
    <31>   DW_AT_low_pc      : 0x100
    <32>   DW_AT_high_pc     : 0x40
 <3><40>: Abbrev Number: 5 (DW_TAG_variable)
    <41>   DW_AT_name        : one
    <42>   DW_AT_type        : <0x10>
    <43>   DW_AT_location    : 2 byte block: 91 70 \t(DW_OP_fbreg: -16)
 <3><44>: Abbrev Number: 0
 <2><50>: Abbrev Number: 4 (DW_TAG_lexical_block)
    <51>   DW_AT_ranges      : 0x40
 <3><60>: Abbrev Number: 5 (DW_TAG_variable)
    <61>   DW_AT_name        : two
    <62>   DW_AT_type        : (ref4) <0x10>
    <63>   DW_AT_location    : 2 byte block: 91 70 \t(DW_OP_fbreg: -16)
"""


@pytest.mark.parametrize(("code", "local"), [(0x160, "two of a"), (0x120, "a-stack-16")])
def test_place_on_a_stack_that_two_variables_share_has_the_name_of_the_only_one_in_scope(
    code: int, local: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or keeps its offset, if a scope is in pieces and both may be meant."""
    info = DebugInfo(debug_info.parse(LINES.splitlines()))
    monkeypatch.setattr(names, "_read", lambda program: info)
    step = Step("b", "write", "a-stack-16", memory=Memory(0x7FF0, 0x8000, code))
    (named,) = names.named([step], Path(), {code: (Place("f", "/x.c", 3),)})
    assert named.object == local
