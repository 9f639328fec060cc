# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The same calls on libfabric 1.17 and on kfabric, side by side.

Each side of each scenario runs in a process of its own, since one of them may hang
or crash: that is a result, too. What came out is compared with what is recorded in
tests/data/libfabric.toml, so a libfabric that behaves otherwise is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator

import libfabric as fi
import pytest
from guest_support import LIMIT
from libfabric_scenarios import SCENARIOS
from libfabric_sides import Kfabric, Libfabric, Side
from side_support import SLEEPS_ON, Run

from kfabric.docs import libfabric
from kfabric.guest.waiting import Deadline

pytestmark = pytest.mark.guest

RECORD = libfabric.record()
PROVIDERS = libfabric.PROVIDERS
RECORDED = (1, 17)

#: What kfabric promises, and the test of it.
CASES = {
    "poll_small_array_counters": "P2, B20: a counter that did not fit is reported by a later call",
    "poll_no_room": "P2, B20: a call without room consumes nothing",
    "poll_turns": "P2, B21: members that stay ready take turns",
    "poll_queue_until_read": "P1: a queue is reported while it holds an entry",
    "poll_error_entry": "P1, B28: a queue is reported while it holds an error",
    "poll_two_sets": "P1, P3, B31: each poll set reports a change of a counter once",
    "poll_set_back": "P1, B33: a counter that comes back to its old value has changed",
    "poll_completion_then_add": "P1, B33: a completion shows although the user added to it",
    "poll_completion_then_read": "P1, B33: a completion shows although the counter has been read",
    "poll_error_count": "P1, B33: a change of the error value is reported",
    "poll_after_wait": "W1, P3, B32: a wait leaves the change to the poll set",
    "poll_membership": "P5: members twice and strangers are refused, event queues are not",
    "wait_consumes_nothing": "W1, B32: waiting consumes nothing",
    "wait_twice_on_counter": "W1, B32: a counter stays ready until it is read",
    "wait_wakes": "W2: an entry ends a wait",
    "wait_wakes_all": "W3, B04: one entry ends the waits of all threads in the set",
    "wait_wakes_all_cond": "W3, W8, B11: so does a set of KFI_WAIT_MUTEX_COND",
    "wait_ready_before_cond": "W1, W8, B11: an entry that came before ends the wait on a condition",
    "wait_timeout_cond": "W4, W8, B23, B25: a wait on a condition lasts its time: -ETIMEDOUT",
    "wait_many_events": "W3, B04: four events on four members end four waits",
    "wait_drained": "W1, W9, B19: a set that was drained makes the next wait sleep",
    "wait_error_pending": "W1, B28: an error that is there ends a wait, with 0",
    "wait_error_wakes": "W2, B27: an error ends a wait in progress",
    "wait_new_member": "W7, B03: an object that joins ends a wait in progress",
    "wait_member_leaves": "W7, B43: a member that leaves takes nothing from the others",
    "wait_timeouts": "W4, B24, B25: what the timeouts mean, with nothing there and with an entry",
    "wait_signal_handler": "W5, B56: a wait goes on after a signal handler with SA_RESTART",
    "sread_timeouts": "Q1, W4, B24, B25: the same for a queue's own wait",
    "sread_infinite": "Q1, W4, B24: any negative timeout is no limit",
    "sread_one_each": "Q3, B02: an entry each for threads that wait on one queue",
    "sread_error_wakes": "Q1, B27, B28: an error ends a read in progress",
    "signal_frees_all": "Q5, B18: fi_cq_signal frees every thread, with -EAGAIN",
    "signal_is_not_remembered": "Q5, B18: fi_cq_signal with nobody asleep has no effect",
    "eq_sread_timeouts": "Q1, W4, B24, B25: the same for an event queue",
    "eq_write_wakes": "Q1, B12: fi_eq_write ends a read in progress",
    "cntr_timeouts": "Q6, W4, B24, B25, B26: the same for a counter, below its threshold and at it",
    "cntr_thresholds": "Q6, B35: each waiter has its own threshold",
    "cntr_wide": "Q6, B36: thresholds of 2^31, 2^32 and 2^63",
    "cntr_error_ends": "Q6, B34: a change of the error value ends every wait",
    "cntr_old_error": "Q6, B34: an error from before does not end a new wait",
    "cntr_deadline": "W4, V5, B23: wakes that are for nothing do not shorten a wait",
    "cntr_stays_asleep": "V5, B02: nothing wakes a waiter but what it waits for",
    "cntr_without_wait_object": "W8, B37, B39: a counter without wait object refuses to wait",
    "sread_without_wait_object": "W8, B39: so does a queue",
    "sread_of_a_member": "W7, B39: so does a member of a wait set",
    "trywait_queue": "T1, B01, B19, B38: trywait of a queue, and its descriptor",
    "trywait_error": "T1, B28: an error counts, and trywait does not consume it",
    "trywait_events": "T1, B01, B38: the same for an event queue",
    "trywait_counter_twice": "T1, B32: trywait does not consume a counter's change",
    "trywait_pollfd": "T1, T3, B49: trywait with FI_WAIT_POLLFD",
    "trywait_without_wait_object": "T2, B39: trywait of a queue without a wait object is refused",
    "trywait_poll_set": "T2, B39: trywait of what is no source is refused",
    "trywait_mixed": "T2, B40: objects of several kinds are refused",
    "getwait_without_wait_object": "T4, B39: GETWAIT of what has no wait object is refused",
    "getwaitobj": "T4: GETWAITOBJ says which kind it is",
    "pollfd_room": "W8, B49: a POLLFD set says how much room it needs",
    "pollfd_index": "W8, B49: no room at all asks for the change index",
    "close_bound_wait_set": "O1, B41: a wait set with members is not closed",
    "close_poll_set_with_members": "O1, B41: neither is a poll set",
    "close_polled_queue": "O1, B41: a queue in a poll set is not closed",
    "close_polled_counter": "O1, B41: neither is a counter",
}

#: What a side does now and then. There all threads see the byte in the pipe of the set
#: before one has read it, and all wake; or the set does not know yet of a count.
NOW_AND_THEN = {
    ("wait_wakes_all", "sockets"): ["0"],
    ("cntr_old_error", "sockets"): ["-EAVAIL"],
    ("wait_twice_on_counter", "sockets"): ["-ETIMEDOUT", "-ETIMEDOUT"],
    ("poll_after_wait", "sockets"): ["-ETIMEDOUT", "a"],
}

#: Seconds for a call that is known to sleep on, and for a whole scenario.
SHORT_PATIENCE = 3.0
SCENARIO_LIMIT = 90.0


def _play(scenario: str, side: str, recorded: list[str]) -> list[str]:
    """Run one side of a scenario; patience is short where a call is known to sleep on."""
    return SCENARIOS[scenario](_open(side, recorded))


def _open(name: str, recorded: list[str]) -> Side:
    patience = SHORT_PATIENCE if SLEEPS_ON in recorded else LIMIT
    if name == "kfabric":
        return Kfabric(patience)
    return Libfabric(PROVIDERS[name], patience)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> Iterator[None]:
    """libfabric, loaded once: the processes of the scenarios are forked from here."""
    with pytest.MonkeyPatch.context() as patch:
        # The others would look for their hardware.
        patch.setenv("FI_PROVIDER", ",".join(PROVIDERS.values()).replace(";", ","))
        # One of its libraries would report a crash by itself, and exit.
        patch.setenv("IPATH_NO_BACKTRACE", "1")
        fi.load()
        yield


@pytest.mark.usefixtures("mock")
@pytest.mark.parametrize("name", CASES)
def test_side_by_side(name: str) -> None:
    """Every side does what is recorded; where libfabric keeps its page, kfabric the same.

    Where another libfabric is installed, kfabric plays alone.
    """
    record = RECORD[name]
    sides = ("kfabric", *PROVIDERS) if fi.version() == RECORDED else ("kfabric",)
    recorded = {side: record[side] for side in sides if side in record}
    runs = {side: Run(_play, name, side, results) for side, results in recorded.items()}
    deadline = Deadline(SCENARIO_LIMIT)
    found = {side: run.outcome(deadline) for side, run in runs.items()}
    for side, results in found.items():
        if results == NOW_AND_THEN.get((name, side)):
            found[side] = recorded[side]
    assert found == recorded
