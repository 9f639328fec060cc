# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The checker of interleavings: it plays each one that differs, and finds what is planted."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "harness/prove/engine"
PROGRAMS = ROOT / "tests/prove/engine"
PLAIN = ("gcc", "-std=gnu11", "-O2", "-g", "-fno-omit-frame-pointer", "-fno-pie", "-I", str(ENGINE))
WATCHED = (*PLAIN, "-fsanitize=thread", "--param", "tsan-distinguish-volatile=1")
STRONG = ("sc", "tso", "pso")  # loads return the newest store that there is
MEMORIES = (*STRONG, "weak")

ENUMERATED = 20_000  # executions; a program with more is not compared
DRAWN = 40  # programs for each memory model
REFERRING = 100  # programs about references
BOUNDED = 60  # the same, for modes with a bound
BOUNDS = range(4)

# Programs that need what drawn ones seldom do: a sleeper that could have been woken and
# is not, halves of a variable, a write between a failed trylock and the unlock.
CHOSEN = (
    "S00|W01W00",
    "S00R10|W01W00W11",
    "S00S10|W01W10W00W11",
    "H01|J01|R00",
    "J01H02|R00R00",
    "W01|L00R10K00R00|T02W11",
    "Q02U03W13L12W12K12|W01W00A11A10",
)

# Interleavings that differ in more than the order of independent steps.
COUNTS = {
    "two-writers": 2,
    "three-writers": 6,
    "four-writers": 24,
    "independent": 1,
    "readers": 1,
    "three-readers-writer": 8,
    "three-lockers": 6,
    "choices": 6,
    "lastzero": 5,
    "failing": 3,
    "failing-not": 1,
    "store-buffering-barriers": 3,
    "abab": 2,
}

# The same where references are counted, on sequential consistency.
REFERENCES = {"references": 1, "references-end": 9}

# Scenarios with a fault, whatever the memory model.
FAULTS = {
    "last-choice": "check",
    "references-dropped-first": "check",
    "lost-at-hook": "check",
    "lost-without-hook": "check",
    "lost-wake-up": "asleep-beside-ready",
    "sleeps-for-ever": "asleep",
    "race-relaxed": "race",
    "race-no-acquire": "race",
    "race-marked": "race",
    "race-after-release": "race",
    "race-then-sleep": "race",
    "abba": "lock-order",
    "not-held": "not-held",
    "self-lock": "self-lock",
    "held-at-end": "held-at-end",
    "atomic-sleep": "atomic-sleep",
    "irq-sleep": "atomic-sleep",
    "irq-unsafe": "irq-unsafe",
    "trylock-sees-unlock": "check",
    "use-after-free": "use-after-free",
    "out-of-bounds": "out-of-bounds",
    "double-free": "double-free",
    "bad-free": "bad-free",
    "leak": "leak",
    "dead-stack": "dead-stack",
    "crash": "crash",
    "spinning": "steps",
}

# Scenarios that are right on sequential consistency, and where they are wrong.
WEAK = {
    "store-buffering": dict.fromkeys(["tso", "pso", "weak"], "check"),
    "store-buffering-one-barrier": dict.fromkeys(["tso", "pso", "weak"], "check"),
    "wake-up-no-barrier": dict.fromkeys(["tso", "pso", "weak"], "asleep-beside-ready"),
    "message": {"pso": "check", "weak": "check"},
}

# Programs, and what their loads may return on weak memory; W: store, Q: release, R: load,
# G: acquire, F, D, B: write, read and full fence, A: add and return, U: set bits.
READS = set("RGA")
LITMUS = {
    "W01W11|R10R00": {"00", "01", "10", "11"},
    "W01W11|G10R00": {"00", "01", "10", "11"},
    "W01F00W11|R10R00": {"00", "01", "10", "11"},
    "W01Q11|R10R00": {"00", "01", "10", "11"},
    "W01F00W11|R10D00R00": {"00", "01", "11"},
    "U01F00W11|R10D00R00": {"00", "01", "11"},
    "W01Q11|G10R00": {"00", "01", "11"},
    "W01Q11|R10D00R00": {"00", "01", "11"},
    "W01B00W11|R10B00R00": {"00", "01", "11"},
    "W01Q11U12|G10R00": {"00", "01", "11", "31"},  # an update goes on with the release
    "W01Q11W12|G10R00": {"00", "01", "11", "20", "21"},  # a store does not
    "W01R10|W11R00": {"00", "01", "10", "11"},
    "W01B00R10|W11R00": {"00", "01", "10", "11"},
    "W01B00R10|W11B00R00": {"01", "10", "11"},
    "A01R10|A11R00": {"1011", "1110", "1111"},
    "R00W11|R10W01": {"00", "01", "10"},
    "W01|R00R00": {"00", "01", "11"},
    "W01W02|R00R00": {"00", "01", "02", "11", "12", "22"},
    "W01|W02|R00R00|R00R00": {
        f"{first}{second}"
        for order in ("012", "021")
        for first in ("00", *(order[i] + order[j] for i in range(3) for j in range(i, 3)))
        for second in ("00", *(order[i] + order[j] for i in range(3) for j in range(i, 3)))
    },
    "L00W01K00|L00R00K00": {"0", "1"},
    "L00W01W11K00|R10L00R00K00": {"00", "01", "11"},
    "W01|W11|R00R10|R10R00": {f"{n:04b}" for n in range(16)},
    "W01|W11|G00G10|G10G00": {f"{n:04b}" for n in range(16)},
    "W01|W11|R00D00R10|R10D00R00": {f"{n:04b}" for n in range(16)},
    "W01|W11|R00B00R10|R10B00R00": {f"{n:04b}" for n in range(16)} - {"1010"},
    "W01|R00Q11|G10R00": {"000", "001", "010", "011", "100", "101", "111"},
}

# Scenarios that are right everywhere.
RIGHT = (
    *COUNTS,
    *REFERENCES,
    "message-release",
    "message-fence",
    "own-store",
    "frame",
    "race-release",
    "race-fences",
    "wake-up",
    "good-wake-up",
    "stays",
    "irq-safe",
    "no-leak",
    "spawned",
    "timer",
    "timer-unfired",
    "finish-waits",
)


@dataclass(frozen=True)
class Outcome:
    """What a checker printed: its status, its last line, and the lines before."""

    status: int
    result: dict[str, Any]
    lines: list[dict[str, Any]]

    @property
    def kind(self) -> str | None:
        """The kind of the finding, if there is one."""
        finding = self.result["finding"]
        return finding["kind"] if finding else None

    @property
    def finals(self) -> set[str]:
        """The final states that were recorded."""
        return {line["fields"]["text"] for line in self.lines if line["type"] == "record"}


@dataclass(frozen=True)
class Checker:
    """A linked checker."""

    path: Path

    def run(self, *arguments: str, program: str = "") -> subprocess.CompletedProcess[str]:
        """Run it with a command line, and a program for the scenario that reads one."""
        environment = {**os.environ, "PROGRAM": program}
        command = [str(self.path), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def explore(self, *arguments: str, program: str = "") -> Outcome:
        """Run it, and parse what it prints; its time is left out."""
        done = self.run(*arguments, program=program)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines, done.stderr
        del lines[-1]["seconds"]
        return Outcome(done.returncode, lines[-1], lines[:-1])


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The engine's object files."""
    directory = tmp_path_factory.mktemp("engine")
    warnings = ("-Wall", "-Wextra", "-Werror")
    for source in sorted(ENGINE.glob("*.c")):
        command = [*PLAIN, *warnings, "-c", str(source), "-o", f"{directory / source.stem}.o"]
        subprocess.run(command, check=True)
    return [str(path) for path in sorted(directory.glob("*.o"))]


def link(objects: list[str], source: str, directory: Path) -> Checker:
    """Compile a file of scenarios as files under test are, and link a checker."""
    compiled = directory / f"{source}.o"
    subprocess.run([*WATCHED, "-c", str(PROGRAMS / f"{source}.c"), "-o", str(compiled)], check=True)
    checker = directory / source
    subprocess.run(["gcc", "-no-pie", "-o", str(checker), *objects, str(compiled)], check=True)
    return Checker(checker)


@pytest.fixture(scope="session")
def basic(objects: list[str], tmp_path_factory: pytest.TempPathFactory) -> Checker:
    """The checker of the small scenarios."""
    return link(objects, "basic", tmp_path_factory.mktemp("basic"))


@pytest.fixture(scope="session")
def interpreter(objects: list[str], tmp_path_factory: pytest.TempPathFactory) -> Checker:
    """The checker whose scenario plays a given program."""
    return link(objects, "program", tmp_path_factory.mktemp("program"))


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("memory", STRONG)
def test_as_many_executions_as_interleavings_differ(basic: Checker, name: str, memory: str) -> None:
    """The number of executions is the known number, and none is played in vain."""
    result = basic.explore(name, "--memory", memory).result
    assert (result["executions"], result["pruned"]) == (COUNTS[name], 0)


@pytest.mark.parametrize("name", REFERENCES)
def test_order_of_references_is_not_played(basic: Checker, name: str) -> None:
    """Users of an object are not put in every order; its end is, among them."""
    result = basic.explore(name).result
    assert (result["executions"], result["pruned"]) == (REFERENCES[name], 0)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("memory", MEMORIES)
def test_what_is_right_is_explored_to_the_end(basic: Checker, name: str, memory: str) -> None:
    """A scenario without a fault is complete and has no finding."""
    outcome = basic.explore(name, "--memory", memory)
    assert (outcome.status, outcome.result["complete"], outcome.kind) == (0, True, None)


def test_threads_are_preempted_at_hooks_only(basic: Checker) -> None:
    """With --hooks; a fault that needs another place is found without it."""
    words = ("--mode", "enumerate", "--bound", "2")
    assert basic.explore("lost-at-hook", *words, "--hooks").kind == "check"
    assert basic.explore("lost-without-hook", *words).kind == "check"
    none = basic.explore("lost-without-hook", *words, "--hooks")
    assert (none.kind, none.result["complete"]) == (None, True)


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_planted_fault_is_found(basic: Checker, name: str, memory: str) -> None:
    """Each planted fault is found as what it is, and nothing is called complete."""
    outcome = basic.explore(name, "--memory", memory)
    assert (outcome.status, outcome.result["complete"]) == (1, False)
    assert outcome.kind == FAULTS[name]


@pytest.mark.parametrize("name", WEAK)
@pytest.mark.parametrize("memory", MEMORIES)
def test_missing_barrier_is_found_where_it_matters(basic: Checker, name: str, memory: str) -> None:
    """Without its barrier a scenario is wrong on weaker memory only."""
    assert basic.explore(name, "--memory", memory).kind == WEAK[name].get(memory)


def test_every_scenario_has_an_expectation(basic: Checker) -> None:
    """The list of scenarios and the tables here name the same ones."""
    listed = [json.loads(line) for line in basic.run("--list").stdout.splitlines()]
    assert {scenario["name"] for scenario in listed} == {*RIGHT, *FAULTS, *WEAK}


@pytest.mark.parametrize("name", [*FAULTS, *WEAK])
def test_schedule_plays_the_finding_again(basic: Checker, name: str) -> None:
    """The printed schedule leads to the same finding, with the same trace."""
    found = basic.explore(name, "--memory", "pso")
    schedule = found.result["finding"]["schedule"]
    again = basic.explore(name, "--memory", "pso", "--replay", schedule)
    assert again.result["finding"] == found.result["finding"]
    assert again.lines == found.lines


@pytest.mark.parametrize("mode", ["dpor", "bound", "random", "pct"])
def test_same_arguments_print_the_same(basic: Checker, mode: str) -> None:
    """Two runs print the same, but for the time."""
    arguments = ("wake-up-no-barrier", "--memory", "tso", "--mode", mode, "--seed", "7")
    assert basic.explore(*arguments) == basic.explore(*arguments)


@pytest.mark.parametrize("mode", ["random", "pct"])
def test_sampling_finds_a_lost_wake_up_and_never_completes(basic: Checker, mode: str) -> None:
    """Random modes find the fault, and call what they sampled unfinished."""
    assert basic.explore("lost-wake-up", "--mode", mode).kind == "asleep-beside-ready"
    clean = basic.explore("good-wake-up", "--mode", mode, "--executions", "50").result
    assert (clean["complete"], clean["why_not"], clean["executions"]) == (False, "executions", 50)


def test_lost_wake_up_takes_one_preemption(basic: Checker) -> None:
    """Without a preemption it does not show; with one it does."""
    kinds = [
        basic.explore("lost-wake-up", "--mode", "bound", "--bound", str(bound)).kind
        for bound in (0, 1)
    ]
    assert kinds == [None, "asleep-beside-ready"]


def test_trace_names_threads_objects_and_places(basic: Checker) -> None:
    """The steps of a finding say who did what to which variable, and where."""
    steps = basic.explore("race-relaxed").lines
    reads = [step for step in steps if step["op"] == "read"]
    assert [(step["thread"], step["object"], step["value"]) for step in reads] == [("r", "flag", 1)]
    assert reads[0]["place"] in reads[0]["stack"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("race-relaxed", "plain read of plain by r, unordered with the plain write by w"),
        ("race-marked", "marked read of plain by r, unordered with the plain write by w"),
    ],
)
def test_race_is_told_as_kcsan_does(basic: Checker, name: str, text: str) -> None:
    """Which access is plain or marked, reads or writes."""
    assert basic.explore(name).result["finding"]["text"] == text


@pytest.mark.parametrize("mode", [("dpor",), ("bound", "--bound", "1"), ("random",)])
@pytest.mark.parametrize("memory", MEMORIES)
def test_what_comes_of_a_race_is_found_past_it(
    basic: Checker, memory: str, mode: tuple[str, ...]
) -> None:
    """And the schedule plays it again, in another process."""
    words = ("race-then-sleep", "--memory", memory)
    found = basic.explore(*words, "--past-races", "--mode", *mode)
    assert found.kind == "asleep"
    assert "race" in [step["op"] for step in found.lines]
    again = basic.explore(*words, "--replay", found.result["finding"]["schedule"])
    assert again.result["finding"] == found.result["finding"]


@pytest.mark.parametrize("memory", MEMORIES)
def test_race_alone_is_nothing_past_it(basic: Checker, memory: str) -> None:
    """The exploration ends without a finding."""
    outcome = basic.explore("race-marked", "--memory", memory, "--past-races")
    assert (outcome.kind, outcome.result["complete"]) == (None, True)


@pytest.mark.parametrize("memory", MEMORIES)
def test_unlock_is_traced_and_with_store_buffers_when_it_is_visible(
    interpreter: Checker, memory: str
) -> None:
    """The next owner locks after that."""
    arguments = ("program", "--memory", memory, "--mode", "bound", "--bound", "0")
    steps = interpreter.explore(*arguments, program="L00K00|L00K00E00").lines
    first = steps[0]["thread"]
    held = [(step["thread"] == first, step["op"]) for step in steps if "lock" in step["op"]]
    visible = [(True, "unlocked")] if memory in ("tso", "pso") else []
    assert held[: 2 + len(visible)] == [(True, "lock"), (True, "unlock"), *visible]


def test_read_of_an_older_store_is_traced_with_the_newest(basic: Checker) -> None:
    """Under weak only: elsewhere a load returns the newest store that it can see."""
    reads = {
        memory: [
            (step["object"], step["value"], step.get("newest"))
            for step in basic.explore("message", "--memory", memory).lines
            if step["op"] == "read"
        ]
        for memory in ("pso", "weak")
    }
    assert [newest for _, _, newest in reads["pso"]] == [None, None]
    assert reads["weak"][0][1:] == (1, None)
    assert reads["weak"][1][1:] == (0, 1)


def test_update_is_traced_with_its_result(interpreter: Checker) -> None:
    """Also if a barrier is traced before the next point."""
    steps = interpreter.explore("program", "--memory", "weak", program="U01B00E01").lines
    assert [step["value"] for step in steps if step["op"] == "update"] == [1]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("no-such",),
        ("two-writers", "--mode", "best"),
        ("two-writers", "--memory", "arm"),
        ("two-writers", "--bound", "many"),
        ("two-writers", "--executions", "-1"),
        ("two-writers", "--seed", "x"),
        ("two-writers", "--replay", "0y3"),
        ("two-writers", "--replay", "5"),
        ("two-writers", "two-writers"),
    ],
)
def test_bad_command_line_is_one_line_and_status_2(
    basic: Checker, arguments: tuple[str, ...]
) -> None:
    """A wrong command line is refused with one line that says what is wrong."""
    done = basic.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("prove: ")
    assert done.stderr.count("\n") == 1


def test_parts_of_a_schedule_in_the_document_are_parts(basic: Checker) -> None:
    """The table of docs/prove.md has each form that the checker prints and reads."""
    section = (ROOT / "docs/prove.md").read_text().split("### The schedule of `--replay`\n")[1]
    parts = re.findall(r"^\| `([^`]+)`", section.partition("\n## ")[0], re.MULTILINE)
    assert {re.sub(r"\d+", "N", part) for part in parts} == {"N", "NxN", "N=N", "u", "rN"}
    for part in parts:
        said = basic.run("two-writers", "--replay", part).stderr
        assert "not a schedule" not in said, part
    assert "not a schedule" in basic.run("two-writers", "--replay", "0,u").stderr


def draw_section(dice: random.Random, checks: int) -> list[str]:
    """A few instructions that belong together; checks is the weight of those that may fail."""
    which, value = dice.randrange(2), dice.randrange(4)
    instruction = f"{which}{value}"
    inner = dice.choice("RWA") + instruction
    sections = [
        (50, ["W" + instruction]),
        (14, ["Q" + instruction]),
        (6, [dice.choice("HJ") + instruction]),
        (46, ["R" + instruction]),
        (14, ["A" + instruction]),
        (12, ["U" + instruction]),
        (10, ["B" + "00"]),
        (6, ["F00"]),
        (16, ["L" + instruction, inner, "K" + instruction]),
        (10, ["T" + instruction]),
        (8, ["S" + instruction]),
        (6, ["C00"]),
        (6, ["X" + instruction, "Y" + instruction]),
        (4, [dice.choice("XYZ") + instruction]),
        (2, ["P" + instruction]),
        (checks, ["E" + instruction]),
        (6, ["R" + instruction, "I00", f"W{1 - which}{value}"]),
    ]
    weights = [weight for weight, _ in sections]
    return dice.choices([section for _, section in sections], weights)[0]


def draw_program(seed: int, checks: int = 0) -> str:
    """A program of two or three threads."""
    dice = random.Random(seed)
    threads = dice.choice([2, 2, 3])
    size = dice.choice([2, 3, 4]) if threads == 2 else dice.choice([1, 2])
    programs = []
    for _ in range(threads):
        instructions: list[str] = []
        while len(instructions) < size:
            instructions += draw_section(dice, checks)
        programs.append("".join(instructions))
    return "|".join(programs)


@pytest.mark.parametrize("memory", MEMORIES)
def test_reduction_loses_no_final_state(interpreter: Checker, memory: str) -> None:
    """On drawn programs dpor reaches exactly the final states of all schedules."""
    compared = 0
    for program in (*CHOSEN, *map(draw_program, range(DRAWN))):
        arguments = ("program", "--memory", memory, "--records", "1")
        every = ("--mode", "enumerate", "--bound", "99", "--executions", str(ENUMERATED))
        full = interpreter.explore(*arguments, *every, program=program)
        if not full.result["complete"]:
            continue
        reduced = interpreter.explore(*arguments, program=program)
        assert reduced.result["complete"], program
        assert reduced.finals == full.finals, program
        compared += 1
    assert compared >= len(CHOSEN) + DRAWN // 2


def draw_references(seed: int) -> str:
    """Three threads that take and drop references, paired or not, to what others end or read."""
    dice = random.Random(seed)
    sections = [
        ["X00", "Y00"],
        ["X00", "Y00"],
        ["X00"],
        ["Y00"],
        ["Z00"],
        ["R00"],
        ["A01"],
        ["W02"],
    ]
    threads = []
    for _ in range(3):
        instructions: list[str] = []
        while len(instructions) < 2:
            instructions += dice.choice(sections)
        threads.append("".join(instructions))
    return "|".join(threads)


@pytest.mark.parametrize("mode", [("dpor",), ("bound", "--bound", "2")])
def test_references_lose_no_final_state(interpreter: Checker, mode: tuple[str, ...]) -> None:
    """On drawn programs the same final states are reached as by all schedules."""
    bound = mode[2] if len(mode) > 1 else "99"
    for program in map(draw_references, range(REFERRING)):
        arguments = ("program", "--records", "1")
        full = interpreter.explore(
            *arguments, "--mode", "enumerate", "--bound", bound, program=program
        )
        reduced = interpreter.explore(*arguments, "--mode", *mode, program=program)
        assert full.result["complete"] and reduced.result["complete"], program
        assert reduced.finals == full.finals, program


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_bound_loses_no_final_state(interpreter: Checker, memory: str, bound: int) -> None:
    """On drawn programs bound reaches exactly what all schedules with the preemptions reach."""
    compared = finals = 0
    limits = ("--memory", memory, "--records", "1", "--bound", str(bound))
    for program in (*CHOSEN, *map(draw_program, range(BOUNDED))):
        every = ("--mode", "enumerate", "--executions", str(ENUMERATED))
        full = interpreter.explore("program", *limits, *every, program=program)
        if not full.result["complete"]:
            continue
        reduced = interpreter.explore("program", *limits, "--mode", "bound", program=program)
        assert reduced.result["complete"], program
        assert reduced.finals == full.finals, program
        compared += 1
        finals += len(full.finals)
    assert compared >= len(CHOSEN) + BOUNDED // 2


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_bound_loses_no_finding(interpreter: Checker, memory: str, bound: int) -> None:
    """On drawn programs with checks bound finds exactly those that all schedules fail."""
    compared = found = 0
    limits = ("--memory", memory, "--bound", str(bound))
    for seed in range(BOUNDED):
        program = draw_program(seed, checks=25)
        every = ("--mode", "enumerate", "--executions", str(ENUMERATED))
        full = interpreter.explore("program", *limits, *every, program=program)
        if not full.result["complete"] and not full.kind:
            continue
        reduced = interpreter.explore("program", *limits, "--mode", "bound", program=program)
        assert reduced.kind == full.kind, program
        compared += 1
        found += bool(full.kind)
    assert compared >= BOUNDED // 2 and 0 < found < compared


@pytest.mark.parametrize("program", LITMUS)
def test_weak_loads_return_exactly_what_they_may(interpreter: Checker, program: str) -> None:
    """A litmus test has the known outcomes and no others."""
    outcome = interpreter.explore("program", "--memory", "weak", "--records", "1", program=program)
    assert outcome.result["complete"]
    seen = set()
    for final in outcome.finals:
        values = final.split(".")[1:]
        threads = program.split("|")
        seen.add(
            "".join(
                str(ord(value) - ord("a"))
                for thread, results in zip(threads, values, strict=True)
                for letter, value in zip(thread[::3], results, strict=True)
                if letter in READS
            )
        )
    assert seen == LITMUS[program]
