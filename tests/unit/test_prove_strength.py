# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Mutants and weakened barriers of a toy core, played in its one scenario."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from kfabric import cli
from kfabric.errors import ExitStatus, SetupError, UsageError
from kfabric.mutants import catalogue, scenarios
from kfabric.mutants.catalogue import Mutant, Outcome, Verdict
from kfabric.mutants.scenarios import Excuse, Run
from kfabric.prove import barriers
from kfabric.prove.barriers import Barrier, Weakened
from kfabric.prove.output import Finding, Output, Result, Scenario
from kfabric.prove.run import Job
from kfabric.prove.variants import Tried, by_rules, first_finding

ROOT = Path(__file__).resolve().parents[2]

CORE = """\
// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
#include "core.h"

int toy_data, toy_ready, toy_unused;

/* The smp_wmb() in this comment is no barrier. */
void toy_post(void)
{
	toy_data = 7;
	smp_store_release(&toy_ready, 1);
	toy_unused = 1;
	smp_mb();
}

bool toy_take(int *data)
{
	if (!smp_load_acquire(&toy_ready))
		return false;
	*data = toy_data;
	return true;
}
"""

SCENARIO = """\
// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
#include <prove.h>

#include "core.h"

void toy_post(void);
bool toy_take(int *data);

static void post(void)
{
	toy_post();
}

static void take(void)
{
	int data;

	if (toy_take(&data))
		prove_check(data == 7, "the reader sees what was posted");
}

PROVE_SCENARIO(toy_one, .rules = "V1", .says = "one posts, one takes",
		.threads = { { "poster", post }, { "taker", take } });
"""

FAULTY = """\

static void wrong(void)
{
	prove_check(false, "it fails without a change, too");
}

PROVE_SCENARIO(toy_wrong, .rules = "V2", .says = "it fails",
		.threads = { { "wrong", wrong } });
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A checkout whose core is one file, with the headers of the real one."""
    shutil.copytree(ROOT / "kmod/include", tmp_path / "kmod/include")
    (tmp_path / "kmod/core").mkdir()
    for path in [ROOT / "kmod/compat.h", *(ROOT / "kmod/core").glob("*.h")]:
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    (tmp_path / "kmod/core/toy.c").write_text(CORE)
    (tmp_path / "kmod/core/main.c").write_text("this does not compile\n")
    (tmp_path / "tests/prove").mkdir(parents=True)
    (tmp_path / "tests/prove/toy.c").write_text(SCENARIO)
    (tmp_path / scenarios.EXCUSES).write_text("# none\n")
    return tmp_path


def mutant(toy: Path, old: str, new: str, file: str = "kmod/core/toy.c") -> Mutant:
    """A patch that replaces one line."""
    path = toy / f"{file.replace('/', '-')}.patch"
    before = (toy / file).read_text().splitlines(keepends=True)
    place = next(number for number, line in enumerate(before) if old in line)
    changed = f"-{before[place]}+{before[place].replace(old, new)}"
    hunk = f"@@ -{place + 1} +{place + 1} @@\n{changed}"
    header = "Breaks: it\nRules: V1\nTests:\n  test_a.py::test_one\n\n"
    path.write_text(f"{header}--- a/{file}\n+++ b/{file}\n{hunk}")
    return catalogue.read(path)


def play(
    toy: Path, broken: Mutant, excuse: Excuse | None = None, named: bool = True
) -> tuple[Outcome, Sequence[str]]:
    """The outcome of one mutant, and the scenarios that were left out."""
    excused = {broken.name: excuse} if excuse else {}
    run = Run(toy, excused, 1, 100, lambda outcome: None)
    return run.all([broken], named)[0], run.left_out


# --- Mutants ---------------------------------------------------------------------------------


def test_finding_kills_a_mutant(toy: Path) -> None:
    """The outcome has the scenario, the kind of the finding and the executions."""
    outcome, _ = play(toy, mutant(toy, "toy_data = 7", "toy_data = 8"))
    assert (outcome.verdict, outcome.test, outcome.why) == (Verdict.KILLED, "toy-one", "check")
    assert outcome.executions > 0


def test_mutant_without_a_finding_survives(toy: Path) -> None:
    outcome, _ = play(toy, mutant(toy, "toy_unused = 1", "toy_unused = 2"))
    assert (outcome.verdict, outcome.why) == (Verdict.SURVIVED, "1 scenario passed")
    assert not outcome.verdict.good


def test_mutants_do_not_add_up(toy: Path) -> None:
    """Each is played alone, and the checkout stays as it is."""
    killed = mutant(toy, "toy_data = 7", "toy_data = 8")
    kept = killed.patch.rename(toy / "first.patch")
    others = [catalogue.read(kept), mutant(toy, "toy_unused = 1", "toy_unused = 2")]
    verdicts = [one.verdict for one in Run(toy, {}, 1, 100, lambda one: None).all(others, True)]
    assert verdicts == [Verdict.KILLED, Verdict.SURVIVED]
    assert (toy / "kmod/core/toy.c").read_text() == CORE


def test_mutant_of_a_file_that_is_not_compiled_survives(toy: Path) -> None:
    """It is not called killed or equivalent: nothing was played."""
    outcome, _ = play(toy, mutant(toy, "does not", "DOES NOT", "kmod/core/main.c"))
    assert (outcome.verdict, outcome.executions) == (Verdict.SURVIVED, 0)
    assert outcome.why == "scenarios compile none of its files"


@pytest.mark.parametrize(
    ("old", "new"), [("toy_data = 7", "toy_data = seven"), ("toy_data = 7", "toy_data = 7;;}")]
)
def test_mutant_that_does_not_compile_proves_nothing(toy: Path, old: str, new: str) -> None:
    assert play(toy, mutant(toy, old, new))[0].verdict is Verdict.BROKEN


def test_mutant_that_does_not_apply_proves_nothing(toy: Path) -> None:
    broken = mutant(toy, "toy_data = 7", "toy_data = 8")
    (toy / "kmod/core/toy.c").write_text(CORE.replace("= 7", "= 9"))
    outcome, _ = play(toy, broken)
    assert outcome.verdict is Verdict.BROKEN and "does not apply" in outcome.why


def test_excused_survivor_is_no_failure(toy: Path) -> None:
    """The outcome has the reason."""
    excuse = Excuse(Verdict.EQUIVALENT, "no thread reads it")
    outcome, _ = play(toy, mutant(toy, "toy_unused = 1", "toy_unused = 2"), excuse)
    assert outcome.verdict.good
    assert (outcome.verdict, outcome.why) == (Verdict.EQUIVALENT, "no thread reads it")


def test_excuse_of_a_killed_mutant_is_refused(toy: Path) -> None:
    excuse = Excuse(Verdict.EQUIVALENT, "no thread reads it")
    outcome, _ = play(toy, mutant(toy, "toy_data = 7", "toy_data = 8"), excuse)
    assert outcome.verdict is Verdict.BROKEN
    assert outcome.why == "check, but tests/prove/mutants.txt calls it equivalent"


@pytest.mark.parametrize("named", [False, True])
def test_mutant_that_is_not_about_waiting_is_played_if_it_is_named(toy: Path, named: bool) -> None:
    excuse = Excuse(Verdict.NOT_WAITING, "it counts")
    broken = mutant(toy, "toy_unused = 1", "toy_unused = 2")
    outcome, _ = play(toy, broken, excuse, named)
    assert outcome.verdict is Verdict.NOT_WAITING
    assert (outcome.executions > 0) == named


def test_scenario_with_a_finding_on_the_original_kills_nothing(toy: Path) -> None:
    """It is left out, by name."""
    (toy / "tests/prove/toy.c").write_text(SCENARIO + FAULTY)
    outcome, left_out = play(toy, mutant(toy, "toy_unused = 1", "toy_unused = 2"))
    assert outcome.verdict is Verdict.SURVIVED
    assert left_out == ["toy-wrong"]


def test_scenarios_of_its_rules_come_first() -> None:
    jobs = [Job(Scenario(name, rules=rules)) for name, rules in RULES.items()]
    names = [job.scenario.name for job in by_rules(jobs, ["W2", "V1"])]
    assert names == ["both", "one", "none", "other"]


RULES = {"none": (), "one": ("W2",), "other": ("Q1",), "both": ("V1", "W2", "Q1")}


class Canned:
    """A runner whose explorations have these findings, in order."""

    def __init__(self, *kinds: str) -> None:
        self._kinds = iter(kinds)

    def explore(self, job: Job) -> Output:
        """The next one."""
        return Output(Result(executions=10, finding=Finding(next(self._kinds), "it is so")))


def test_limit_of_the_checker_kills_nothing() -> None:
    """An execution that cannot be played shows no fault: the next scenario decides."""
    jobs = [Job(Scenario(name)) for name in ("limited", "hanging", "racing", "later")]
    tried = first_finding(Canned("limit", "hang", "race", "leak"), jobs)
    assert tried.job and tried.job.scenario.name == "racing"
    assert tried.executions == 30


def test_mutants_of_other_modules_are_not_played(toy: Path) -> None:
    own = mutant(toy, "toy_unused = 1", "toy_unused = 2")
    (toy / "kmod/dev").mkdir()
    (toy / "kmod/dev/msg.c").write_text("int one;\n")
    other = mutant(toy, "one", "two", "kmod/dev/msg.c")
    assert scenarios.of_core([own, other]) == [own]
    with pytest.raises(UsageError, match="kmod/core alone"):
        scenarios.of_core([other])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("kmod-core-toy.c: equivalent", "NAME: KIND: REASON"),
        ("kmod-core-toy.c: harmless: no thread reads it", "NAME: KIND: REASON"),
        ("kmod-core-toi.c: equivalent: no thread reads it", "is no mutant"),
    ],
)
def test_wrong_line_of_the_excuses_is_refused(toy: Path, line: str, says: str) -> None:
    own = mutant(toy, "toy_unused = 1", "toy_unused = 2")
    (toy / scenarios.EXCUSES).write_text(f"{line}\n")
    with pytest.raises(SetupError, match=says):
        scenarios.excuses(toy, [own])


def test_excuses_of_this_checkout_name_its_mutants() -> None:
    known = catalogue.load(ROOT)
    assert {excuse.verdict for excuse in scenarios.excuses(ROOT, known).values()} <= {
        Verdict.EQUIVALENT,
        Verdict.NOT_WAITING,
    }


# --- Barriers --------------------------------------------------------------------------------


@pytest.fixture
def weakened(toy: Path) -> dict[str, Weakened]:
    """The results for the barriers of toy.c, by their name."""
    every, _ = barriers.play(toy, (), ("tso",), 100)
    return {one.barrier.name: one for one in every if one.barrier.file.name == "toy.c"}


def test_each_barrier_of_the_code_is_weakened_once(weakened: dict[str, Weakened]) -> None:
    """Comments have none. The place names file, line and function."""
    assert [str(one.barrier) for one in weakened.values()] == [
        "toy.c:10 toy_post()",
        "toy.c:12 toy_post()",
        "toy.c:17 toy_take()",
    ]


@pytest.mark.parametrize("name", ["smp_store_release", "smp_load_acquire"])
def test_missing_order_is_found(weakened: dict[str, Weakened], name: str) -> None:
    one = weakened[name]
    assert one.found and one.words == "race"
    assert one.tried.job and one.tried.job.scenario.name == "toy-one"


def test_barrier_that_no_scenario_needs_is_listed(weakened: dict[str, Weakened]) -> None:
    one = weakened["smp_mb"]
    assert not one.found and one.words == "no scenario finds it"
    view = barriers.table([one])
    assert "no scenario finds it" in [str(cell) for cell in view.columns[2].cells]


@pytest.mark.parametrize(
    ("strong", "weak"),
    [
        ("smp_store_release(&q->dead, f(a, b))", "WRITE_ONCE(*(&q->dead), f(a, b))"),
        ("smp_load_acquire(&a[f(x, y)].b)", "READ_ONCE(*(&a[f(x, y)].b))"),
        ("smp_rmb()", "barrier()"),
        ("smp_mb__after_atomic()", "barrier()"),
        ("set_current_state(TASK_RUNNING)", "__set_current_state(TASK_RUNNING)"),
        ("rcu_assign_pointer(p, new)", "RCU_INIT_POINTER(p, new)"),
        ("atomic_set_release(&v, 1)", "atomic_set(&v, 1)"),
        ("atomic_read_acquire(&v)", "atomic_read(&v)"),
        ("atomic64_inc_return(&v)", "atomic64_inc_return_relaxed(&v)"),
        ("atomic_cmpxchg_acquire(&v, 1, 0)", "atomic_cmpxchg_relaxed(&v, 1, 0)"),
        ("__set_current_state(TASK_RUNNING)", None),
        ("atomic_inc(&v)", None),
        ("atomic64_inc_return_relaxed(&v)", None),
        ("atomic_fetch_add_relaxed(1, &v)", None),
        ('pr_info("smp_mb() is a full barrier")', None),
    ],
)
def test_weaker_operation_orders_nothing(toy: Path, strong: str, weak: str | None) -> None:
    """The rest of the line, and the number of lines, stay."""
    file = Path("kmod/core/toy.c")
    (toy / file).write_text(f"void f(void)\n{{\n\ta = b; {strong}; c = d;\n}}\n")
    found = [one for one in barriers.find(barriers.build.of_kfabric(toy)) if one.file == file]
    assert len(found) == (weak is not None)
    if weak:
        found[0].weaken(toy)
        assert (toy / file).read_text() == f"void f(void)\n{{\n\ta = b; {weak}; c = d;\n}}\n"


# --- Command lines ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["--mode", "pct"], ["--bound", "2"], ["--json"], ["--replay", "0,1"], ["--quick"]],
)
def test_barriers_have_their_own_mode_and_output(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The other options are refused in one line."""
    assert cli.main(["prove", "toy-one", "--barriers", *words]) == ExitStatus.USAGE
    assert "--barriers plays the scenarios of kfabric" in capsys.readouterr().err


def test_executions_are_those_of_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    """Tests in guests have none."""
    assert cli.main(["mutants", "--executions", "7"]) == ExitStatus.USAGE
    assert "--executions needs --prove" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("finding", "status"),
    [(Finding("race", "unordered"), ExitStatus.OK), (None, ExitStatus.NOT_VERIFIED)],
)
def test_exit_status_says_whether_each_barrier_is_needed(
    finding: Finding | None, status: ExitStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Barrier(Path("toy.c"), 7, "toy_post", "smp_mb", "barrier", 0, 8)
    found = [Weakened(place, Tried(finding=finding))]
    monkeypatch.setattr(barriers, "play", lambda *_: (found, []))
    assert cli.main(["prove", "--barriers"]) == status


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.KILLED, ExitStatus.OK),
        (Verdict.EQUIVALENT, ExitStatus.OK),
        (Verdict.NOT_WAITING, ExitStatus.OK),
        (Verdict.SURVIVED, ExitStatus.TEST_FAILED),
        (Verdict.BROKEN, ExitStatus.TEST_FAILED),
    ],
)
def test_exit_status_says_whether_a_scenario_is_missing(
    verdict: Verdict,
    status: ExitStatus,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The table has the verdict, too."""
    broken = catalogue.load(ROOT, ["herd"])[0]
    monkeypatch.setattr(Run, "all", lambda *_: [Outcome(broken, verdict, why="it is so")])
    assert cli.main(["mutants", "--prove", "herd"]) == status
    assert f"herd     Q3 B22   {verdict.value} " in capsys.readouterr().out
