# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Kernel reports are found in console text, and other lines are not taken for one.

The files in tests/data/console were recorded from a stock Debian 6.1 guest and a
module that misbehaves on command; kinds that such a kernel cannot report are
tested on single lines.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric import splats

DATA = Path(__file__).parents[1] / "data/console"


def recorded(name: str) -> str:
    return (DATA / name).read_text()


def kinds(text: str) -> list[str]:
    return [splat.kind for splat in splats.splats(text)]


def test_a_boot_has_no_splats() -> None:
    assert splats.splats(recorded("boot.log")) == []


OUT_OF_MEMORY = """\
python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
Call Trace:
 <TASK>
 dump_header+0x4c/0x22b
 out_of_memory+0x1fd/0x4c0
 {why}
 __alloc_pages+0x207/0x330
 </TASK>
memory: usage 24576kB, limit 24576kB, failcnt 18
"""


@pytest.mark.parametrize(
    ("why", "found"),
    [("mem_cgroup_out_of_memory+0x134/0x150", []), ("warn_alloc+0x1/0x2", ["call-trace"])],
)
def test_a_process_at_its_own_limit_is_no_splat(why: str, found: list[str]) -> None:
    """A process that exceeds its cgroup's memory limit is killed on purpose."""
    assert kinds(OUT_OF_MEMORY.format(why=why)) == found


RACE = """\
==================================================================
BUG: KCSAN: data-race in {where}

write to 0xffffffff8251a448 of 8 bytes by interrupt on cpu 0:
 second+0x1b2/0x4a0
 hrtimer_interrupt+0x1c5/0x390

read to 0xffffffff8251a448 of 8 bytes by task 1048 on cpu 0:
 first+0x82/0x110
 kfi_waitq_wait+0x74/0x110 [kfabric]
 a+0x1/0x2
 b+0x1/0x2
 c+0x1/0x2

Reported by Kernel Concurrency Sanitizer on:
CPU: 0 PID: 1048 Comm: waiter Tainted: G           O       6.1.192-kcsan-ddfc563d #1
==================================================================
later
"""


def test_a_data_race_is_reported_completely() -> None:
    """Both stacks: it has no line "Call Trace:"."""
    (splat,) = splats.splats(RACE.format(where="first / second"))
    assert "second+0x1b2" in splat.text and "Reported by" in splat.text
    assert "later" not in splat.text


@pytest.mark.parametrize(
    "where",
    [
        "ktime_get_mono_fast_ns / timekeeping_update",
        "hrtimer_wakeup / schedule_hrtimeout_range_clock",
    ],
)
def test_race_inside_the_kernel_below_a_module_is_none(where: str) -> None:
    """A clock that is a latch, and a timer that ends a sleep: 6.1 does not annotate them."""
    assert kinds(RACE.format(where=where)) == []


def test_race_without_a_module_is_the_kernels_own() -> None:
    """It would fail a test that happened to run. One whose end was lost counts."""
    report = RACE.format(where="first / second").replace("[kfabric]", "")
    assert kinds(report) == []
    assert kinds(report.partition("Reported by")[0]) == ["kcsan"]


def test_each_warning_is_one_splat() -> None:
    """A report has up to three lines that look like the start of one."""
    assert kinds(recorded("warnings.log")) == ["warning", "warning", "refcount", "list", "panic"]


def test_stuck_tasks_and_cpus_are_different_kinds() -> None:
    assert kinds(recorded("stuck.log")) == [
        "atomic-sleep",
        "bug",
        "bug",
        "atomic-sleep",
        "bug",
        "leak",
        *["hung-task"] * 4,
        *["soft-lockup"] * 4,
        "rcu-stall",
        "soft-lockup",
    ]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("bug.log", "Fatal exception (kernel BUG at /src/splat.c:22!)"),
        ("null.log", "Fatal exception (BUG: kernel NULL pointer dereference, address: 0000"),
        ("gp.log", "Fatal exception (general protection fault, probably for non-canonical"),
        ("warnings.log", "Fatal exception (list_del corruption. prev->next should be"),
    ],
)
def test_a_panic_is_named_after_the_last_report_before_it(name: str, title: str) -> None:
    assert splats.panic_title(recorded(name)).startswith(title)


def test_a_guest_that_lives_has_no_panic_title() -> None:
    assert splats.panic_title(recorded("stuck.log")) == ""


def test_a_splat_knows_its_line_and_its_text() -> None:
    text = recorded("stuck.log")
    for splat in splats.splats(text):
        assert splat.title in text.splitlines()[splat.line - 1]
        assert splat.text.startswith(splat.title)
    assert "process_one_work" in splats.splats(text)[0].text


def test_a_warning_begins_with_its_message() -> None:
    """WARN() prints its message between the cut mark and the title."""
    cut = "------------[ cut here ]------------"
    title = "WARNING: CPU: 0 PID: 9 at kmod/core/fid.c:1 kfi_close+0x1/0x2 [kfabric]"
    text = "\n".join(
        [cut, "still in use", title, "Call Trace:", " f+0x1/0x2", "---[ end trace 0 ]---"]
    )
    for splat in splats.splats(f"{text}\nquiet\n{text}\n"):
        assert splat.title == title
        assert splat.text.splitlines()[:2] == ["still in use", title]


LOCKS = """
WARNING: possible circular locking dependency detected
6.1.0 #1 Tainted: G           OE
------------------------------------------------------
python3/77 is trying to acquire lock:
ffff888100000000 (&a->lock){+.+.}-{3:3}, at: f+0x1/0x2

but task is already holding lock:
ffff888100000100 (&b->lock){+.+.}-{3:3}, at: g+0x1/0x2

the existing dependency chain (in reverse order) is:

-> #1 (&b->lock){+.+.}-{3:3}:
       __mutex_lock+0x1/0x2
       h+0x1/0x2

-> #0 (&a->lock){+.+.}-{3:3}:
       __mutex_lock+0x1/0x2
       f+0x1/0x2

 *** DEADLOCK ***

1 lock held by python3/77:
stack backtrace:
CPU: 0 PID: 77 Comm: python3 Tainted: G           OE
Call Trace:
 <TASK>
 f+0x1/0x2
 </TASK>
"""


def test_report_about_locks_is_one_with_the_locks() -> None:
    """It has dozens of lines before its trace."""
    (splat,) = splats.splats(f"quiet{LOCKS}quiet\n")
    told = [line.strip() for line in LOCKS.strip().splitlines()]
    assert [line.strip() for line in splat.text.splitlines()] == told


def test_report_about_locks_ends_before_another_one() -> None:
    """If it has no trace."""
    held = "WARNING: held lock freed!\nffff88 (&a->lock), at: f+0x1/0x2\n"
    first, second = splats.splats(f"{held}BUG: KASAN: use-after-free in f+0x1/0x2\n")
    assert (first.kind, second.kind) == ("lockdep", "kasan")


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("panic", "Kernel panic - not syncing: VFS: Unable to mount root fs"),
        ("kasan", "BUG: KASAN: use-after-free in kfi_cq_read+0x1/0x2 [kfabric]"),
        ("kcsan", "BUG: KCSAN: data-race in a / b"),
        ("kfence", "BUG: KFENCE: out-of-bounds read in f+0x1/0x2"),
        ("atomic-sleep", "BUG: sleeping function called from invalid context at a/b.c:1"),
        ("workqueue", "BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 33s!"),
        ("lockdep", "WARNING: possible circular locking dependency detected"),
        ("lockdep", "WARNING: possible recursive locking detected"),
        ("lockdep", "WARNING: inconsistent lock state"),
        ("lockdep", "WARNING: bad unlock balance detected!"),
        ("lockdep", "WARNING: held lock freed!"),
        ("lockdep", "WARNING: SOFTIRQ-safe -> SOFTIRQ-unsafe lock order detected"),
        ("lockdep", "WARNING: Nested lock was not taken"),
        ("lockdep", "WARNING: bad contention detected!"),
        ("lockdep", "WARNING: insmod/77 still has locks held!"),
        ("lockdep", "[ BUG: Invalid wait context ]"),
        ("softirq", "softirq: huh, entered softirq 6 TASKLET 0000 with preempt_count 00000100"),
        ("warning", "WARNING: kmod/core/fid.c:1 at kfi_close+0x1/0x2 [kfabric], CPU#0: rmmod/9"),
        ("warning", "WARNING: at kfi_close+0x1/0x2 [kfabric], CPU#1: python3/77"),
        ("lockdep", "INFO: trying to register non-static key."),
        ("rcu-usage", "WARNING: suspicious RCU usage"),
        ("rcu-stall", "rcu: INFO: rcu_sched self-detected stall on CPU"),
        ("rcu-stall", "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-... }"),
        ("hung-task", "INFO: task python3:77 blocked for more than 90 seconds."),
        ("ubsan", "UBSAN: array-index-out-of-bounds in a/b.c:3:4"),
        ("debugobjects", "ODEBUG: free active (active state 0) object type: timer_list"),
        ("page-state", "BUG: Bad page state in process rmmod  pfn:01234"),
        ("netdev", "unregister_netdevice: waiting for dummy0 to become free. Usage count = 2"),
        ("oops", "Oops: 0002 [#1] PREEMPT SMP NOPTI"),
        ("oops", "invalid opcode: 0000 [#1] PREEMPT SMP"),
        ("call-trace", "Call Trace:"),
    ],
)
@pytest.mark.parametrize("stamp", ["", "[    1.234567] ", "[12345.678901][  T123] "])
def test_one_line_of_each_kind(kind: str, line: str, stamp: str) -> None:
    (splat,) = splats.splats(f"{stamp}random: crng init done\n{stamp}{line}\r\n")
    assert (splat.kind, splat.title, splat.line) == (kind, line, 2)


@pytest.mark.parametrize(
    "line",
    [
        "kfabric: loading out-of-tree module taints kernel.",
        # Only kmemleak's file has the details: kfabric.guest.memleak reads it.
        "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
        "kfabric: module verification failed: signature and/or required key missing",
        "NMI watchdog: Perf NMI watchdog permanently disabled",
        "AMD-Vi: AMD IOMMUv2 functionality not available on this system - This is not a bug.",
        'PCI: if necessary, use "pci=nocrs" and report a bug',
        "rcu: Preemptible hierarchical RCU implementation.",
        "Kernel command line: panic=-1 oops=panic softlockup_panic=1",
        "kfi_mock: WARNING is a word in a user's message",
        "rxe0: rxe_newlink: added dummy0",
        "systemd[1]: Oops, that went wrong",
        "hung_task: no INFO about it",
        "debug: BUGS were not found",
        "Freeing unused kernel image (initmem) memory: 2824K",
        "lockdep is turned on.",
    ],
)
def test_near_misses(line: str) -> None:
    assert splats.splats(f"[    1.234567] {line}\n") == []


def test_the_tail_is_the_end_without_carriage_returns() -> None:
    text = "".join(f"line {i}\r\n" for i in range(100))
    assert splats.tail(text, 2) == "line 98\nline 99"


def test_the_excerpt_of_a_panic_begins_before_its_cause() -> None:
    lines = splats.excerpt(recorded("boot.log") + recorded("null.log")).splitlines()
    assert "BUG: kernel NULL pointer dereference" in lines[splats.LEAD_LINES]
    assert any("Kernel panic - not syncing" in line for line in lines)


def test_the_excerpt_of_a_quiet_guest_is_its_tail() -> None:
    text = recorded("boot.log")
    assert splats.excerpt(text) == splats.tail(text)
