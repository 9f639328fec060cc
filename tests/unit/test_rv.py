# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The automata for the kernel's runtime verification: well formed, up to date, right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from report_support import TRACES, recording_of

from kfabric.docs import rules
from kfabric.recording.records import Recording, SignalRecord, WaitRecord
from kfabric.rv import catalogue, events, files
from kfabric.rv.automaton import Arrow, Automaton, Refusal

TOP = Path(__file__).parents[2]
RV = TOP / files.DIRECTORY
HEALTHY = sorted(path.stem for path in TRACES if "# verdict: verified" in path.read_text())
EACH = pytest.mark.parametrize("automaton", catalogue.ALL, ids=lambda one: one.name)


def refusals(recording: Recording) -> dict[str, list[Refusal]]:
    """The refused events of each automaton, of all its threads or CPUs."""
    lists = {"kfi_wait": events.of_threads(recording), "kfi_wake": events.of_cpus(recording)}
    return {
        one.name: [bad for found in lists[one.name].values() for bad in one.refusals(found)]
        for one in catalogue.ALL
    }


@pytest.mark.parametrize("path", files.files(), ids=str)
def test_generated_file_is_up_to_date(path: Path) -> None:
    """Each is written from the catalogue and from kfabric's tracepoints."""
    assert (TOP / path).read_text() == files.files()[path], f"run: {files.COMMAND}"


def test_no_other_file_of_an_automaton_lies_about() -> None:
    """A monitor that was renamed leaves nothing."""
    names = {path.stem.removesuffix("_probes") for path in (RV / "tree").rglob("*.[ch]")}
    models = {path.stem for path in (RV / "tree").rglob("*.dot")}
    assert names - {"kfi"} == models == {one.name for one in catalogue.ALL}


@EACH
def test_automaton_is_deterministic(automaton: Automaton) -> None:
    """An event leads from a state to one state at most."""
    assert automaton.ambiguous() == []


def test_two_arrows_for_one_event_are_found() -> None:
    """The automaton of the kernel has one next state only, and would lose one of them."""
    arrows = (Arrow("a", "x", "a"), Arrow("a", "x", "b"), Arrow("b", "x", "a"))
    automaton = Automaton("name", (), "", "per_cpu", (), "a", arrows)
    assert automaton.ambiguous() == [("a", "x")]


@EACH
def test_each_state_is_reached_and_left(automaton: Automaton) -> None:
    """Also no arrow leads to a state that allows nothing."""
    targets = {arrow.target for arrow in automaton.arrows}
    assert automaton.reachable() == set(automaton.states) == targets


@EACH
def test_rules_of_an_automaton_are_the_contracts(automaton: Automaton) -> None:
    """And the graph names them."""
    assert set(automaton.rules) <= set(rules.titles(rules.CONTRACT.read_text()))
    assert f"// Rules {', '.join(automaton.rules)} of" in files.dot(automaton)


@EACH
def test_kernel_is_made_to_build_each_monitor(automaton: Automaton) -> None:
    """By the Makefile and Kconfig, with its two tracepoints, and in the configuration."""
    patch = (RV / "hook.patch").read_text()
    upper = automaton.name.upper()
    for line in (
        f"+obj-$(CONFIG_RV_MON_{upper}) += monitors/{automaton.name}/{automaton.name}.o",
        f"+config RV_MON_{upper}",
        f", event_{automaton.name},",
        f", error_{automaton.name},",
    ):
        assert line in patch
    assert f"CONFIG_RV_MON_{upper}=y" in (TOP / "vm/kernels/debug.config").read_text()


@EACH
def test_monitor_makes_each_event_of_its_automaton_and_no_other(automaton: Automaton) -> None:
    """The C source names an event with the suffix of the automaton."""
    folder = RV / "tree/kernel/trace/rv/monitors" / automaton.name
    text = (folder / f"{automaton.name}.c").read_text()
    body = text[text.index("kfi_probe") :]
    made = set(re.findall(rf"\b(\w+)_{automaton.name}\b", body)) & set(automaton.events)
    assert made == set(automaton.events)


def test_tracepoints_are_read_with_their_arguments() -> None:
    """Of events of their own, and of events of a class."""
    found = files.prototypes(files.TRACEPOINTS.read_text())
    assert found["wake"] == ["u32 queue", "u32 source", "u32 why", "u64 seq", "pid_t pid"]
    assert found["object_new"] == ["u32 id", "u32 fclass", "u32 parent"]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_recording_is_accepted(name: str) -> None:
    """The verdict finds nothing in it either."""
    recording = recording_of(name)
    assert refusals(recording) == {"kfi_wait": [], "kfi_wake": []}
    assert any(events.of_threads(recording).values())


@pytest.mark.parametrize("name", ["lost", "lost-counter"])
def test_lost_wake_up_is_refused_when_its_call_ends(name: str) -> None:
    """A publication found the thread asleep, and did not wake it."""
    assert refusals(recording_of(name)) == {"kfi_wait": [Refusal("owed", "end")], "kfi_wake": []}


def wait(tid: int, **values: int) -> WaitRecord:
    """A call that sleeps from the time 10."""
    return WaitRecord(queue=1, t_begin=10, tid=tid, t_slept=11, t_end=50, sleeps=1, **values)


def test_wake_up_without_a_publication_is_refused() -> None:
    """The publication before it was another one."""
    earlier = SignalRecord(queue=1, t=5, seq=1)
    record = wait(7, t_wake=20, ended=1, why=1, wakes=1)
    found = refusals(Recording((earlier, record)))
    assert found == {"kfi_wait": [], "kfi_wake": [Refusal("quiet", "wake")]}


def test_nothing_is_owed_if_some_calls_are_not_asleep() -> None:
    """Which of the two was asleep is unknown, so neither is judged."""
    signal = SignalRecord(queue=1, t=20, seq=1, sleepers=1)
    assert refusals(Recording((signal, wait(7), wait(8))))["kfi_wait"] == []


def test_publication_that_the_last_look_covered_owes_nothing() -> None:
    """The thread looked after the entry had been stored."""
    signal = SignalRecord(queue=1, t=20, seq=3, sleepers=1)
    covered, uncovered = Recording((signal, wait(7, seen=3))), Recording((signal, wait(7, seen=2)))
    assert refusals(covered)["kfi_wait"] == []
    assert refusals(uncovered)["kfi_wait"] == [Refusal("owed", "end")]


def test_thread_below_its_threshold_is_owed_nothing() -> None:
    """There are fewer entries than it waits for."""
    signal = SignalRecord(queue=1, t=20, seq=1, have=3, sleepers=1)
    assert refusals(Recording((signal, wait(7, need=4))))["kfi_wait"] == []
    assert refusals(Recording((signal, wait(7, need=3))))["kfi_wait"] == [Refusal("owed", "end")]


def test_one_of_several_exclusive_threads_is_owed_nothing() -> None:
    """Another one may have been chosen; an overrun concerns them all."""
    calls = (wait(7, flags=2), wait(8, flags=2))
    event = SignalRecord(queue=1, t=20, seq=1, sleepers=2)
    overrun = SignalRecord(queue=1, t=20, seq=1, sleepers=2, why=3)
    assert refusals(Recording((event, *calls)))["kfi_wait"] == []
    assert refusals(Recording((overrun, *calls)))["kfi_wait"] == [Refusal("owed", "end")] * 2
