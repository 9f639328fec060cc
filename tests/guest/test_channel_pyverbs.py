# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completion channels of kfabric and of real verbs, side by side on one rxe device.

Each side of each scenario runs in a process of its own, since one of them may hang:
that is a result, too. What came out is compared with what is recorded in
tests/data/channels.toml, so verbs that behave otherwise are noticed. In the long runs
both sides must do what the rules foretell.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

import pytest
from channel_sides import Kfabric, Side
from channel_steps import Forecast, Player, orders, walk
from guest_support import PATIENCE
from side_support import SLEEPS_ON, Run

from kfabric.docs import channels
from kfabric.guest import modules as guest_modules
from kfabric.guest.topology import RdmaLink
from kfabric.guest.waiting import Deadline

pytestmark = pytest.mark.guest

RECORD = channels.record()

#: What kfabric promises, and the test of it.
CASES = {
    "request_next": "E1: a request is answered by the next completion, once",
    "request_none": "E1: without a request there is no event",
    "request_twice": "E1, B55: two requests before a completion are one",
    "request_behind_completion": "E1, B54: what came before the request makes no event",
    "request_while_event_unread": "E1, V10: each request has its event, also unread ones",
    "request_after_long_silence": "E1, B55: a first request after 40 completions",
    "request_answered_by_failure": "E1: a failure is a completion",
    "request_answered_by_send": "E1: a finished send is a completion",
    "solicited_by_solicited": "E1, B10: the weaker request, and a solicited message",
    "solicited_by_unsolicited": "E1, E6: the weaker request, and a message that is not solicited",
    "solicited_then_next": "E1, B10: a stronger request replaces a weaker one",
    "solicited_after_next": "E1, B10: a weaker request does not replace a stronger one",
    "solicited_by_failed_receive": "E1, B10: a failed receive counts as solicited",
    "solicited_by_send": "E1, E6: a successful send does not count as solicited",
    "solicited_by_failed_send": "E1, E6: a failed send counts as solicited",
    "event_between_others": "E2: events come in their order",
    "event_twice_before_others": "E2: several events of one queue also come in order",
    "event_for_many": "E1, B54: one event for many entries",
    "event_without_entry": "E1, B54: an event whose entry was read before",
    "event_and_descriptor": "E2, W8: the descriptor is readable while there is an event",
    "event_none_without_blocking": "E2: a channel that does not block",
    "event_ends_a_wait": "E2: a thread that waits gets the event",
    "event_each_for_a_thread": "E2, Q3: two events end the waits of two threads",
    "event_that_faults": "E4, X2: an event that could not be copied out stays in the channel",
    "ack_in_one": "E3: acks may be batched",
    "ack_of_too_many": "E3, B51: acking more than was got is refused",
    "destroy_waits_for_acks": "E3, B51: destroying a queue waits for its acks",
    "destroy_drops_unread": "E3, B53: destroying a queue drops its unread events",
    "destroy_while_connected": "E3, O1: a queue in use stays as it is",
    "destroy_interrupted": "E3: a signal ends the wait for acks",
    "destroy_channel_in_use": "E5, B53: a channel with queues stays",
    "destroy_channel_under_a_thread": "E5, B53: a channel closes while a thread waits in it",
    "example_blocking": "E6: the first example of ibv_get_cq_event(3)",
    "example_non_blocking": "E6: the second one",
}

#: Seconds for a call that is known to sleep on, for a scenario, and for a long one.
SHORT_PATIENCE = 3.0
SCENARIO_LIMIT = 50.0
LONG_LIMIT = 200.0

#: Sides, in their own process: what is not acknowledged must not be destroyed at the end.
KEPT: list[Side] = []


def _verbs(link: RdmaLink, patience: float) -> Side:
    # Not needed where the tests are only listed.
    from verbs_side import Verbs

    return Verbs(link, patience)


SIDES: dict[str, Callable[[RdmaLink, float], Side]] = {"kfabric": Kfabric, "verbs": _verbs}


def _play(link: RdmaLink, side: str, steps: list[str], expected: list[str]) -> list[str]:
    """Play one side, on one CPU: what its completions cause comes in their order."""
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[list(SIDES).index(side) % len(cpus)]})
    patience = SHORT_PATIENCE if SLEEPS_ON in expected else PATIENCE
    KEPT.append(SIDES[side](link, patience))
    return Player(KEPT[0]).play(steps, expected)


def _both(
    link: RdmaLink,
    steps: list[str],
    expected: dict[str, list[str]],
    limit: float = SCENARIO_LIMIT,
) -> None:
    """Play both sides, each in a process of its own; each must answer as expected."""
    runs = {side: Run(_play, link, side, steps, answers) for side, answers in expected.items()}
    deadline = Deadline(limit)
    assert {side: run.outcome(deadline) for side, run in runs.items()} == expected


def _foretold(link: RdmaLink, forecast: Forecast) -> None:
    _both(link, forecast.steps, dict.fromkeys(SIDES, forecast.answers), LONG_LIMIT)


@pytest.fixture
def link(modules: guest_modules.Modules, verbs: RdmaLink) -> RdmaLink:
    """The rxe link, also for users of the system's own verbs. Depends on: modules, verbs."""
    guest_modules.need(["ib_uverbs"])
    return verbs


@pytest.mark.parametrize("name", CASES)
def test_side_by_side(link: RdmaLink, name: str) -> None:
    """Both sides do what is recorded."""
    entry = RECORD[name]
    expected = {"kfabric": entry["results"], "verbs": channels.verbs(entry, platform.release())}
    _both(link, channels.steps(entry), expected)


@pytest.mark.timeout(LONG_LIMIT + 40)
def test_every_order(link: RdmaLink) -> None:
    """E1, E2, E6: ask, complete, get, ack, drain in every order: both do as the rules say."""
    _foretold(link, orders())


@pytest.mark.timeout(LONG_LIMIT + 40)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_walk(link: RdmaLink, seed: int) -> None:
    """E1, E2, E6: a hundred steps on two queues of a channel: both do as the rules say."""
    _foretold(link, walk(seed, 100))
