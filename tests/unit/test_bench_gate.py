# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The comparison of what operations take with the tree's reference; nothing is measured here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_bench import changed, whole

from kfabric.bench import figures, gate, host, plans
from kfabric.bench.gate import Reference
from kfabric.commands import bench
from kfabric.errors import ExitStatus, UsageError

KERNEL = "6.1.0-1-amd64"
OTHER_KERNEL = "6.1.0-2-amd64"


def reference(**values: float) -> Reference:
    return Reference(KERNEL, {"trips": 1000.0, "sleeps": 2.0, **values})


def test_the_gate_plays_the_lines_that_it_needs_three_times_each() -> None:
    plan = gate.plan()
    assert {plan.count(line) for line in plan} == {3}
    # The probes are attached once.
    watched = [i for i, line in enumerate(plan) if "watched" in line]
    assert watched == list(range(watched[0], watched[0] + 3))
    assert set(plan) < set(plans.INSTRUCTIONS)
    # The other sides of the ratios are not ours.
    assert not [line for line in plan if "pyverbs" in line or line.startswith("fi_poll")]


def test_a_figure_is_of_one_operation() -> None:
    counted, _ = whole()
    found = gate.measured(counted)
    assert found["kfi_wait: instructions"] == pytest.approx(1200)
    assert found["kfi_poll, 16 members: instructions"] == pytest.approx(1000)
    assert found["RDM on rxe: instructions"] == pytest.approx(1125)


def test_a_figure_that_was_measured_several_times_is_the_least() -> None:
    counted, _ = whole()
    one = next(i for i, sample in enumerate(counted) if sample.line.startswith("pingpong kfi"))
    counted[one] = figures.Sample(counted[one].line, {**counted[one].figures, "cycles": 10**12})
    assert gate.measured(counted)["kfi_wait: instructions"] == pytest.approx(1200)


def test_a_figure_without_its_line_is_missing() -> None:
    counted, _ = whole()
    with pytest.raises(figures.Missing, match="ioctl"):
        gate.measured([sample for sample in counted if sample.words[0] != "ioctl"])


@pytest.mark.parametrize(
    ("now", "status"),
    [
        (1029.0, ExitStatus.OK),
        (971.0, ExitStatus.OK),
        (1031.0, ExitStatus.TEST_FAILED),
        (969.0, ExitStatus.TEST_FAILED),
        (0.0, ExitStatus.TEST_FAILED),
    ],
)
def test_a_change_of_more_than_three_percent_fails_either_way(
    now: float, status: ExitStatus, capsys: pytest.CaptureFixture[str]
) -> None:
    assert host.judge(reference(), reference(trips=now)) == status
    shown = capsys.readouterr().out
    assert "1000 " in shown and f"{now:g}" in shown
    assert ("CHANGED" in shown) == (status != ExitStatus.OK)


def test_a_figure_that_was_nothing_may_stay_nothing() -> None:
    assert host.judge(reference(sleeps=0), reference(sleeps=0)) == ExitStatus.OK
    assert host.judge(reference(sleeps=0), reference(sleeps=1)) == ExitStatus.TEST_FAILED


@pytest.mark.parametrize("side", [0, 1])
def test_a_figure_that_one_side_lacks_fails(side: int) -> None:
    pair = [reference(), reference()]
    pair[side] = reference(more=1.0)
    assert host.judge(*pair) == ExitStatus.TEST_FAILED


def test_figures_of_two_kernels_are_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    other = Reference(OTHER_KERNEL, {"trips": 5000.0, "sleeps": 2.0})
    assert host.judge(reference(), other) == ExitStatus.NOT_VERIFIED
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"not judged: counted on {KERNEL} before, on {OTHER_KERNEL} now"


def test_a_reference_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    reference(trips=1234.56789).save(file)
    assert Reference.load(file) == reference(trips=1234.5679)


def test_the_reference_of_the_tree_has_the_figures_of_the_gate() -> None:
    assert list(Reference.load(host.REFERENCE).figures) == [one.title for one in gate.FIGURES]


def test_the_report_of_a_bench_can_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = []
    for name, cost in (("before", 1200), ("after", 1300)):
        counted, timed = whole()
        more = changed(counted, "pingpong kfi batch", cycles=cost * 2000)
        (tmp_path / name).mkdir()
        host.conclude(tmp_path / name, more, timed, {"guest kernel": KERNEL})
        reports.append(str(tmp_path / name / host.REPORT))
    capsys.readouterr()
    assert bench.main(["compare", *reports]) == ExitStatus.TEST_FAILED
    shown = capsys.readouterr().out
    assert "1200" in shown and "1300" in shown and "+8.3%" in shown


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"figures": {}}), "\N{SNOWMAN}"])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="is no report of this bench"):
        bench.main(["compare", str(file), str(file)])


@pytest.mark.parametrize(
    "argv",
    [
        ["compare"],
        ["compare", __file__],
        ["compare", "/nonexistent", __file__],
        ["gate", __file__],
        ["--update"],
        ["gate", "--results"],
        ["watch"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_one_line(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        bench.main(argv)
    assert end.value.code == ExitStatus.USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1
