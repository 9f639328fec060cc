# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The model of the contract itself: what it allows and, as important, what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.model import World
from tests.model.search import Checker, Choices, Disagreement, outcomes, without_needless
from tests.model.steps import Outcome, Step

CQ = ["open_cq", "cq0", "UNSPEC", 4, True]
CNTR = ["open_cntr", "ct0", "UNSPEC"]
EP = ["open_ep", "ep0", "cq0", None]
SREAD = ["cq_sread", "T0", "cq0", 1, 1, "forever"]


def complete(serial: int, count: int = 1, ep: str = "ep0") -> Step:
    """Successes that write entries."""
    return ["complete", ep, serial, count, "process", True]


def after(*steps: Step) -> World:
    """A world in which these steps were done, the first option taken everywhere."""
    world = World()
    for step in steps:
        world.step(step, Choices())
    return world


def allowed(world: World, step: Step) -> list[tuple[Any, dict[str, Any]]]:
    """All outcomes of a step, each once."""
    found: list[tuple[Any, dict[str, Any]]] = []
    for outcome, _ in outcomes(world, step):
        if (outcome.result, outcome.ended) not in found:
            found.append((outcome.result, outcome.ended))
    return found


def only(world: World, step: Step) -> tuple[Any, dict[str, Any]]:
    """The only outcome that a step may have."""
    (outcome,) = allowed(world, step)
    return outcome


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        (["cq_read", "main", "cq1", 1], "absent"),
        (CQ, "present"),
        (["cq_read", "T0", "cq0", 1], "busy"),
        (["open_ep", "ep0", "cq0", "ct0"], "absent"),
    ],
)
def test_any_step_makes_sense_at_any_time(step, answer) -> None:
    """So every part of a program is one, which shrinking relies on."""
    world = after(CQ, SREAD)
    before = repr(world)
    assert only(world, step) == (answer, {})
    assert repr(world) == before


def test_one_entry_goes_to_one_of_two_readers() -> None:
    """The contract does not say to which."""
    world = after(CQ, EP, SREAD, ["cq_sread", "T1", "cq0", 1, 1, "forever"])
    assert allowed(world, complete(7)) == [("ok", {"T0": [7]}), ("ok", {"T1": [7]})]


def test_two_entries_may_both_go_to_the_first_reader() -> None:
    """If it runs only when both are there; or else each reader gets one."""
    world = after(
        CQ,
        EP,
        ["cq_sread", "T0", "cq0", 2, 1, "forever"],
        ["cq_sread", "T1", "cq0", 2, 1, "forever"],
    )
    ends = [ended for _, ended in allowed(world, complete(7, 2))]
    assert {"T0": [7, 7]} in ends
    assert {"T0": [7], "T1": [7]} in ends


def test_nobody_is_woken_below_a_threshold() -> None:
    """But an error frees everybody, and the good entries come first."""
    world = after(CQ, EP, ["cq_sread", "T0", "cq0", 3, 3, "forever"], complete(1))
    assert only(world, complete(2)) == ("ok", {})
    assert only(world, ["fail", "ep0", 3, "process"]) == ("ok", {"T0": [1]})


def test_a_signal_call_hides_no_entry_and_has_no_memory() -> None:
    """Who sleeps below its threshold gets what there is, who comes later sleeps."""
    world = after(CQ, EP, ["cq_sread", "T0", "cq0", 3, 3, "forever"], complete(1))
    assert only(world, ["cq_signal", "cq0"]) == ("ok", {"T0": [1]})
    assert only(after(CQ, SREAD, ["cq_signal", "cq0"]), SREAD) == ("started", {})


def test_an_error_is_for_every_waiter_and_for_one_reader() -> None:
    """All of them learn of it; readerr takes it once."""
    world = after(CQ, EP, SREAD, ["cq_sread", "T1", "cq0", 1, 1, "forever"])
    failed = only(world, ["fail", "ep0", 5, "process"])
    assert failed == ("ok", {"T0": "EAVAIL", "T1": "EAVAIL"})
    world = after(CQ, EP, ["fail", "ep0", 5, "process"])
    assert only(world, ["cq_read", "main", "cq0", 1]) == ("EAVAIL", {})
    readerr = ["cq_readerr", "main", "cq0", False]
    assert only(world, readerr) == ([5], {})
    assert only(after(CQ, EP, ["fail", "ep0", 5, "process"], readerr), readerr) == ([], {})


def test_overrun_comes_behind_the_last_entry() -> None:
    """What was stored can be read; what came later is lost, and nobody forgets it."""
    world = after(["open_cq", "cq0", "UNSPEC", 1, False], EP, complete(1), complete(2))
    read = ["cq_read", "main", "cq0", 4]
    assert world.step(read, Choices()) == Outcome([1])
    assert only(world, read) == ("EOVERRUN", {})
    assert only(world, SREAD) == ("started", {"T0": "EOVERRUN"})


def test_a_counter_that_is_set_back_still_ends_the_wait() -> None:
    """The value that woke a thread counts; the user's own set wakes, too."""
    wait = ["cntr_wait", "T0", "ct0", 1 << 63, "forever"]
    world = after(CNTR, wait)
    assert only(world, ["cntr_set", "ct0", (1 << 63) - 1]) == ("ok", {})
    assert only(world, ["cntr_set", "ct0", 1 << 63]) == ("ok", {"T0": "ok"})
    assert only(world, ["cntr_seterr", "ct0", 0]) == ("ok", {"T0": "EAVAIL"})


def test_a_change_is_not_a_comparison_of_values() -> None:
    """497, set back to 495, two completions: 497 again is a change for a poll set."""
    steps: list[Step] = [
        CQ,
        CNTR,
        ["open_ep", "ep0", "cq0", "ct0"],
        ["open_poll", "p0"],
        ["poll_add", "p0", "ct0"],
        ["cntr_set", "ct0", 495],
    ]
    poll = ["poll", "p0", 1]
    world = after(*steps)
    assert only(world, poll) == ([], {}), "the user's own set moves no mark"
    world = after(*steps, complete(1, 2), poll, ["cntr_set", "ct0", 495], complete(2, 2))
    assert only(world, poll) == (["ct0"], {})
    assert only(world, ["cntr_read", "main", "ct0"]) == (497, {})


def test_ready_members_take_turns() -> None:
    """Of three, none is told twice while another one waits."""
    steps: list[Step] = [["open_poll", "p0"]]
    for i in range(3):
        steps += [
            ["open_eq", f"eq{i}", "UNSPEC", 1],
            ["eq_write", f"eq{i}", i],
            ["poll_add", "p0", f"eq{i}"],
        ]
    world = after(*steps)
    poll = ["poll", "p0", 1]
    told = [world.step(poll, Choices()).result[0] for _ in range(3)]
    assert sorted(told) == ["eq0", "eq1", "eq2"]
    assert len(allowed(world, ["poll", "p0", 3])) == 1
    assert [result for result, _ in allowed(world, poll)] == [[told[0]]]


@pytest.mark.parametrize(
    ("steps", "name"),
    [
        ([CQ, EP], "cq0"),
        ([CQ, SREAD], "cq0"),
        ([["open_poll", "p0"], CNTR, ["poll_add", "p0", "ct0"]], "ct0"),
        ([["open_poll", "p0"], CNTR, ["poll_add", "p0", "ct0"]], "p0"),
        ([["open_set", "w0", "UNSPEC", False], ["open_cntr", "ct0", "w0"]], "w0"),
        ([["open_set", "w0", "UNSPEC", False], ["wait", "T0", "w0", "forever"]], "w0"),
    ],
)
def test_what_is_in_use_does_not_close(steps, name) -> None:
    """And is as it was before."""
    world = after(*steps)
    before = repr(world)
    assert only(world, ["close", name]) == ("EBUSY", {})
    assert repr(world) == before


def sleepers(exclusive: bool) -> World:
    """Two threads in a wait set with a CQ and a counter of one endpoint."""
    return after(
        ["open_set", "w0", "UNSPEC", exclusive],
        ["open_cq", "cq0", "w0", 4, False],
        ["open_cntr", "ct0", "w0"],
        ["open_ep", "ep0", "cq0", "ct0"],
        ["wait", "T0", "w0", "forever"],
        ["wait", "T1", "w0", "forever"],
    )


def test_everybody_in_a_set_wakes_unless_it_is_exclusive() -> None:
    """A completion with two targets in one set is one publication."""
    assert only(sleepers(False), complete(1)) == ("ok", {"T0": "ok", "T1": "ok"})
    assert allowed(sleepers(True), complete(1)) == [("ok", {"T0": "ok"}), ("ok", {"T1": "ok"})]
    assert only(sleepers(True), ["cq_signal", "cq0"]) == ("ok", {"T0": "ok", "T1": "ok"})


def test_an_exclusive_wake_is_passed_on_by_another_wait() -> None:
    """The set is still ready: who waits again gets its 0, and so does the next."""
    world = sleepers(True)
    world.step(complete(1), Choices())
    again = ["wait", "T0", "w0", "forever"]
    assert only(world, again) == ("started", {"T0": "ok", "T1": "ok"})


@pytest.mark.parametrize(
    ("kind", "ended"), [("interrupt", {"T0": "EINTR"}), ("restart", {}), ("python", {})]
)
def test_only_a_handler_that_does_not_restart_ends_a_call(kind, ended) -> None:
    """And Python itself goes on after that."""
    assert only(after(CQ, SREAD), ["signal", "T0", kind]) == ("ok", ended)


def test_choices_finds_every_way_once() -> None:
    """Also where what is open depends on what was chosen before."""
    ways, choices = [], Choices()
    while True:
        first = choices("ab")
        ways.append((first, choices(range(2 if first == "a" else 1)), choices("xy")))
        if not choices.next():
            break
    assert len(ways) == len(set(ways)) == 6


def test_checker_follows_what_was_observed() -> None:
    """T1 got the entry, although T0 was first; from then on T0 is the one that sleeps."""
    checker = Checker(after(CQ, EP, SREAD, ["cq_sread", "T1", "cq0", 1, 1, "forever"]))
    checker.check(complete(7), Outcome("ok", {"T1": [7]}))
    checker.check(complete(8), Outcome("ok", {"T0": [8]}))
    with pytest.raises(Disagreement, match=r"(?s)the module: 'ok', nobody.*the model: +'ok', T0"):
        checker = Checker(after(CQ, EP, SREAD))
        checker.check(complete(9), Outcome("ok", {}))


def test_a_lost_device_frees_everybody() -> None:
    """By the ordinary rules; a set goes on as long as one of its members lives."""
    steps: list[Step] = [
        ["open_set", "w0", "UNSPEC", False],
        ["open_cq", "cq0", "UNSPEC", 4, True],
        ["open_cq", "cq1", "w0", 4, False],
        ["open_eq", "eq0", "w0", 4],
        ["cq_sread", "T0", "cq0", 1, 3, "forever"],
        ["wait", "T1", "w0", "forever"],
    ]
    world = after(*steps)
    assert world.step(["lose"], Choices()) == Outcome("ok", {"T0": "EAVAIL", "T1": "ok"})
    world.step(["cq_readerr", "main", "cq1", False], Choices())
    assert only(world, ["wait", "main", "w0", "check"]) == ("ETIMEDOUT", {})
    world.step(["wait", "T1", "w0", "forever"], Choices())
    closed = [ended["T1"] for _, ended in allowed(world, ["close", "eq0"])]
    assert closed == ["ok", "ENODEV"]
    world.step(["close", "eq0"], Choices())
    assert only(world, ["wait", "main", "w0", "check"]) == ("ENODEV", {})


def test_a_signal_in_a_ready_set_is_no_reason_to_fail() -> None:
    """In an exclusive set a thread may sleep although the set is ready."""
    world = sleepers(True)
    world.step(complete(1), Choices())
    (thread,) = world.calls
    for kind in ("interrupt", "restart"):
        assert only(world, ["signal", thread, kind]) == ("ok", {thread: "ok"})


def test_needless_steps_are_left_out() -> None:
    """Also those that only together are needless, if they stand together."""
    program: list[Step] = [[name] for name in "abcdefghij"]
    tries = 0

    def fails(some: list[Step]) -> bool:
        nonlocal tries
        tries += 1
        words = "".join(step[0] for step in some)
        return "c" in words and "h" in words and ("e" in words) == ("f" in words)

    assert without_needless(program, fails) == [["c"], ["h"]]
    assert tries < 60
