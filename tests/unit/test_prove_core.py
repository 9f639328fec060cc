# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The wait core under ``kfabric prove --quick``, and how its program is built."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kfabric import cli
from kfabric.errors import ExitStatus
from kfabric.prove import build
from kfabric.prove.run import Job, Runner
from kfabric.root import ROOT

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this host")

FILES = 18
"""Of the core, at least: all that sleep, wake, store or count."""
SCENARIOS = 60
SIGNAL = "close-beside-signal"


def test_first_executions_of_every_scenario_have_no_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the checker nor the verdict finds one, and no table or rule is left out."""
    status = cli.main(["prove", "--quick", "--records", "500", "--output", str(tmp_path)])
    out = capsys.readouterr().out
    assert status == ExitStatus.OK, out
    assert "no scenario" not in out and "unknown: " not in out
    assert len(json.loads((tmp_path / "summary.json").read_text())) >= SCENARIOS


def test_document_says_how_many_scenarios_there_are() -> None:
    """Beside the time that all of them take."""
    names = build.declared(build.of_kfabric(ROOT))
    assert names
    assert f"plays the {len(names)} scenarios" in (ROOT / "docs/prove.md").read_text()


def core_without(line: str, tree: Path) -> build.Sources:
    """The core without a line of cq.c, and the scenarios of closing."""
    shutil.copytree(ROOT / "kmod", tree / "kmod")
    broken = tree / build.CORE / "cq.c"
    text = broken.read_text()
    assert text.count(line) == 1
    broken.write_text(text.replace(line, ""))
    sources = build.of_kfabric(tree)
    scenarios = tuple(ROOT / build.SCENARIOS / name for name in ("close.c", "support.c"))
    return replace(sources, scenarios=scenarios)


def test_close_beside_a_signal_that_wakes_nobody_is_no_fault_of_the_scenario(
    tmp_path: Path,
) -> None:
    """The sleeper does not free the queue under finish()."""
    sources = core_without("\tkfi_waitq_wake(cq->src.queue, &wake);\n", tmp_path)
    with Runner(build.ensure(sources)) as runner:
        job = next(Job(one) for one in runner.scenarios() if one.name == SIGNAL)
        found = runner.explore(job).result.finding
    assert found
    assert (found.kind, found.text) == ("check", "kfi_cq_signal() ends the sleeper")


def test_files_of_the_core_are_compiled_unless_the_shim_stands_in() -> None:
    """A new file is compiled without an entry anywhere."""
    tested = {path.name for path in build.of_kfabric(ROOT).tested}
    left = {path.name for path in (ROOT / build.CORE).glob("*.c")} - tested
    assert len(tested) >= FILES
    assert left == {*build.NOT_TESTED, *(path.name for path in build.FOR_KFABRIC.glob("*.c"))}


def test_program_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second build compiles nothing; a changed file is compiled alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("mailbox.c", "mailbox.h", "scenario.c"):
        shutil.copy(ROOT / "examples/prove/mailbox" / name, tmp_path)
    sources = build.Sources(
        (tmp_path / "mailbox.c",), (tmp_path / "scenario.c",), kfabric=False, base=tmp_path
    )
    made: list[str] = []
    make = build._make

    def noted(target: Path, *rest: object) -> None:
        made.append(target.parent.name)
        make(target, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(build, "_make", noted)
    first = build.ensure(sources)
    made.clear()
    assert build.ensure(sources) == first and not made
    with sources.tested[0].open("a") as file:
        file.write("/* changed */\n")
    assert build.ensure(sources) != first
    assert made == ["objects", "programs"]


def test_primitive_that_the_shim_lacks_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, with the file that uses it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.c").write_text("void f(void);\nvoid f(void)\n{\n\tfrobnicate_rq();\n}\n")
    scenario = ROOT / "examples/prove/mailbox/scenario.c"
    assert cli.main(["prove", "--file", "x.c", "--scenario", str(scenario)]) == ExitStatus.BUILD
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "kfabric: not compiled: x.c uses frobnicate_rq(), which the shim lacks"


def test_only_files_that_nobody_has_used_for_long_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may still run a program that is not among the newest."""
    monkeypatch.setattr(build, "KEPT", {"programs": 1})
    (tmp_path / "programs").mkdir()
    ages = {"newest": 0, "used": 60, "old": 2 * build.KEPT_SECONDS}
    for name, age in ages.items():
        path = tmp_path / "programs" / name
        path.touch()
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    build._prune(tmp_path)
    assert {path.name for path in (tmp_path / "programs").iterdir()} == {"newest", "used"}
