# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Whether a user's tests need kfabric's modules, which take minutes to build."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kfabric.commands import new
from kfabric.vm import prepare, usertests

OWN_FIXTURE = "import pytest\n\n\n@pytest.fixture\ndef net():\n    return 'eth0'\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an empty directory tests."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (tmp_path / "project/tests").mkdir(parents=True)
    return tmp_path / "project"


def needed(project: Path, text: str, *options: str) -> bool:
    """Whether a test with this text needs our modules."""
    (project / "tests/test_it.py").write_text(text)
    return usertests.need_kfabric([project], project, options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def test_a(module): ...", False),
        ("def test_a(in_thread, in_child, verbs, stranger, node): ...", False),
        ("from kfabric.guest.modules import state", False),
        ("# Modules of ours, and the device.\ndef read(device, net): ...", False),
        ("def test_a():\n    assert {'device': 1}['device']", False),
        ("def test_a(device): ...", True),
        ("async def test_a(*, mock): ...", True),
        ("class TestIt:\n    def test_a(self, links): ...", True),
        ("import pytest\n@pytest.fixture()\ndef own(net): ...", True),
        ("import pytest\n@pytest.mark.usefixtures('rdm')\nclass TestIt: ...", True),
        ("def test_a(request): request.getfixturevalue('keeper')", True),
        ("def test_a(wakeups): ...", True),
        ("import kfabric_py.aio", True),
        ("from kfabric.guest.modules import (\n    Modules,\n)\nModules.from_environment()", True),
        ("def test_a(): open('/dev/kfabric')", True),
        ("import os\nprint(os.environ['KFABRIC_MODULES'])", True),
        ("def test_a(:", False),
    ],
)
def test_need_follows_from_the_text_of_a_test(project: Path, text: str, expected: bool) -> None:
    """A name counts where pytest takes it for a fixture, and not in other places."""
    assert needed(project, text) is expected


def test_document_says_which_fixtures_need_our_modules() -> None:
    """In a table; a user reads it before choosing one."""
    text = (prepare.SOURCE / "docs/testing.md").read_text()
    table = text.partition("| needs kfabric's modules |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| .* \| (yes|no) \|$", table, re.MULTILINE)
    assert rows and len(rows) == len(table.splitlines())
    ours = usertests._fixtures()
    assert {name for name, needs in rows if needs == "yes"} <= ours
    assert {name for name, needs in rows if needs == "no"} <= usertests.FREE


@pytest.mark.parametrize("text", ["def test_a(net): ...", "def test_a(): ..."])
def test_fixture_of_the_users_own_is_not_ours(project: Path, text: str) -> None:
    """Its name is the same; in a conftest.py it is for all tests below."""
    (project / "tests/conftest.py").write_text(OWN_FIXTURE)
    assert not needed(project, text)
    (project / "tests/conftest.py").unlink()
    assert not needed(project, f"{OWN_FIXTURE}\n\n{text}\n")


def test_fixture_that_extends_ours_needs_it(project: Path) -> None:
    (project / "conftest.py").write_text(OWN_FIXTURE.replace("net()", "net(net)"))
    assert needed(project, "def test_a(): ...")


def test_fixture_in_another_test_file_replaces_nothing(project: Path) -> None:
    (project / "tests/test_other.py").write_text(OWN_FIXTURE)
    assert needed(project, "def test_a(net): ...")


def test_what_lies_beside_a_named_file_and_above_it_counts(project: Path) -> None:
    """Its helpers and its conftest.py, but no other tests."""
    file = project / "tests/test_it.py"
    file.touch()
    (project / "tests/test_other.py").write_text("import kfabric_py")
    assert not usertests.need_kfabric([file], project)
    (project / "tests/helper.py").write_text("import kfabric_py")
    assert usertests.need_kfabric([file], project)
    (project / "tests/helper.py").unlink()
    (project / "conftest.py").write_text("import kfabric_py")
    assert usertests.need_kfabric([file], project)
    assert not usertests.need_kfabric([file], project / "tests"), "it is not of the project"


def test_python_environment_in_the_project_does_not_count(project: Path) -> None:
    """It may be the one that has our packages."""
    for name, mark in (("venv", "pyvenv.cfg"), (".tox", "x")):
        (project / name / "lib").mkdir(parents=True)
        (project / name / mark).touch()
        (project / name / "lib/its.py").write_text("import kfabric_py")
    assert not needed(project, "def test_a(): ...")


def test_verified_wakeups_need_our_modules(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the option is given."""
    text = "def test_a(): ..."
    assert not needed(project, text, "-x")
    assert needed(project, text, "-x", "--verify-wakeups")
    with monkeypatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", "-v --verify-wakeups")
        assert needed(project, text)
    (project / "pytest.ini").write_text("[pytest]\naddopts = --verify-wakeups\n")
    assert needed(project, text)


def test_free_fixtures_ask_for_no_other_ones() -> None:
    """Otherwise their tests would ask for our modules after all."""
    tree = ast.parse((prepare.SOURCE / "tests/guest/conftest.py").read_text())
    asked = {
        each.name: {argument.arg for argument in each.args.args} - {"request"}
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and each.name in usertests.FREE
    }
    assert set(asked) == usertests.FREE
    assert all(arguments <= usertests.FREE for arguments in asked.values())


@pytest.mark.parametrize("kind", [new.PLAIN, new.KFABRIC])
def test_new_test_needs_nothing_of_ours(project: Path, kind: str) -> None:
    """A module that calls kfabric needs it itself."""
    new.write(project / "my_mod", new.render(kind, {"NAME": "my_mod"}))
    assert not usertests.need_kfabric([project / "my_mod"], project)
