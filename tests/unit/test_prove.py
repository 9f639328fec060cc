# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The command ``kfabric prove``, against a program that prints canned lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_prove as fake
import pytest
from rich.console import Console

from kfabric import cli
from kfabric.docs.results import Measurement
from kfabric.errors import ExitStatus
from kfabric.prove import build, coverage, judge, names, places, proofs, run, session, show, table
from kfabric.prove.debug_info import DebugInfo, parse
from kfabric.prove.output import Finding, OutputError, Record, Scenario, Step, read
from kfabric.prove.places import Place
from kfabric.prove.run import Job, Mode

ROOT = Path(__file__).resolve().parents[2]

Prove = Callable[..., int]


@pytest.fixture
def prove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], Prove]:
    """Calls the command on scenarios with canned answers; the exit status."""

    def of(answers: dict[str, Any], **more: Any) -> Prove:
        names = dict.fromkeys(name.partition(" ")[0] for name in answers)
        listed = [fake.scenario(name, **more) for name in names]
        program = fake.program(tmp_path, listed, answers)
        monkeypatch.setattr(build, "ensure", lambda sources: program)
        monkeypatch.setattr(build, "declared", lambda sources: None)
        monkeypatch.setattr(places, "find", lambda *_: {})
        output = ["--output", str(tmp_path / "out")]
        return lambda *words: cli.main(["prove", *words, *output])

    return of


FOUND = [
    fake.step("setup", "alloc", "cq"),
    fake.step("reader", "lock", "queue"),
    fake.step("reader", "sleep"),
    fake.step("publisher", "write", "nready", "1"),
    fake.finding(),
]


VARIABLE = """\
 <1><10>: Abbrev Number: 2 (DW_TAG_base_type)
    <11>   DW_AT_byte_size   : 4
 <1><20>: Abbrev Number: 3 (DW_TAG_variable)
    <21>   DW_AT_name        : total
    <22>   DW_AT_type        : <0x10>
    <23>   DW_AT_location    : 9 byte block: 3 0 10 0 0 0 0 0 0 \t(DW_OP_addr: 1000)
"""


PLACES = {
    1: (Place("READ_ONCE", str(build.SHIM / "include/linux/compiler.h"), 3),),
    2: (Place("kfi_waitq_sleep", "/x/kmod/core/waitq.c", 120),),
    3: (Place("kfi_waitq_sleep", "/x/kmod/core/waitq.c", 131),),
    4: (Place("kfi_publish", "/x/kmod/core/publish.c", 9),),
}


# --- Results ---------------------------------------------------------------------------------


def test_all_executions_without_a_finding_are_a_proof(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """The row says so, with the number of executions; the status is 0."""
    assert prove({"one": [fake.result()]})("one") == ExitStatus.OK
    row = next(line for line in capsys.readouterr().out.splitlines() if "one" in line)
    assert row.split() == ["one", "W2", "V1", "dpor", "sc", "13", "0.0", "proved"]


def test_unfinished_exploration_is_not_called_proved(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """It says which limit ended it; the status is that of a run without a verdict."""
    unfinished = fake.result(complete=False, why_not="seconds")
    assert prove({"one": [unfinished]})("one") == ExitStatus.NOT_VERIFIED
    out = capsys.readouterr().out
    assert "no fault found, unfinished (seconds)" in out and "proved" not in out


@pytest.mark.parametrize("words", [["--mode", "random"], ["--mode", "pct"], ["--quick"]])
def test_sample_of_executions_is_not_called_proved_and_is_no_failure(
    words: list[str],
    prove: Callable[[dict[str, Any]], Prove],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nobody asked it to be complete."""
    unfinished = fake.result(complete=False, why_not="executions")
    assert prove({"one": [unfinished]})("one", *words) == ExitStatus.OK
    out = capsys.readouterr().out
    assert "no fault found" in out and "proved" not in out


def test_bound_is_no_proof_beyond_it(
    prove: Callable[..., Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """A scenario with a bound of its own is explored up to it, and says no more."""
    assert prove({"one 2": [fake.result()]}, bound=2)("one") == ExitStatus.OK
    out = capsys.readouterr().out
    assert "no fault up to 2 preemptions" in out and "proved" not in out


def test_finding_is_a_status_a_table_and_a_command_that_plays_it_again(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the steps of setup."""
    assert prove({"one": FOUND})("one") == ExitStatus.FAULT_FOUND
    out = capsys.readouterr().out
    assert "one: ASLEEP: reader sleeps for ever" in out
    assert "locks queue, sleeps" in out and "writes nready = 1" in out and "cq" not in out
    assert "again: kfabric prove one --memory sc --replay 0x3,1x2" in out
    assert "FOUND: asleep" in out


def test_table_has_the_names_of_the_debug_information_only_if_there_is_a_finding(
    prove: Callable[[dict[str, Any]], Prove],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is read for tables, not for proofs."""
    read: list[Path] = []

    def noted(program: Path) -> DebugInfo:
        read.append(program)
        return DebugInfo(parse(VARIABLE.splitlines()))

    monkeypatch.setattr(names, "_read", noted)
    memory = {"address": "0x1000", "start": None, "place": None, "size": 0}
    found = [{**fake.step("reader", "read", "raw", "0"), "memory": memory}, fake.finding()]
    assert prove({"one": [fake.result()]})("one") == ExitStatus.OK and not read
    assert prove({"two": found})("two") == ExitStatus.FAULT_FOUND
    assert "reads total = 0" in capsys.readouterr().out


def test_one_table_is_printed_for_each_cause(
    prove: Callable[[dict[str, Any]], Prove],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The shortest one; a line names the other runs, and each finding has its file."""
    other = {"text": "late sleeps for ever", "thread": "late", "schedule": "1", "kind": "asleep"}
    renamed = [fake.step("late", "sleep"), fake.result(complete=False, finding=other)]
    leak = [fake.step("reader", "alloc", "cq"), fake.finding("leak")]
    play = prove({"long": FOUND, "short": renamed, "other": leak})
    assert play("--memory", "all") == ExitStatus.FAULT_FOUND
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if ": ASLEEP: " in line or ": LEAK: " in line]
    assert heads == ["short: ASLEEP: late sleeps for ever", "other: LEAK: reader sleeps for ever"]
    models = "sc, tso, pso, weak"
    assert f"the same in 7 other runs: short (tso, pso, weak), long ({models})" in lines
    assert len(list((tmp_path / "out").glob("*.txt"))) == 3 * len(session.MEMORIES)
    play("short", "long")
    assert "the same in 1 other run: long\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("first", "second"), [(PLACES[2], PLACES[3]), (PLACES[2], PLACES[4]), (PLACES[3], ())]
)
def test_findings_at_two_places_are_two_causes(
    first: tuple[Place, ...], second: tuple[Place, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although their texts are the same."""
    found = [Finding("race", "a and b touch x", places=(place,)) for place in (1, 2)]
    outcomes = [run.Outcome(Job(Scenario("a")), run.Result(finding=one)) for one in found]
    monkeypatch.setattr(places, "find", lambda *_: {1: first, 2: second})
    assert show.groups(outcomes, Path()) == [[outcome] for outcome in outcomes]
    monkeypatch.setattr(places, "find", lambda *_: {1: first, 2: first})
    assert show.groups(outcomes, Path()) == [outcomes]


@pytest.mark.parametrize("width", [40, 100])
@pytest.mark.parametrize("terminal", [False, True])
def test_summary_cuts_no_name(width: int, terminal: bool) -> None:
    """On a terminal that is too narrow the rules are wrapped; a pipe gets one line for each row."""
    name, rules = "channel-close-beside-two-readers", tuple(f"W{n}" for n in range(20))
    job = Job(Scenario(name, rules=rules))
    table = show.summary([run.Outcome(job, run.Result(12_345_678, complete=True))])
    console = show.wide(Console(width=width, force_terminal=terminal), table)
    with console.capture() as captured:
        console.print(table)
    row = next(line for line in captured.get().splitlines() if name in line)
    assert "12,345,678" in row and "proved" in row
    assert terminal or " ".join(rules) in row


def test_finding_comes_before_an_unfinished_exploration(
    prove: Callable[[dict[str, Any]], Prove],
) -> None:
    """The worse of two is the exit status."""
    unfinished = fake.result(complete=False, why_not="executions")
    assert prove({"one": [unfinished], "two": FOUND})() == ExitStatus.FAULT_FOUND


def test_counterexample_is_that_of_the_fewest_preemptions(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """Bounds are tried from 0; the first one that shows the same kind is shown."""
    fewest = [fake.step("reader", "hook", "D1"), fake.finding(schedule="1x1")]
    other = [fake.finding("leak", schedule="2x2")]
    answers = {"one": FOUND, "one 0": [fake.result()], "one 1": fewest, "one 2": other}
    assert prove(answers)("one") == ExitStatus.FAULT_FOUND
    out = capsys.readouterr().out
    assert "one, sc: 1 preemption, the fewest that show it" in out and "hook D1" in out
    assert "--replay 1x1" in out


def test_what_comes_of_a_race_is_shown_beside_it(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The race may be the cause of a hang, and ends its execution before."""
    answers = {"one": [fake.step("reader", "read", "x"), fake.finding("race")], "one past": FOUND}
    assert prove(answers)("one") == ExitStatus.FAULT_FOUND
    out = capsys.readouterr().out
    assert "one: RACE: " in out and "one: ASLEEP: " in out
    assert "FOUND: race, asleep" in out and "1 run: 1 found" in out
    assert "one, sc, past data races: 0 preemptions" in out
    assert "ASLEEP" in (tmp_path / "out" / "one-sc.txt").read_text()
    (row,) = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert row["past_races"]["outcome"] == "FOUND: asleep"


def test_race_without_consequences_stands_alone(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is said of a finding that there is not."""
    answers = {"one": [fake.finding("race")], "one past": [fake.result()]}
    assert prove(answers)("one") == ExitStatus.FAULT_FOUND
    out = capsys.readouterr().out
    assert "FOUND: race\n" in out and "past data races" not in out


def test_unfinished_bound_makes_no_counterexample_the_shortest(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """What was found is shown as it is: a smaller one may have been left out."""
    answers = {"one": FOUND, "one 0": [fake.result(complete=False, why_not="seconds")]}
    assert prove(answers)("one") == ExitStatus.FAULT_FOUND
    out = capsys.readouterr().out
    assert "one, sc, by dpor" in out and "fewest" not in out


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([{"exit": 7, "text": "out of threads"}], "FOUND: crash"),
        ([{"exit": 0, "text": ""}], "FOUND: crash"),
    ],
)
def test_program_that_ends_without_a_result_is_a_finding(
    lines: list[dict[str, Any]],
    says: str,
    prove: Callable[[dict[str, Any]], Prove],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And never a run without a fault."""
    assert prove({"one": lines})("one") == ExitStatus.FAULT_FOUND
    assert says in capsys.readouterr().out


def test_program_that_does_not_end_is_killed_and_is_a_finding(
    prove: Callable[[dict[str, Any]], Prove],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After its own limit of time and some grace."""
    monkeypatch.setattr(run, "GRACE_SECONDS", 0.1)
    lines = [{"sleep": 1000}, fake.result()]
    assert prove({"one": lines})("one", "--seconds", "0.1") == ExitStatus.FAULT_FOUND
    assert "HANG: no end within 0.2 s" in capsys.readouterr().out


def test_interrupt_ends_the_programs_and_shows_what_was_found(
    prove: Callable[[dict[str, Any]], Prove],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A scenario that runs for long is killed; those that have ended are in the summary."""
    ended: list[run.Outcome] = []

    def interrupted(*words: Any) -> Any:
        for outcome in real(*words):
            ended.append(outcome)
            yield outcome
            raise KeyboardInterrupt

    real = session._outcomes
    monkeypatch.setattr(session, "_outcomes", interrupted)
    slow = [{"sleep": 1000}, fake.result()]
    assert prove({"one": [fake.result()], "two": slow})() == ExitStatus.INTERRUPTED
    out = capsys.readouterr().out
    assert [outcome.job.scenario.name for outcome in ended] == ["one"]
    assert "1 run: 1 proved" in out


def test_every_memory_model_is_a_row(
    prove: Callable[[dict[str, Any]], Prove], tmp_path: Path
) -> None:
    """With ``--memory all``; the results are named by all that decides them."""
    assert prove({"one": [fake.result()]})("one", "--memory", "all", "--seed", "7") == 0
    rows = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [row["memory"] for row in rows] == ["sc", "tso", "pso", "weak"]
    commit = session.commit_of(ROOT)
    assert rows[1]["name"] == f"one, dpor, tso, seed 7, {commit}"


def test_json_is_all_that_is_printed(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the steps of the counterexample."""
    assert prove({"one": FOUND})("one", "--json") == ExitStatus.FAULT_FOUND
    (one,) = json.loads(capsys.readouterr().out)
    assert one["outcome"] == "FOUND: asleep" and one["counterexample"]["schedule"] == "0x3,1x2"
    assert [step["thread"] for step in one["counterexample"]["steps"]][1] == "reader"


def test_results_go_into_the_document(
    prove: Callable[[dict[str, Any]], Prove], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The totals of each memory model; the page on the cases gets the executions."""
    written: list[str] = []
    monkeypatch.setattr(Measurement, "write", lambda self, kernel, text: written.append(text))
    monkeypatch.setattr(proofs, "write", lambda outcomes, *_: written.append(str(len(outcomes))))
    assert prove({"one": [fake.result()]})("--memory", "all", "--results") == ExitStatus.OK
    assert written[0] == str(len(session.MEMORIES))
    assert "- tso: 1 run: 1 proved; 400 steps\n" in written[1]


# --- Command line ----------------------------------------------------------------------------


def test_scenario_that_does_not_exist_gets_a_near_one(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and nothing is explored."""
    assert prove({"cq-one-reader": [fake.result()]})("cq-one-raeder") == ExitStatus.USAGE
    said = capsys.readouterr()
    assert said.err == ("kfabric: no such scenario: cq-one-raeder; did you mean cq-one-reader?\n")
    assert not said.out


def test_pattern_selects_the_scenarios_that_match(
    prove: Callable[[dict[str, Any]], Prove], tmp_path: Path
) -> None:
    """Beside names; each scenario is played once."""
    names = ("cq-one", "poll-one", "poll-two", "wait-set")
    play = prove({name: [fake.result()] for name in names})
    assert play("poll-*", "poll-two", "cq-one") == ExitStatus.OK
    rows = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [row["scenario"] for row in rows] == ["cq-one", "poll-one", "poll-two"]


@pytest.mark.parametrize("option", ["--replay=0x1", "--export=test_x.py"])
def test_pattern_of_several_scenarios_is_refused_where_one_is_needed(
    option: str, prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """A schedule is that of one scenario."""
    play = prove({"one": [fake.result()], "only": [fake.result()]})
    assert play("on*", option) == ExitStatus.USAGE
    assert f"{option[:8]} needs one scenario, not 2 scenarios" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"),
    [("poll-tow", "did you mean poll-two?"), ("zzz-*", "see kfabric prove --list")],
)
def test_unknown_name_is_refused_before_anything_is_compiled(
    name: str, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line; a pattern without a match is as unknown."""
    monkeypatch.setattr(build, "declared", lambda sources: ["poll-one", "poll-two"])
    monkeypatch.setattr(build, "ensure", lambda sources: pytest.fail("it compiles"))
    assert cli.main(["prove", name]) == ExitStatus.USAGE
    assert capsys.readouterr().err == f"kfabric: no such scenario: {name}; {hint}\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("PROVE_SCENARIO(poll_two,\n\t.says = 0);\nPROVE_SCENARIO(one, .says = 0);\n", True),
        ("#define MINE(id) PROVE_SCENARIO(id, .says = 0)\nMINE(poll_two);\nMINE(one);\n", False),
        ('#include "../others/all.c"\n', False),
    ],
    ids=["plain", "macro", "another folder"],
)
def test_names_are_read_from_files_that_can_be_read(text: str, names: bool, tmp_path: Path) -> None:
    """Otherwise only the program knows them, and no name is refused too early."""
    (tmp_path / "scenario.c").write_text(text)
    sources = build.Sources((), (tmp_path / "scenario.c",), kfabric=False, base=tmp_path)
    assert build.declared(sources) == (["poll-two", "one"] if names else None)


@pytest.mark.parametrize(
    "words",
    [
        ["--file", __file__],
        ["--scenario", __file__],
        ["--mode", "dpor", "--bound", "2"],
        ["--replay", "0x1"],
        ["one", "--replay", "0x1", "--memory", "all"],
        ["one", "--replay", "0x1", "--mode", "pct"],
        ["one", "--results"],
        ["--results"],
        ["--export", "test_x.py"],
        ["one", "--export", "test_x.py", "--memory", "tso"],
        ["one", "--export", "x.py"],
    ],
    ids=" ".join,
)
def test_options_that_contradict_each_other_are_refused(
    words: list[str], prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """With one line."""
    assert prove({"one": [fake.result()]})(*words) == ExitStatus.USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        ([], [session.SECONDS] * 4),
        (["2"], [2] * 4),
        (["2", "sc=300"], [300, 2, 2, 2]),
        (["weak=1"], [session.SECONDS] * 3 + [1]),
    ],
    ids=str,
)
def test_time_is_limited_for_each_memory_model(
    words: list[str], limits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit that names none is for the others."""
    plans: list[session.Plan] = []

    def play(plan: session.Plan, *_: object) -> int:
        plans.append(plan)
        return ExitStatus.OK

    monkeypatch.setattr(session, "check_names", lambda *_: None)
    monkeypatch.setattr(session, "play", play)
    options = [word for value in words for word in ("--seconds", value)]
    assert cli.main(["prove", "--memory", "all", *options]) == ExitStatus.OK
    (plan,) = plans
    assert [job.seconds for job in plan.jobs([Scenario("one")])] == limits


@pytest.mark.parametrize("limit", ["arm=3", "sc=0", "=3", "sc="])
def test_limit_that_is_none_is_refused(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Another memory model, no time, no model, no number: with one line."""
    with pytest.raises(SystemExit, match="2"):
        cli.main(["prove", "--seconds", limit])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kfabric prove: --seconds: ")


def test_schedule_of_other_code_is_refused(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """It was printed before a repair: the scenario has to be played anew."""
    text = "prove: the schedule does not fit: process 0 cannot run at step 78"
    play = prove({"one": [{"exit": 2, "text": text}]})
    assert play("one", "--replay", "0x1") == ExitStatus.USAGE
    said = "wrong usage: --replay: the schedule is of other code; play the scenario anew"
    assert f"kfabric: {said}\n" in capsys.readouterr().err


def test_list_has_each_scenario_with_its_sentence(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """In alphabetical order."""
    assert prove({"two": [], "one": []})("--list") == ExitStatus.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["one  one reads, one publishes", "two  one reads, one publishes"]


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job(Scenario("a")), "a --memory sc --seconds 60 --mode dpor --seed 1"),
        (
            Job(Scenario("a"), Mode.BOUND, "tso", 2, executions=9, records=3),
            "a --memory tso --seconds 60 --mode bound --seed 1 --bound 2 --executions 9 "
            "--records 3",
        ),
        (
            Job(Scenario("a"), Mode.REPLAY, replay="0x1"),
            "a --memory sc --seconds 60 --replay 0x1",
        ),
    ],
)
def test_program_gets_the_words_of_its_command_line(job: Job, words: str) -> None:
    """Only those that its mode knows."""
    assert job.argv == words.split()


@pytest.mark.parametrize("text", ["", "{}", "oops", "[]", '{"type": "other"}'])
def test_output_without_a_result_is_refused(text: str) -> None:
    """Nothing can be concluded from it."""
    with pytest.raises(OutputError):
        read(text.splitlines())


def test_execution_that_is_cut_off_is_not_judged() -> None:
    """Its events are no complete recording; those of the others stay."""
    record = {"type": "record", "name": "wait_begin", "thread": "reader"}
    lines = [
        {**record, "execution": 0},
        {**record, "execution": 5},
        {"type": "cut", "execution": 5},
        {"type": "cut", "execution": 10},
        fake.result(),
    ]
    assert [one.execution for one in read(map(json.dumps, lines)).records] == [0]


# --- The table -------------------------------------------------------------------------------


def test_steps_of_a_thread_in_one_function_are_one_row() -> None:
    """With its lines of source; another thread or function begins a new one."""
    steps = [
        Step("reader", "lock", "queue", place=2),
        Step("reader", "write", "state", "1", place=3),
        Step("publisher", "update", "nready", "1", place=4),
        Step("reader", "sleep", place=3),
    ]
    assert [str(row) for row in table.rows(steps, PLACES)] == [
        "kfi_waitq_sleep() waitq.c\n120 locks queue\n131 writes state = 1",
        "kfi_publish() publish.c\n9 updates nready = 1",
        "kfi_waitq_sleep() waitq.c\n131 sleeps",
    ]


def test_lock_is_shown_from_its_lock_to_its_unlock() -> None:
    """So that a reader sees which thread holds it; a trylock shows whether it took the lock."""
    steps = [
        Step("reader", "lock", "queue", place=2),
        Step("publisher", "trylock", "queue", "0", place=4),
        Step("reader", "unlock", "queue", place=3),
        Step("publisher", "trylock", "queue", "1", place=4),
    ]
    assert [str(row).partition("\n")[2] for row in table.rows(steps, PLACES)] == [
        "120 locks queue",
        "9 finds locked: queue",
        "131 unlocks queue",
        "9 locks queue",
    ]


def test_loop_of_steps_is_shown_once() -> None:
    """A thread that spins ends after 20,000 steps, which nobody reads."""
    read, lock = Step("a", "read", "x", "0", place=2), Step("a", "lock", "y", place=3)
    (row,) = table.rows([*[read, lock] * 5_000, read], PLACES)
    assert row.lines == [
        "120 reads x = 0",
        "131 locks y",
        "(these 2 again, 4,999 times)",
        "120 reads x = 0",
    ]


def test_loop_of_two_threads_is_shown_once() -> None:
    """The note is in the column of the thread that ran last; what comes before stays."""
    steps = [
        Step("b", "write", "x", "7", place=2),
        *[Step("b", "read", "x", "0", place=2), Step("a", "update", "x", "1", place=4)] * 9,
    ]
    assert [(row.thread, row.lines) for row in table.rows(steps, PLACES)] == [
        ("b", ["120 writes x = 7, reads x = 0"]),
        ("a", ["9 updates x = 1"]),
        ("b", ["120 reads x = 0"]),
        ("b", ["(these 2 again, 7 times)"]),
        ("a", ["9 updates x = 1"]),
    ]


def test_what_is_done_three_times_is_shown_three_times() -> None:
    """A note would be no shorter."""
    steps = [Step("a", "read", "x", "0", place=2), Step("a", "lock", "y", place=3)] * 3
    (row,) = table.rows(steps, PLACES)
    assert len(row.lines) == 6


def test_line_is_that_of_the_code_under_test() -> None:
    """Not that of the shim which it called; the caller counts then."""
    (row,) = table.rows([Step("reader", "read", "x", "0", place=1, stack=(2,))], PLACES)
    assert str(row) == "kfi_waitq_sleep() waitq.c\n120 reads x = 0"


def test_read_of_an_older_store_says_what_the_newest_is() -> None:
    """Under weak; another address is shown as one."""
    steps = [Step("a", "read", "x", "0", "1"), Step("a", "read", "y", "0", str(1 << 40))]
    assert [table.say(step) for step in steps] == [
        "reads x = 0 (older store; now = 1)",
        "reads y = 0 (older store; now ≠ 0)",
    ]


def test_columns_are_the_threads_in_their_order() -> None:
    """Those of the scenario that run, then timers and work items."""
    rows = [table.Row(name) for name in ("timer", "publisher", "reader")]
    assert table.threads(rows, ["reader", "publisher", "late"]) == ["reader", "publisher", "timer"]


THREE = ("reader", "late", "publisher")


def test_three_threads_fit_80_columns() -> None:
    """Each has a left edge; a name is said where the thread changes."""
    steps = [
        Step("reader", "lock", "queue->head.lock", place=2),
        Step("late", "sleep"),
        Step("publisher", "update", "nready", "1", place=4),
        Step("publisher", "read", " and ".join(["a_long_name"] * 5), "1", place=2),
    ]
    text = table.table(table.rows(steps, PLACES), THREE, 80)
    assert isinstance(text, str)
    assert text.splitlines() == [
        "",
        " reader  late    publisher",
        f" {'─' * 78}",
        " reader: kfi_waitq_sleep() waitq.c",
        "   120 locks queue->head.lock",
        "         late: sleeps",
        "                 publisher: kfi_publish() publish.c",
        "                   9 updates nready = 1",
        "                 kfi_waitq_sleep() waitq.c",
        "                   120 reads a_long_name and a_long_name and a_long_name and",
        "                     a_long_name and a_long_name = 1",
    ]
    assert max(map(len, text.splitlines())) < 80


def test_threads_have_columns_where_there_is_room() -> None:
    """Two at 80 columns, three at 120."""
    rows = [table.Row(name, steps=[(0, ["ends"])]) for name in THREE]
    assert not isinstance(table.table(rows[:2], THREE, 80), str)
    assert isinstance(table.table(rows, THREE, 100), str)
    assert not isinstance(table.table(rows, THREE, 120), str)


def test_names_that_are_longer_than_their_margin_have_a_line_each() -> None:
    """So that each stands at its edge."""
    names = ("a long name", "b")
    text = table.lanes([table.Row(name, steps=[(0, ["ends"])]) for name in names], names, 60)
    assert text.splitlines()[1:3] == [" a long name", "         b"]


def test_addr2line_is_read_with_inlined_functions() -> None:
    """Each address has the call and the places that it is inlined at."""
    text = "0x0f\ninner\n/x/a.h:3 (discriminator 1)\nouter\n/x/a.c:7\n0x1f\n??\n??:0\n"
    found = places.parse(text, {0x0F: 0x10, 0x1F: 0x20})
    assert found[0x10] == (Place("inner", "/x/a.h", 3), Place("outer", "/x/a.c", 7))


# --- What no scenario plays ------------------------------------------------------------------


def test_table_and_rule_without_a_scenario_are_listed(tmp_path: Path) -> None:
    """Never silently left out; what does not exist is listed, too."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/wakeups.md").write_text("### 1. One\n### 2. Two\n")
    (tmp_path / "tests/prove").mkdir(parents=True)
    (tmp_path / "tests/prove/rules.txt").write_text("W2\nW3 # why\n")
    found = coverage.of([Scenario("a", rules=("W2",), tables=(1, 3))], tmp_path)
    assert found.lines() == [
        "no scenario plays table 2, Two",
        "no scenario is about W3",
        "unknown: table 3",
    ]


def test_lists_name_what_the_documents_have() -> None:
    """All 19 tables are found, and each rule is one of the contract."""
    found = coverage.of([], ROOT)
    assert [number for number, _ in found.tables] == list(range(1, 20))
    contract = (ROOT / "docs/contract.md").read_text()
    assert not [rule for rule in found.rules if f"- **{rule}** " not in contract]


# --- The verdict on executions ---------------------------------------------------------------


def events(*lines: dict[str, Any]) -> list[Record]:
    """Records of canned lines."""
    return list(read([json.dumps(line) for line in (*lines, fake.result())]).records)


BEGIN = {"queue": 5, "fclass": 16, "need": 1, "exclusive": 0}
SIGNAL = {"queue": 5, "source": 4, "why": 1, "seq": 1, "have": 1, "sleepers": 1}
WAKE = {"queue": 5, "source": 4, "why": 1, "seq": 1, "pid": 1}
END = {"queue": 5, "fclass": 16, "ret": 0, "why": 1, "seq": 1, "seen": 0, "source": 4, "ready": 1}
NOTHING = {**END, "why": 0, "seq": 0, "ready": 0}
THREADS = ("reader", "publisher")


def execution(*, wake: bool = True, signal: bool = True) -> list[dict[str, Any]]:
    """A reader that sleeps until a publisher wakes it."""
    lines = [
        fake.event("wait_begin", "reader", **BEGIN),
        fake.event("sched_switch", "reader"),
        fake.event("signal", "publisher", **SIGNAL) if signal else None,
        fake.event("wake", "publisher", **WAKE) if wake else None,
        fake.event("sched_waking", "publisher", pid=1),
        fake.event("wait_end", "reader", **(END if wake else NOTHING)),
    ]
    return [line for line in lines if line]


def test_verdict_finds_nothing_in_a_wait_that_its_publication_ended() -> None:
    """Each execution of the sample is judged by itself."""
    lines = execution() + [{**line, "execution": 9} for line in execution()]
    assert judge.executions(events(*lines), THREADS) == (2, None)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (execution(signal=False), "SPURIOUS: "),
        (execution(wake=False), "LOST: "),
    ],
)
def test_verdict_names_the_fault_of_an_execution(lines: list[dict[str, Any]], text: str) -> None:
    """As in a recording of a guest."""
    judged, finding = judge.executions(events(*lines), THREADS)
    assert judged == 1
    assert finding and finding.kind == "verdict" and text in finding.text


def test_timer_between_a_mark_and_its_wake_up_is_no_fault() -> None:
    """The mark ends the wait; the waker's own request finds the thread about to sleep again."""
    lines = execution()
    timer = fake.event("sched_waking", "timer", pid=1, irq=1)
    assert judge.executions(events(*lines[:4], timer, *lines[4:]), THREADS) == (1, None)


def test_entry_of_a_publication_that_wakes_first_is_left_to_its_reader() -> None:
    """Two publications wake in the opposite order, one reader each; a third one sleeps on."""
    threads = ("one", "two", "three", "first", "second")
    begin = {**BEGIN, "fclass": 14, "exclusive": 1}
    end = {**END, "fclass": 14, "ret": 1}
    lines = []
    for reader in threads[:3]:
        lines += [fake.event("wait_begin", reader, **begin), fake.event("sched_switch", reader)]
    for publisher, seq, pid in (("second", 2, 1), ("first", 1, 2)):
        signal = {**SIGNAL, "seq": seq, "have": seq, "sleepers": 4 - pid}
        lines += [
            fake.event("signal", publisher, **signal),
            fake.event("wake", publisher, **{**WAKE, "seq": seq, "pid": pid}),
            fake.event("sched_waking", publisher, pid=pid),
        ]
    lines.append(fake.event("wait_end", "two", **end))
    lines.append(fake.event("wait_end", "one", **{**end, "seq": 2, "ready": 0}))
    assert judge.executions(events(*lines), threads) == (1, None)


def test_signal_after_the_wake_up_is_no_fault() -> None:
    """The thread was about to sleep again, and then saw the mark."""
    lines = execution()
    signal = fake.event("sched_waking", "signal", pid=1)
    assert judge.executions(events(*lines[:5], signal, *lines[5:]), THREADS) == (1, None)


def test_signal_before_the_sleep_is_no_fault_if_something_is_ready() -> None:
    """The thread did not sleep, and returns what it found."""
    lines = [
        fake.event("wait_begin", "reader", **BEGIN),
        fake.event("sched_waking", "publisher", pid=1),
        fake.event("signal", "publisher", **{**SIGNAL, "sleepers": 0}),
        fake.event("wait_end", "reader", **{**NOTHING, "ready": 1}),
    ]
    assert judge.executions(events(*lines), THREADS) == (1, None)


def test_wait_that_ends_twice_has_no_verdict() -> None:
    """A gap is a finding, too: the events of an execution are complete."""
    lines = execution()
    judged, finding = judge.executions(events(*lines, lines[-1]), THREADS)
    assert judged == 1 and finding and "1 unpaired" in finding.text


def test_finding_of_the_verdict_is_a_finding_of_the_run(
    prove: Callable[[dict[str, Any]], Prove], capsys: pytest.CaptureFixture[str]
) -> None:
    """Although the checker itself found nothing."""
    lines = [*execution(signal=False), fake.result()]
    assert prove({"one": lines})("one", "--records", "1") == ExitStatus.FAULT_FOUND
    out = capsys.readouterr().out
    assert "VERDICT: execution 0: SPURIOUS" in out and "judged 1 execution" in out


# --- The build -------------------------------------------------------------------------------


def test_gcc_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its absence is one line."""
    build._compiler.cache_clear()
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Exception, match="gcc is not in PATH") as raised:
        build.ensure(build.Sources((), (), False, ROOT))
    assert "\n" not in raised.value.line()  # type: ignore[attr-defined]
    build._compiler.cache_clear()


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (
            "/c/kmod/core/x.c:3:2: error: implicit declaration of function 'foo'; did you mean",
            "kmod/core/x.c uses foo(), which the shim lacks",
        ),
        (
            "/usr/bin/ld: /tmp/a.o: in function `f':\n/c/kmod/core/x.c:9: undefined reference to "
            "`foo'\ncollect2: error: ld returned 1 exit status",
            "kmod/core/x.c uses foo, which the shim lacks",
        ),
        (
            "/c/kmod/core/x.c:1:10: fatal error: linux/foo.h: No such file or directory",
            "kmod/core/x.c includes <linux/foo.h>, which the shim lacks",
        ),
        (
            "/c/kmod/core/x.c:4:1: error: unknown type name 'foo_t'",
            "kmod/core/x.c uses foo_t, which the shim lacks",
        ),
        ("/c/kmod/core/x.c:1:1: error: expected ';'", "kmod/core/x.c:1:1: error: expected ';'"),
    ],
)
def test_missing_primitive_is_one_line(log: str, says: str) -> None:
    """It names the file and what the shim lacks."""
    sources = build.Sources((), (), True, Path("/c"))
    assert build._failure(log, sources) == says


def test_cache_that_cannot_be_written_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the directory of the results."""
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr(build, "source", SimpleNamespace(results=lambda: tmp_path / "build"))
    assert build.directory() == tmp_path / "build" / "prove-cache"
