# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The runs of `kfabric test` for its arguments, and their common status."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfabric import names
from kfabric.docs.results import Measurement
from kfabric.errors import ExitStatus, KfabricError, SetupError, counted
from kfabric.runner import junit, testoptions, testrun
from kfabric.runner.testrun import BROWSER, GUEST, MODEL, UNIT, VM, WORKERS, Part


@pytest.fixture(autouse=True)
def own_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test removes the results of a real run."""
    monkeypatch.setattr(testrun, "REPORTS", tmp_path)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([0, 0], ExitStatus.OK),
        ([0, 1], ExitStatus.TEST_FAILED),
        ([1, 0], ExitStatus.TEST_FAILED),
        ([1, ExitStatus.BOOT], ExitStatus.BOOT),
        ([ExitStatus.PANIC, 1], ExitStatus.PANIC),
        ([0, pytest.ExitCode.USAGE_ERROR], ExitStatus.USAGE),
        ([0, pytest.ExitCode.NO_TESTS_COLLECTED], ExitStatus.TEST_FAILED),
    ],
)
def test_worst_status_wins(codes, expected) -> None:
    """A broken machine wins over a failed test, and both win over success."""
    assert testrun.combine(codes, filtered=False) == expected


def test_a_filter_may_leave_one_part_empty_but_not_all() -> None:
    """`-k` for a guest test selects nothing on the host."""
    empty = int(pytest.ExitCode.NO_TESTS_COLLECTED)
    assert testrun.combine([empty, 0], filtered=True) == ExitStatus.OK
    assert testrun.combine([empty, empty], filtered=True) == ExitStatus.TEST_FAILED


@pytest.mark.parametrize(
    ("pytests", "ours"),
    [
        (0, ExitStatus.OK),
        (1, ExitStatus.TEST_FAILED),
        (2, ExitStatus.TEST_FAILED),
        (4, ExitStatus.USAGE),
        (ExitStatus.HANG, ExitStatus.HANG),
        (-9, 137),
    ],
)
def test_pytest_statuses_do_not_collide_with_ours(pytests, ours) -> None:
    """pytest's 2, 4 and 5 have other meanings than ours."""
    assert testrun.status_of(pytests) == ours


def test_no_paths_mean_everything() -> None:
    """First the parts that take seconds, then those with guests."""
    assert testrun.parts([], 2) == [
        Part("unit", (str(UNIT),), workers=WORKERS),
        Part("browser", (str(BROWSER),), workers=WORKERS),
        Part("vm", (str(VM), str(MODEL)), workers=WORKERS),
        Part("guest", (str(GUEST),), 2),
    ]


def test_paths_go_where_they_can_run() -> None:
    """Unit tests stay on the host, anything else goes to guests."""
    unit, guest = f"{UNIT}/test_plugin_testrun.py::test_x", "examples"
    assert testrun.parts([guest, unit], 1) == [Part("unit", (unit,)), Part("guest", (guest,), 1)]
    assert testrun.parts([guest], 1) == [Part("guest", (guest,), 1)]
    assert testrun.parts([f"{BROWSER}/test_page.py"], 1)[0].name == "browser"
    assert testrun.parts(["tests/debug/test_checks.py"], 1)[0].name == "vm"
    assert testrun.parts(["tests/wire"], 1)[0].name == "wire"


@pytest.mark.parametrize(("status", "raised"), [(0, False), (70, True)])
def test_browser_is_installed_only_for_its_tests(monkeypatch, status, raised) -> None:
    """By the set-up script, whose failure is one of the set-up, not of a test."""
    seen: list[Sequence[str]] = []

    def run(argv: Sequence[str], **_: object) -> SimpleNamespace:
        seen.append(argv[1:])
        return SimpleNamespace(returncode=status)

    monkeypatch.setattr(testrun.subprocess, "run", run)
    monkeypatch.setattr(testrun, "_run", lambda argv: 0)
    testrun.main([f"{UNIT}/test_plugin_testrun.py"])
    assert seen == []
    with pytest.raises(SetupError) if raised else nullcontext():
        testrun.main([f"{BROWSER}/test_page.py"])
    assert seen == [["host", "browser"]]


def _boot_nothing(monkeypatch) -> None:
    monkeypatch.setattr(testrun, "_prepare", _image)
    monkeypatch.setattr(testrun, "precompiling", lambda image, paths: nullcontext())
    monkeypatch.setattr(testrun.memory, "available_mib", lambda: 1 << 20)
    monkeypatch.setenv(testrun.asked.ENVIRONMENT, "{}")  # is restored after the test


def _image(name: str, *_: object) -> SimpleNamespace:
    return SimpleNamespace(
        release=f"{name}.0", version=testrun.versions.load(testrun.prepare.SOURCE).find(name)
    )


def _runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Sequence[str], str]]:
    """The arguments and the kernel of each run; all of them pass."""
    seen: list[tuple[Sequence[str], str]] = []

    def run(argv: Sequence[str], kernel: str = "") -> int:
        seen.append((argv, kernel))
        return 0

    monkeypatch.setattr(testrun, "_run", run)
    return seen


def test_options_are_passed_on_to_pytest(monkeypatch) -> None:
    """Words that are no paths are options or their values."""
    _boot_nothing(monkeypatch)
    seen = _runs(monkeypatch)
    words = ["-k", "lost", "-x", "--verify-wakeups"]
    assert testrun.main(["--vms", "2", str(GUEST), *words, "--", "--modules"]) == 0
    ((argv, _),) = seen
    assert argv[-6:] == [*words, "--modules", str(GUEST)]
    assert argv[argv.index("--kfabric-vms") + 1] == "2"


@pytest.mark.parametrize(
    ("words", "guests"),
    [
        (["{one}"], "1"),
        (["{two}"], "2"),
        (["{two}::test_b"], "1"),
        (["{two}::test_a", "{two}::test_b"], "2"),
        (["{one}", "--vms", "2"], "2"),
        ([str(GUEST)], "2"),
    ],
)
def test_one_test_gets_one_guest(monkeypatch, tmp_path, words, guests) -> None:
    """A second guest would boot for nothing, and take a CPU from the first."""
    (tmp_path / "test_one.py").write_text("def test_a(): ...\n")
    (tmp_path / "test_two.py").write_text("def test_a(): ...\nasync def test_b(): ...\n")
    names = {"one": tmp_path / "test_one.py", "two": tmp_path / "test_two.py"}
    _boot_nothing(monkeypatch)
    seen = _runs(monkeypatch)
    assert testrun.main([word.format(**names) for word in words]) == 0
    ((argv, _),) = seen
    assert argv[argv.index("--kfabric-vms") + 1] == guests


@pytest.mark.parametrize(("kernel", "guests"), [("6.1", 3), ("debug", 1)])
def test_no_more_guests_than_the_host_has_memory_for(monkeypatch, capsys, kernel, guests) -> None:
    """A kernel with checks needs more for each; a line shows it."""
    _boot_nothing(monkeypatch)
    monkeypatch.setattr(testrun.memory, "available_mib", lambda: 4500)
    seen = _runs(monkeypatch)
    assert testrun.main(["--vms", "8", "--kernel", kernel, str(GUEST)]) == 0
    ((argv, _),) = seen
    assert argv[argv.index("--kfabric-vms") + 1] == str(guests)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kfabric: {counted(guests, 'guest')} at a time, not 8: each needs ")
    assert line.endswith("the host has 4500 MiB available")


def test_memory_that_was_asked_for_limits_the_guests(monkeypatch, capsys) -> None:
    _boot_nothing(monkeypatch)
    monkeypatch.setattr(testrun.memory, "available_mib", lambda: 4500)
    seen = _runs(monkeypatch)
    assert testrun.main(["--vms", "8", "--memory", "2000", "--kernel", "6.1", str(GUEST)]) == 0
    ((argv, _),) = seen
    assert argv[argv.index("--kfabric-vms") + 1] == "2"
    assert "each needs 2000 MiB" in capsys.readouterr().err


@pytest.mark.parametrize(("available", "wanted"), [(4500, 3), (None, 8), (100, 1), (100, 0)])
def test_guests_that_fit_are_as_many_as_were_asked_for(
    monkeypatch, capsys, available, wanted
) -> None:
    """Also if the available memory is unknown; at least one is tried, unless all are remote."""
    monkeypatch.setattr(testrun.memory, "available_mib", lambda: available)
    part = Part("guest", ("tests",), wanted)
    assert testrun.fit(part, _image("6.1").version) == part
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("option", ["--ignore", "--deselect", "-k", "-c"])
def test_value_of_an_option_is_no_path(option) -> None:
    """Otherwise only the excluded tests would run."""
    words = [str(GUEST), option, str(UNIT), "-x"]
    assert testoptions.split(words) == ([str(GUEST)], [option, str(UNIT), "-x"])


CASES = {
    "6.1": '<testcase classname="tests.guest.test_a" name="one"/>'
    '<testcase classname="tests.guest.test_b.TestX" name="two"><skipped/></testcase>',
    "6.12": '<testcase classname="tests.guest.test_a" name="one"><failure/></testcase>'
    '<testcase classname="tests.guest.test_a" name="other"/>',
}


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Runs that write a report each, and no guests."""
    _boot_nothing(monkeypatch)
    monkeypatch.setattr(testrun, "REPORTS", tmp_path)

    def run(argv: Sequence[str], kernel: str) -> int:
        if kernel in CASES:
            (tmp_path / f"guest-{kernel}.xml").write_text(f"<testsuite>{CASES[kernel]}</testsuite>")
        return 0

    monkeypatch.setattr(testrun, "_run", run)
    return tmp_path


def test_each_kernel_has_a_run_and_the_table_has_a_column_each(reports) -> None:
    assert testrun.main(["--kernel", "6.1", "--kernel", "6.12", str(GUEST)]) == 0
    assert (reports / "matrix.md").read_text() == (
        "| test file | 6.1 | 6.12 |\n"
        "| --- | --: | --: |\n"
        "| test_a | 1 | 1 failed, 1 |\n"
        "| test_b | 1 skipped |  |\n"
        "| all | 1, 1 skipped | 1 failed, 1 |\n"
        "| minutes | 0 | 0 |\n"
    )


@pytest.mark.parametrize(("options", "written"), [([], True), (["--soak-hours", "1"], False)])
def test_soak_on_several_kernels_does_not_replace_the_results_of_all_tests(
    reports, monkeypatch, options, written
) -> None:
    """It writes a row for each kernel into a section of its own."""
    monkeypatch.setenv(names.RESULTS, "")
    tables: list[object] = []
    monkeypatch.setattr(Measurement, "write", lambda *args: tables.append(args))
    argv = ["--results", "--kernel", "6.1", "--kernel", "6.12", str(GUEST), *options]
    assert testrun.main(argv) == 0
    assert bool(tables) == written


def test_the_matrix_has_all_stock_kernels_and_what_runs_in_guests(reports, monkeypatch) -> None:
    seen = _runs(monkeypatch)
    assert testrun.main(["--matrix"]) == 0
    assert [(argv[-1], kernel) for argv, kernel in seen] == [
        (str(GUEST), name) for name in testrun.versions.load(testrun.prepare.SOURCE).matrix()
    ]


def test_a_kernel_that_cannot_be_had_does_not_stop_the_others(reports, monkeypatch) -> None:
    def prepare(name: str, *_: object) -> SimpleNamespace:
        if name == "6.1":
            raise SetupError("no network")
        return _image(name)

    monkeypatch.setattr(testrun, "_prepare", prepare)
    status = testrun.main(["--kernel", "6.1", "--kernel", "6.12", str(GUEST)])
    assert status == ExitStatus.SETUP
    table = (reports / "matrix.md").read_text()
    assert "| all | no results | 1 failed, 1 |" in table


def test_table_is_there_though_no_kernel_can_be_had(reports, monkeypatch) -> None:
    """In a fresh clone there is no directory for it yet."""

    def prepare(*_: object) -> None:
        raise SetupError("no network")

    monkeypatch.setattr(testrun, "_prepare", prepare)
    monkeypatch.setattr(testrun, "REPORTS", reports / "build" / "test")
    status = testrun.main(["--kernel", "6.1", "--kernel", "6.12", str(GUEST)])
    assert status == ExitStatus.SETUP
    assert "| all | no results | no results |" in (testrun.REPORTS / "matrix.md").read_text()


def test_bad_end_of_a_guest_has_its_line_in_the_table(reports, monkeypatch) -> None:
    """However many guests there were; all tests have passed."""
    bad = f'<testcase classname="{junit.CLASS}" name="guest0@far.example.4"><error/></testcase>'
    monkeypatch.setitem(CASES, "6.1", CASES["6.1"] + bad)
    testrun.main(["--kernel", "6.1", "--kernel", "6.12", str(GUEST)])
    table = (reports / "matrix.md").read_text()
    assert "| guests | 1 failed |  |" in table
    assert "| all | 1 failed, 1, 1 skipped | 1 failed, 1 |" in table


def test_tests_that_did_not_run_are_in_the_table(reports, monkeypatch) -> None:
    """Otherwise the numbers would look complete."""
    error = '<error message="5 tests did not run"/>'
    gave_up = f'<testcase classname="{junit.CLASS}" name="run">{error}</testcase>'
    monkeypatch.setitem(CASES, "6.1", CASES["6.1"] + gave_up)
    testrun.main(["--kernel", "6.1", "--kernel", "6.12", str(GUEST)])
    table = (reports / "matrix.md").read_text()
    assert "| all | 1 failed, 1, 1 skipped, 5 tests did not run | 1 failed, 1 |" in table


def test_bad_status_without_a_failed_test_is_in_the_table(reports, monkeypatch) -> None:
    """JUnit does not show every problem: all of its tests have passed."""
    write = testrun._run

    def run(argv: Sequence[str], kernel: str) -> int:
        write(argv, kernel)
        return int(pytest.ExitCode.INTERNAL_ERROR) if kernel == "6.1" else 1

    monkeypatch.setattr(testrun, "_run", run)
    testrun.main(["--kernel", "6.1", "--kernel", "6.12", str(GUEST)])
    table = (reports / "matrix.md").read_text()
    assert "| all | 1, 1 skipped, but exit status 3 | 1 failed, 1 |" in table


def test_what_a_kernel_reported_in_an_earlier_run_is_not_taken_for_this_one(
    reports, monkeypatch
) -> None:
    (reports / "guest-6.1.xml").write_text(f"<testsuite>{CASES['6.1']}</testsuite>")
    monkeypatch.setattr(testrun, "_run", lambda argv, kernel: 1)
    testrun.main(["--kernel", "6.1", "--kernel", "6.12", str(GUEST)])
    assert "| all | no results | no results |" in (reports / "matrix.md").read_text()


def test_the_report_names_the_kernel() -> None:
    argv = Part("guest", ("tests",), 1).argv([], "6.12", "6.12.1-amd64")
    assert "junit_suite_name=guest linux-6.12.1-amd64" in argv
    assert any(word.endswith("/guest-6.12.xml") for word in argv)
    assert argv[argv.index("--kfabric-dir") + 1].endswith("/6.12")


def test_all_files_of_a_run_are_in_one_directory(reports, monkeypatch, tmp_path) -> None:
    """JUnit, KTAP, KCIDB, the guests' files and the table, of several kernels."""
    seen = _runs(monkeypatch)
    monkeypatch.chdir(tmp_path)
    argv = ["--output", "mine", "--kernel", "6.1", "--kernel", "6.12", str(GUEST), str(UNIT)]
    assert testrun.main(argv) == 0
    mine = tmp_path / "mine"
    names = [re.findall(r"[^ ]*/mine[^ ]*", " ".join(argv)) for argv, *_ in seen]
    assert names == [
        _reports(mine / "unit"),
        *([*_reports(mine / f"guest-{k}"), str(mine / k)] for k in ("6.1", "6.12")),
    ]
    assert (mine / "matrix.md").exists() and not (reports / "matrix.md").exists()


def _reports(stem: Path) -> list[str]:
    """The options that name the three files of results."""
    return [f"--junitxml={stem}.xml", f"--ktap={stem}.ktap", f"--kcidb={stem}.kcidb.json"]


def test_one_unknown_kernel_ends_it_before_anything_runs(reports, monkeypatch) -> None:
    monkeypatch.setattr(testrun, "_run", lambda *_: pytest.fail("something ran"))
    with pytest.raises(KfabricError, match=r"6\.66"):
        testrun.main(["--kernel", "6.12", "--kernel", "6.66", str(GUEST)])


def test_quick_has_the_core_of_the_guests_tests() -> None:
    """The unit tests as they are, and of those in guests only the marked ones."""
    unit, guest = testrun.quick(2)
    assert "-m" not in unit.argv([])[3:]
    assert unit.paths == (str(testrun.UNIT),)
    argv = guest.argv([])
    assert argv[-3:] == ["-m", "core", str(testrun.GUEST)]


def _reported(monkeypatch: pytest.MonkeyPatch, failing: int = 0) -> list[Sequence[str]]:
    """The arguments of each run, which writes a report; the run of that number fails."""
    seen: list[Sequence[str]] = []

    def run(argv: Sequence[str], kernel: str = "") -> int:
        seen.append(argv)
        (word,) = (word for word in argv if word.startswith("--junitxml="))
        Path(word.partition("=")[2]).write_text(f"<testsuite>{CASES['6.1']}</testsuite>")
        return int(len(seen) == failing)

    monkeypatch.setattr(testrun, "_run", run)
    return seen


def test_every_part_of_a_shard_is_sharded_alike_and_marked(reports, monkeypatch) -> None:
    """On the host and in guests; `kfabric merge` reads the mark."""
    seen = _reported(monkeypatch)
    assert testrun.main(["--shard", "2/3", str(UNIT), str(GUEST)]) == 0
    assert ["--kfabric-shard=2/3" in argv for argv in seen] == [True, True]
    assert junit.marked(reports / "unit.xml", "shard") == "2/3"
    assert junit.marked(reports / "guest.xml", "shard") == "2/3"


def test_shard_is_no_filter(reports, monkeypatch) -> None:
    """If no test exists at all, that is a failure; an empty shard has the status 0."""
    monkeypatch.setattr(testrun, "_run", lambda *_: int(pytest.ExitCode.NO_TESTS_COLLECTED))
    status = testrun.main(["--shard", "2/3", str(UNIT), str(GUEST)])
    assert status == ExitStatus.TEST_FAILED


@pytest.mark.parametrize(
    ("words", "status", "played"),
    [
        (["--until-fail", "5"], ExitStatus.TEST_FAILED, 3),
        (["--until-fail", "2"], ExitStatus.OK, 2),
        (["--until-pass", "5"], ExitStatus.OK, 1),
        ([], ExitStatus.OK, 1),
    ],
)
def test_all_parts_are_played_in_each_round(reports, monkeypatch, words, status, played) -> None:
    """The third round fails, in one of its parts."""
    seen = _reported(monkeypatch, failing=6)
    assert testrun.main([*words, str(UNIT), str(GUEST)]) == status
    assert [argv[-1] for argv in seen] == [str(UNIT), str(GUEST)] * played
    assert (reports / "rounds.md").exists() == bool(words)


def test_results_for_kcidb_lie_beside_the_others(reports, monkeypatch) -> None:
    """Under the same name, of the origin that the user gives."""
    seen = _runs(monkeypatch)
    assert testrun.main(["--origin", "my_ci", "--kernel", "6.12", str(GUEST)]) == 0
    ((argv, _),) = seen
    assert f"--kcidb={reports / 'guest-6.12.kcidb.json'}" in argv
    assert "--kcidb-origin=my_ci" in argv
