# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric top`` and the module's list of objects: every client's, with what they count."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guest_support import LIMIT, Call, Mock, become

from kfabric.guest.waiting import Deadline, wait_until
from kfabric.top.objects import ObjectCounts, parse
from kfabric.top.table import HEADS

InThread = Callable[[Callable[[], Any]], Call[Any]]
OBJECTS = Path("/sys/kernel/debug/kfabric/objects")
SOURCE = Path(__file__).resolve().parents[2]
#: Seconds: Python starts twice, in a guest that may have its CPUs for itself or not.
SLOW = 6 * LIMIT

pytestmark = pytest.mark.timeout(SLOW + 30)


def listed() -> dict[int, ObjectCounts]:
    """The objects by their ids."""
    return {one.id: one for one in parse(OBJECTS.read_text())}


def top(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command here."""
    call = "import sys; from kfabric.top.command import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", call, *words],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        timeout=SLOW,
        check=False,
    )


def test_list_has_every_object_and_no_address(mock: Mock) -> None:
    """F7: of each class, of whom, by the numbers that tracepoints have."""
    wait_set, poll_set = mock.wait_set(), mock.poll_set()
    member, alone = mock.cq(wait_set=wait_set), mock.cq()
    eq, cntr = mock.eq(), mock.counter()
    ep = mock.endpoint(cq=alone, eq=eq, cntr=cntr)
    found = listed()
    kinds = {
        mock.fabric: "fabric",
        mock.domain: "domain",
        wait_set: "wait",
        poll_set: "poll",
        member: "cq",
        eq: "eq",
        cntr: "cntr",
        ep: "ep",
    }
    for obj, kind in kinds.items():
        one = found[obj.trace_id]
        assert (one.kind, one.pid) == (kind, os.getpid())
    assert found[member.trace_id].owner == wait_set.trace_id
    assert found[ep.trace_id].parent == mock.domain.trace_id
    assert not re.search(r"\b(0x)?f{4}[0-9a-f]{12}\b", OBJECTS.read_text())


def test_list_has_the_values_of_profiles(mock: Mock) -> None:
    """F7: by the same names."""
    cq = mock.cq()
    mock.inject(mock.endpoint(cq=cq), count=5)
    with cq.profile() as profile:
        values = profile.snapshot()
    assert dict(listed()[cq.trace_id].values) == values


def test_closed_objects_leave_the_list(mock: Mock) -> None:
    """O1: at once."""
    with mock.domain.cq() as cq:
        assert cq.trace_id in listed()
    assert cq.trace_id not in listed()


def test_list_is_for_root(mock: Mock, in_child: Callable[..., Any]) -> None:
    """No other user can open it."""

    def child(report: Callable[[str], None]) -> int:
        become()
        try:
            OBJECTS.open()
        except PermissionError:
            return 7
        return 0

    assert in_child(child).wait() == 7


def test_list_is_read_under_opens_and_closes(mock: Mock, in_thread: InThread) -> None:
    """O3: 300 objects come and go while it is read."""

    def churn() -> None:
        for _ in range(100):
            with mock.domain.cq() as cq, mock.domain.poll_set() as poll_set:
                poll_set.add(cq)
                poll_set.remove(cq)
            mock.fabric.wait_set().close()

    call = in_thread(churn)
    while not call.done:
        assert mock.domain.trace_id in listed()
    call.result()


def test_top_shows_what_is_waited_on_longest_first(mock: Mock, in_thread: InThread) -> None:
    """F7: of every process; a line of JSON for each look."""
    wait_set, other = mock.wait_set(), mock.wait_set()
    ep = mock.endpoint(cq=mock.cq(wait_set=wait_set))
    end = mock.endpoint(cq=mock.cq(wait_set=other))
    with other.profile():
        first = in_thread(lambda: wait_set.wait(timeout=SLOW)).asleep()
        second = in_thread(lambda: other.wait(timeout=SLOW)).asleep()
        done = top("--json", "--interval=0.2", "--duration=1")
        mock.inject(ep)
        mock.inject(end)
        first.result()
        second.result()
    assert done.returncode == 0, done.stderr
    looks = [json.loads(line)["objects"] for line in done.stdout.splitlines()]
    assert len(looks) > 1
    assert [one["id"] for one in looks[-1][:2]] == [wait_set.trace_id, other.trace_id]
    assert [one["asleep"] for one in looks[-1][:2]] == [1, 1]
    assert looks[-1][0]["longest_ns"] > looks[0][0]["longest_ns"] > 0


def test_top_runs_a_command_and_ends_with_its_status(mock: Mock) -> None:
    """Its output is passed on, the table follows; objects that are gone by then included."""
    program = (
        "import kfabric_py as kp\n"
        "with kp.Device() as device:\n"
        "    info = device.getinfo(provider='mock')[0]\n"
        "    wait_set = device.fabric(info).wait_set()\n"
        "    try:\n"
        "        wait_set.wait(timeout=1.5)\n"
        "    except kp.KfiTimeout:\n"
        "        print('timed', 'out')\n"
        "raise SystemExit(7)\n"
    )
    done = top("--interval=0.2", "--", sys.executable, "-c", program)
    assert done.returncode == 7, done.stderr
    assert "timed out" in done.stdout
    (row,) = [line for line in done.stdout.splitlines() if "wait set" in line]
    assert row.split()[HEADS.index("sleeps")] == "1"


@pytest.mark.parametrize("kind", ["cq", "wait"])
def test_time_is_measured_while_somebody_looks(mock: Mock, in_thread: InThread, kind: str) -> None:
    """F7: without any profile, the open file is enough; and nobody pays else."""
    wait_set = mock.wait_set()
    target = mock.cq(wait_set=wait_set) if kind == "wait" else mock.cq()
    number = wait_set.trace_id if kind == "wait" else target.trace_id
    ep = mock.endpoint(cq=target)

    def wait() -> object:
        if kind == "cq":
            return target.sread(timeout=LIMIT)
        wait_set.wait(timeout=LIMIT)
        return None

    for looking, measured in ((False, 0), (True, 1)):
        with OBJECTS.open() if looking else open(os.devnull):
            call = in_thread(wait).asleep()
            mock.inject(ep)
            call.result()
            target.read()
        assert sum(listed()[number].latency) == measured


def test_sleep_that_began_before_has_its_age(mock: Mock, in_thread: InThread) -> None:
    """F7: who looks for a thread that hangs came too late to have it timed."""
    wait_set = mock.wait_set()
    ep = mock.endpoint(cq=mock.cq(wait_set=wait_set))
    call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
    wait_until(
        lambda: listed()[wait_set.trace_id].number("longest_ns") > 0, "an age", Deadline(LIMIT)
    )
    mock.inject(ep)
    call.result()
    one = listed()[wait_set.trace_id]
    assert one.number("asleep_ns") > 0 == one.number("longest_ns")
