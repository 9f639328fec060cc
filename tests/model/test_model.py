# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The module against the model: random programs, and whether they would notice.

Runs on the host and drives a guest, so that Hypothesis and what it has learned
survive whatever a program does to the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis.stateful import rule

from kfabric.errors import GuestPanic
from tests.model.guest import ModelGuest, model_guest
from tests.model.machine import ANY, Found, Machine, explore
from tests.model.model import World
from tests.model.search import Checker, Disagreement
from tests.model.steps import Step

#: How many steps, in place of what the tests below take.
STEPS = os.environ.get("KFABRIC_MODEL_STEPS", "")


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelGuest]:
    """A guest that runs programs, booted when it is first asked to."""
    with model_guest(tmp_path_factory.mktemp("model")) as guest:
        yield guest


class Unaware(World):
    """A model that does not know of the faults which the test-option build can make."""

    def fault(self, kind: str, name: str) -> str:
        """Nothing has happened."""
        return "ok"


def test_module_does_what_the_model_says(guest: ModelGuest) -> None:
    """O1, O5, W1, W2, W3, W5, W7, Q1, Q2, Q3, Q4, Q5, Q6, Q7, Q8, P1, P2, P3, P5, T1: always."""
    explore(guest, int(STEPS or 4000))


@pytest.mark.stress
def test_module_does_what_the_model_says_for_long(guest: ModelGuest) -> None:
    """W2, V4: the same, 10^5 steps long."""
    explore(guest, int(STEPS or 100_000))


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            [
                ["open_cq", "cq0", "UNSPEC", 8, False],
                ["open_ep", "ep0", "cq0", None],
                ["cq_sread", "T0", "cq0", 1, 1, "forever"],
                ["fault", "lost", "cq0"],
                ["complete", "ep0", 1, 1, "process", True],
                ["end"],
            ],
            id="lost",
        ),
        pytest.param(
            [
                ["open_set", "w0", "UNSPEC", False],
                ["open_cntr", "ct0", "w0"],
                ["wait", "T0", "w0", "forever"],
                ["fault", "spurious", "w0"],
                ["end"],
            ],
            id="spurious",
        ),
    ],
)
def test_a_fault_in_the_module_is_noticed(guest: ModelGuest, program: list[Step]) -> None:
    """V4, V5: a wake-up that is not sent, or sent for nothing, is no outcome of the model's."""
    checker = Checker(Unaware())
    observed = guest.run(program)
    with pytest.raises(Disagreement, match="nobody returned"):
        for step, outcome in zip(program, observed, strict=True):
            checker.check(step, outcome)


class LossyMachine(Machine):
    """Programs in which the module is made to lose a wake-up."""

    world = Unaware

    @rule(which=ANY)
    def fault(self, which: int) -> None:
        """Have the next wake-up lost where somebody sleeps."""
        queues = [call.queue for call in self.likely.calls.values()]
        if queues:
            self._do("fault", "lost", queues[which % len(queues)])


@pytest.mark.stress
def test_a_lost_wakeup_is_found_and_shrunk(guest: ModelGuest) -> None:
    """Random programs find it, too, and what is left of them is what it takes."""
    with pytest.raises(Found) as found:
        explore(guest, 20_000, LossyMachine, database=None)
    # Two objects that are opened, a sleeper, the fault, and what should have woken it.
    assert len(found.value.program) <= 5, found.value


def test_the_host_goes_on_after_a_panic(guest: ModelGuest) -> None:
    """The guest is gone, what ran in it is known, and the next program has another one."""
    end: list[Step] = [["end"]]
    guest.run(end)
    boots = guest.boots
    with pytest.raises(GuestPanic):
        guest.run([["crash"]])
    assert [outcome.result for outcome in guest.run(end)] == ["ok"]
    assert guest.boots == boots + 1
