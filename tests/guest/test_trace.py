# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The tracer of any wait queue against waits of known number: it counts them exactly.

The tracer runs as it does for people, in a process of its own; loading it is what
costs, so the tests share five traces, each of which has several options.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from guest_support import DEBUGFS, NEEDS_TRACER

from kfabric.errors import ExitStatus
from kfabric.guest import modules as guest_modules
from kfabric.guest.waiting import DeadlineExpired, wait_until
from kfabric.recording import HEAD, RECORDS
from kfabric.recording.records import NO_STACK, TRACED, Context, FClass, Recording, from_guest
from kfabric.trace.guest import LIVE
from kfabric.trace.summary import SUMMARY, Row, Summary, decode
from kfabric.verdict.ledger import Ledger, Wait, build

HERE = Path(__file__).parent
WORKLOAD = HERE / "support/trace_workload.py"
TRACE = ("python3", "-m", "kfabric.cli", "trace", "--here")
GALLERY = DEBUGFS / "gallery"
LIMIT = 240.0
# Each of the traces compiles a program first.
pytestmark = [pytest.mark.timeout(LIMIT + 60), *NEEDS_TRACER]

Popen = subprocess.Popen[bytes]

# Primes, so that no sum of others can be taken for them.
MESSAGES, TIMEOUTS, SPAWNED, INTERRUPTED = 499, 13, 31, 5
FUTEX_WAITS, MISDIRECTED = 37, 11


@dataclass(frozen=True)
class Traced:
    """A trace, and what the workload says that it did."""

    summary: Summary
    recording: Recording
    ledger: Ledger
    told: dict[str, dict[str, int]]
    said: str
    status: int

    def rows(self, word: str) -> list[Row]:
        """The rows whose name has a word."""
        return [row for row in self.summary.rows if word in row.name]

    def waits(self, word: str, tgid: int) -> list[Wait]:
        """One process's waits on the queues whose name has a word."""
        names = self.recording.queues
        return [
            wait
            for number, queue in self.ledger.queues.items()
            for wait in queue.waits
            if word in names.get(number, "") and wait.record.tgid == tgid
        ]


def trace(directory: Path, options: list[str], *work: object, tail: str = "") -> Traced:
    """Trace the workload; `tail` is a shell command that follows it."""
    told = directory / "told.json"
    command = [sys.executable, str(WORKLOAD), str(told), *map(str, work)]
    if tail:
        command = ["sh", "-c", f'"$@"; {tail}', "sh", *command]
    done = subprocess.run(
        [*TRACE, f"--output={directory}", *options, "--", *command],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (directory / SUMMARY).exists(), done.stderr
    return read(directory, json.loads(told.read_text()), done.stderr, done.returncode)


def read(directory: Path, told: dict[str, dict[str, int]], said: str, status: int) -> Traced:
    """What a trace has left."""
    head: dict[str, Any] = json.loads((directory / HEAD).read_text())
    recording = from_guest(head, (directory / RECORDS).read_bytes())
    return Traced(
        decode(json.loads((directory / SUMMARY).read_text())),
        recording,
        build(recording),
        told,
        said,
        status,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """All of the workload, traced by its processes."""
    work = ("ping", MESSAGES, "timeout", TIMEOUTS, "spawn", SPAWNED, "sleeper", 1)
    signals = ("interrupted", INTERRUPTED)
    traced = trace(
        tmp_path_factory.mktemp("tree"), ["--user-stacks"], *work, *signals, tail="exit 17"
    )
    yield traced
    os.kill(traced.told["sleeper"]["pid0"], signal.SIGKILL)


def test_wait_that_a_signal_ends_has_ended(tree: Traced) -> None:
    """wait_event_interruptible() leaves without finish_wait(), also with the thread's end."""
    for pid in tree.told["interrupted"].values():
        (wait,) = tree.waits("pipe", pid)
        assert (wait.record.ret, wait.record.sleeps) == (-errno.EINTR, 1)
    stuck = {wait.tid for wait in tree.summary.stuck}
    assert stuck.isdisjoint(tree.told["interrupted"].values())
    assert tree.ledger.doubts == ()


@pytest.fixture(scope="module")
def futexes(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """Waits for futexes, with and without the right wake calls."""
    work = ("futex", FUTEX_WAITS, "misdirected", MISDIRECTED)
    return trace(tmp_path_factory.mktemp("futexes"), [], *work)


def futex_row(traced: Traced, work: str, word: str) -> Row:
    """The row of a word, by its address."""
    pid = traced.told["pid"]["pid"]
    (row,) = traced.rows(f"futex {traced.told[work][word]:#x} of python3/{pid}")
    return row


def test_waits_for_a_futex_and_its_wake_calls_are_counted(futexes: Traced) -> None:
    """Each wait is ended by a call, and no wait times out."""
    row = futex_row(futexes, "futex", "word")
    assert futexes.summary.lost == 0, futexes.summary.losses
    assert (row.waits, row.wakes, row.timeouts) == (FUTEX_WAITS, FUTEX_WAITS, 0)
    assert row.calls == futexes.told["futex"]["calls"]


def test_wake_calls_of_another_futex_have_a_row_of_their_own(futexes: Traced) -> None:
    """The sleeper's row has only waits that timed out, and the other one only calls."""
    slept, woken = (futex_row(futexes, "misdirected", word) for word in ("slept", "woken"))
    assert (slept.waits, slept.timeouts, slept.wakes, slept.calls) == (MISDIRECTED,) * 2 + (0, 0)
    assert (woken.waits, woken.calls, woken.found) == (0, MISDIRECTED, 0)


def _waits_so_far(output: Path) -> int:
    """What the last whole line of a running trace counts."""
    lines = [line for live in output.glob(f"*/{LIVE}") for line in live.read_text().split("\n")]
    lines = lines[:-1]
    rows = json.loads(lines[-1]).get("rows", ()) if lines else ()
    return sum(row["waits"] for row in rows)


def address_of(symbol: str) -> str:
    """A symbol's address, as the kernel writes it: without 0x."""
    lines = Path("/proc/kallsyms").read_text().splitlines()
    (address,) = [words[0] for words in map(str.split, lines) if words[2] == symbol]
    return address


@contextmanager
def loop(command: str) -> Iterator[Popen]:
    """A shell that runs a command for ever, and is not the tracer's child."""
    with subprocess.Popen(["sh", "-c", f"while :; do {command}; done"]) as shell:
        try:
            yield shell
        finally:
            shell.kill()


@pytest.fixture(scope="module")
def by_module(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """Pipes and files of a 9p mount, traced by the module that serves the latter.

    Nobody starts them; the trace goes on until it was seen to count, and Ctrl-C.
    """
    directory = tmp_path_factory.mktemp("module")
    command = [*TRACE, "--module=9pnet", f"--output={directory}"]
    listing = f"find {HERE.parents[1]}/tests -name '*.py' | wc -l >/dev/null"
    with (
        loop(listing),
        subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as tracer,
    ):
        with suppress(DeadlineExpired):  # the tests then show what is missing
            wait_until(lambda: _waits_so_far(directory) >= SPAWNED, "waits", LIMIT)
        # The terminal signals to all that run in its foreground.
        os.killpg(tracer.pid, signal.SIGINT)
        _, said = tracer.communicate(timeout=LIMIT)
    return read(directory, {}, said, tracer.returncode)


@pytest.fixture(scope="module")
def by_pid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Traced, Popen]]:
    """A shell that starts programs for ever, traced by its number, beside a command.

    The ring holds a few dozen records. At the end the shell has it for itself.
    """
    with loop("sleep 0.05") as shell:
        options = [f"--pid={shell.pid}", "--ring=0.008"]
        directory = tmp_path_factory.mktemp("pid")
        yield trace(directory, options, "ping", MESSAGES, tail="sleep 1"), shell


@pytest.fixture(scope="module")
def gallery() -> Iterator[None]:
    """The gallery's module is loaded."""
    if not (DEBUGFS / "tracing").exists():
        subprocess.run(["mount", "-t", "debugfs", "none", DEBUGFS], check=False, timeout=10)
    # No sleep may end before all of its play's threads have gone to sleep.
    guest_modules.insert(
        guest_modules.Modules.from_environment().file("gallery"), "patience_ms=1000"
    )
    try:
        yield
    finally:
        guest_modules.remove("gallery")


@pytest.fixture(scope="module")
def by_address(gallery: None, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """One queue of a module, told by its address, while others are slept on, too."""
    plays = " ".join(str(GALLERY / f"buggy/{name}") for name in ("baton-signal", "herd"))
    address = address_of("signal_queue")
    directory = tmp_path_factory.mktemp("address")
    return trace(directory, [f"--queue={address}"], "ping", 3, tail=f"cat {plays}")


def test_pipe_between_two_processes_is_counted_exactly(tree: Traced) -> None:
    """A prime number of messages gives so many sleeps, wake calls and wakes, and no more."""
    child, parent = tree.told["ping"]["child"], tree.told["pid"]["pid"]
    for tgid, sleeps in ((parent, MESSAGES), (child, MESSAGES - 1)):
        waits = tree.waits("pipe_read", tgid)
        assert len(waits) == sleeps
        assert Counter((w.record.sleeps, w.record.wakes, w.record.ended) for w in waits) == {
            (1, 1, 1): sleeps
        }
    rows = [row for row in tree.rows("pipe_read") if row.waits > INTERRUPTED]
    assert sorted(row.waits for row in rows) == [MESSAGES - 1, MESSAGES]
    # The pipes are never closed, which would be one more: the sleeper holds them.
    assert [row.calls for row in rows] == [MESSAGES] * 2
    assert sorted(row.wakes for row in rows) == [MESSAGES - 1, MESSAGES]
    assert sum(row.spurious for row in rows) == 0


def test_each_wake_names_the_waker(tree: Traced) -> None:
    """The other process wakes, in its own context, and the scheduler agrees."""
    child, parent = tree.told["ping"]["child"], tree.told["pid"]["pid"]
    for tgid, other in ((parent, child), (child, parent)):
        for wait in tree.waits("pipe_read", tgid):
            rec = wait.record
            assert (rec.waker, rec.context) == (other, Context.PROCESS)
            assert rec.t_begin < rec.t_slept < rec.t_wake <= rec.t_waking <= rec.t_running
            assert rec.t_running < rec.t_end


def test_nothing_is_lost_and_the_ledger_has_no_doubts(tree: Traced) -> None:
    """The kernel part's counts and its records agree, and no number is missing."""
    assert not tree.recording.losses
    assert tree.ledger.doubts == ()
    assert "complete" in tree.said


def test_stacks_of_sleeper_and_waker_are_told(tree: Traced) -> None:
    """Each wait has the frames of who slept and of who woke."""
    waits = tree.waits("pipe_read", tree.told["pid"]["pid"])
    for wait in waits:
        assert wait.stacks is not None
        sleeper, waker = wait.stacks.sleeper, wait.stacks.waker
        assert any("pipe_read" in frame for frame in tree.recording.stacks[sleeper])
        assert any("pipe_write" in frame for frame in tree.recording.stacks[waker])


def test_user_stacks_go_on_in_the_programs(tree: Traced) -> None:
    """Sleeper and waker have entered the kernel from the C library.

    A process may have ended before the tracer has met it; then its frames are addresses.
    """
    waits = [wait for wait in tree.waits("pipe_read", tree.told["pid"]["pid"]) if wait.stacks]
    stacks = [wait.stacks for wait in waits if wait.stacks]
    assert any(stack.user_waker != NO_STACK for stack in stacks)
    innermost = [f[0] for stack in stacks if (f := tree.ledger.frames(stack.user_sleeper))]
    assert innermost
    assert all("[libc.so.6]" in frame or frame.startswith("0x") for frame in innermost)


def test_stacks_of_programs_are_recorded_only_if_asked_for(by_module: Traced) -> None:
    """They cost time."""
    stacks = [wait.stacks for _, wait in by_module.ledger.waits() if wait.stacks]
    assert stacks
    assert {stack.user_sleeper for stack in stacks} == {NO_STACK}


def test_wait_that_its_timer_ended_is_told_as_that(tree: Traced) -> None:
    """A poll() of a pipe into which nobody writes ends by its timeout."""
    waits = tree.waits("pipe_poll", tree.told["pid"]["pid"])
    assert tree.told["timeout"]["empty"] == TIMEOUTS
    assert len(waits) == TIMEOUTS
    assert all(wait.timed_out and not wait.record.ended for wait in waits)
    (row,) = tree.rows("pipe_poll")
    assert (row.waits, row.timeouts, row.wakes) == (TIMEOUTS, TIMEOUTS, 0)


def test_completions_are_counted_exactly(tree: Traced) -> None:
    """A vfork() sleeps once, on a completion, and is woken once."""
    waits = tree.waits("completion on the stack of kernel_clone", tree.told["pid"]["pid"])
    assert len(waits) == SPAWNED
    assert Counter((w.record.sleeps, w.record.wakes, w.record.ended) for w in waits) == {
        (1, 1, 1): SPAWNED
    }


def test_wait_that_nobody_ends_is_counted(tree: Traced) -> None:
    """The table's row has it, although the kernel part counts a wait at its end."""
    pid = tree.told["sleeper"]["pid0"]
    (stuck,) = [wait for wait in tree.summary.stuck if wait.tid == pid]
    (row,) = [row for row in tree.summary.rows if row.number == stuck.queue]
    # An earlier pipe may have had the same memory.
    waits = tree.ledger.queues[stuck.queue].waits
    assert any(not wait.finished for wait in waits)
    assert (row.waits, row.slept) == (len(waits), sum(wait.slept for wait in waits))


def test_wait_that_nobody_ends_is_told_with_its_stack(tree: Traced) -> None:
    """Who sleeps at the end is named, with queue, age and stack."""
    pid = tree.told["sleeper"]["pid0"]
    (stuck,) = [wait for wait in tree.summary.stuck if wait.tid == pid]
    assert "pipe_read" in stuck.name
    # Newer kernels have two kinds of pipes, and call this anon_pipe_read().
    assert any("pipe_read+" in frame for frame in stuck.stack)
    assert 0 < stuck.age_ns < LIMIT * 1e9
    (wait,) = tree.waits("pipe_read", pid)
    assert not wait.finished and wait.slept
    assert f"({pid}) waits for" in tree.said


def test_commands_status_is_passed_on(tree: Traced) -> None:
    """The trace ends as the command did."""
    assert tree.status == 17


def test_records_say_that_they_are_of_the_kernels_own_waits(tree: Traced) -> None:
    """No record may be taken for one of ours."""
    assert {q.fclass for q in tree.ledger.queues.values() if q.waits} <= TRACED


def test_module_excludes_the_queues_of_others(by_module: Traced) -> None:
    """Traced are the queues that the module sleeps on or wakes; the pipes are not."""
    assert by_module.rows("9p")
    assert not by_module.rows("pipe")
    assert all(
        any("[9pnet" in frame for frame in by_module.recording.stacks[wait.stacks.sleeper])
        for queue in by_module.ledger.queues.values()
        for wait in queue.waits
        if wait.stacks is not None and wait.stacks.sleeper >= 0
    )
    assert by_module.ledger.doubts == ()


def test_interrupted_trace_still_tells_what_it_saw(by_module: Traced) -> None:
    """Ctrl-C is how a trace without a command ends: table, files, and status 0."""
    assert by_module.status == 0
    assert "complete: no record was lost" in by_module.said
    assert sum(row.waits for row in by_module.summary.rows) >= SPAWNED


def test_process_that_is_traced_by_its_number_goes_on(by_pid: tuple[Traced, Popen]) -> None:
    """It was there before, so it is not the tracer's to end; its waits are among the others."""
    traced, shell = by_pid
    assert shell.poll() is None
    assert traced.waits("", shell.pid)


def test_thread_that_goes_on_is_not_said_to_be_stuck_twice(by_pid: tuple[Traced, Popen]) -> None:
    """Probes go one by one: a begin that is seen without its end would be a wait for ever."""
    stuck = Counter((wait.tid, wait.name) for wait in by_pid[0].summary.stuck)
    assert all(count == 1 for count in stuck.values()), stuck


def test_losses_are_never_silent(by_pid: tuple[Traced, Popen]) -> None:
    """What the ring could not hold is counted, and the verdict's lines and status say it."""
    traced, _ = by_pid
    ring = traced.recording.losses.ring
    assert ring > 0
    assert f"\nNOT VERIFIED: the probe lost events: {ring} in the ring" in traced.said
    assert traced.status == ExitStatus.NOT_VERIFIED


def test_trace_without_marks_judges_nothing(tree: Traced, by_address: Traced) -> None:
    """Nothing says what the sleepers wait for, so a timeout is odd and no fault.

    A lock needs no marks: if a thread of the tree slept for one, that wait is judged.
    """
    waits = sum(len(queue.waits) for queue in by_address.ledger.queues.values())
    assert by_address.said.splitlines()[-1] == (
        f"NOT JUDGED: {waits} waits traced, nothing says what they waited for; 1 ended by a timer"
    )
    assert by_address.status == 0
    queues = tree.ledger.queues.values()
    locks = [wait for queue in queues if queue.fclass == FClass.LOCK for wait in queue.waits]
    outcome = "VERIFIED: " if any(wait.record.ended for wait in locks) else "NOT JUDGED: "
    assert tree.said.splitlines()[-1].startswith(outcome)


def test_fault_on_marked_queues_is_told_and_is_the_status(gallery: None, tmp_path: Path) -> None:
    """The trace itself says that the wake-up was lost; its repaired twin is verified."""
    marks = ["--queue=" + address_of("signal_queue")]
    marks += ["--event=gallery_publish", "--take=gallery_take"]
    play = f"cat {GALLERY / 'buggy/baton-signal'}"
    traced = trace(tmp_path, marks, "ping", 3, tail=play)
    assert traced.said.splitlines()[-1].startswith("WAKE NOT HANDED ON: ")
    assert traced.status == ExitStatus.FAULT_FOUND
    play = f"cat {GALLERY / 'fixed/baton-signal'}"
    traced = trace(tmp_path, marks, "ping", 3, tail=play)
    assert traced.said.splitlines()[-1].startswith("VERIFIED: 2 waits")
    assert traced.status == 0


def test_one_queue_is_traced_by_its_address(by_address: Traced) -> None:
    """Two sleep on it, and one call wakes one of them; of the other queues nothing is told."""
    (row,) = by_address.summary.rows
    assert row.name == "signal_queue [gallery]"
    assert (row.waits, row.calls, row.wakes, row.timeouts) == (2, 1, 1, 1)
    assert by_address.ledger.doubts == ()


def test_module_is_traced_from_its_first_call_and_named_after_it_is_gone(
    gallery: None, tmp_path: Path
) -> None:
    """It is loaded, used and unloaded at once, before the tracer looks for new modules.

    The marks come too late, and the verdict's line says how late.
    """
    guest_modules.remove("gallery")
    file = guest_modules.Modules.from_environment().file("gallery")
    marks = ["--event=gallery_publish", "--take=gallery_take"]
    marked = "until grep -q gallery_take /sys/kernel/debug/kprobes/list; do sleep 0.1; done"
    # register_kprobe() lists a probe before it lets go of the module.
    unload = f"{marked}; until rmmod gallery; do sleep 0.1; done"
    play = f"insmod {file} && cat {GALLERY}/buggy/herd; timeout 60 sh -c '{unload}'"
    try:
        traced = trace(tmp_path, ["--module=gallery", *marks], "ping", 3, tail=play)
    finally:
        guest_modules.insert(file)
    (row,) = traced.rows("herd_queue")
    assert row.name == "herd_queue [gallery]"
    assert (row.calls, row.wakes) == (1, 3)
    late = "gallery_publish was marked only "
    assert f"\nNOT VERIFIED: {late}" in traced.said
    assert "gallery_publish was marked " in traced.said.split(late)[0]
    assert traced.status == ExitStatus.NOT_VERIFIED


def test_sleepers_of_a_module_are_its_own_on_queues_of_kfabric(
    kbench: Path, tmp_path: Path
) -> None:
    """Its threads sleep in kfi_wait(), and code of others wakes them; the queues have names."""
    play = f"echo pingpong kfi normal {MESSAGES} 0 1 -1 >{kbench}"
    traced = trace(tmp_path, ["--module=kfi_bench"], "ping", 3, tail=play)
    rows = traced.rows("wait set ")
    assert len(rows) == 2
    assert all(re.fullmatch(r"wait set \d+ \(.+\)", row.name) for row in rows)
    assert sum(row.waits for row in rows) >= MESSAGES // 2
    stacks = {
        wait.stacks.sleeper
        for queue in traced.ledger.queues.values()
        for wait in queue.waits
        if wait.stacks and wait.stacks.sleeper >= 0
    }
    frames = [frame for stack in stacks for frame in traced.recording.stacks[stack]]
    assert any("kfi_waitq_sleep" in frame for frame in frames)
    assert any("[kfi_bench]" in frame for frame in frames)


@pytest.mark.stress
def test_one_queue_is_traced_by_its_symbol(tmp_path: Path) -> None:
    """Readers of the kernel's log sleep on it; of all else, nothing is told."""
    reader = "timeout 5 cat /dev/kmsg >/dev/null & "
    sleeps = "until grep -qs devkmsg_read /proc/[0-9]*/wchan; do :; done; "
    tail = reader + sleeps + "echo hello >/dev/kmsg; wait"
    traced = trace(tmp_path, ["--queue=log_wait"], "ping", 3, tail=tail)
    assert [row.name for row in traced.summary.rows] == ["log_wait"]
    (row,) = traced.summary.rows
    assert row.waits >= 1 and row.wakes >= 1
    assert traced.ledger.doubts == ()


@pytest.mark.stress
def test_a_hundred_thousand_waits_lose_no_record(tmp_path: Path) -> None:
    """As fast as two CPUs can, and each is in the recording."""
    messages = 25_000
    traced = trace(tmp_path, [], "pairs", messages)
    rows = [row for row in traced.rows("pipe_read") if row.waits > 1]
    assert sum(row.waits for row in rows) == 2 * (2 * messages - 1)
    assert not traced.recording.losses
    assert traced.ledger.doubts == ()
    assert traced.summary.unstacked == 0
