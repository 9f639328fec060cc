# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric new`: the names that it takes, and the files that it writes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kfabric import cli
from kfabric.commands import new
from kfabric.errors import ExitStatus
from kfabric.runner import testoptions, testrun
from kfabric.vm import usermodule

each_kind = pytest.mark.parametrize("options", [(), ("--kfabric",)], ids=["plain", "kfabric"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def texts(directory: Path) -> dict[str, str]:
    """The files of a directory: path and text."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_text() for path in files}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "'' is no name for a module"),
        ("3com", "'3com' is no name"),
        ("-", "'-' is no name"),
        ("_mod", "'_mod' is no name"),
        ("my mod", "'my mod' is no name"),
        ("my.mod", "'my.mod' is no name"),
        ("..", "'..' is no name"),
        ("mödül", "'mödül' is no name"),
        ("a\n", "is no name"),
        ("volatile", "volatile is a keyword of C"),
        ("src/my_mod", "src/my_mod is a path"),
        ("../my_mod", "../my_mod is a path"),
        ("my_mod/", "my_mod/ is a path"),
        ("m" * 56, "has 56 letters; the limit is 55"),
    ],
)
def test_bad_name_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    """And nothing is written."""
    assert cli.main(["new", name]) == ExitStatus.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kfabric: nothing written: ") and reason in line
    assert list(here.iterdir()) == []


def test_longest_name_is_the_kernels() -> None:
    assert new.module_name("m" * 55) == "m" * 55


def test_hyphen_stays_in_the_directory_and_is_an_underscore_in_the_module(here: Path) -> None:
    """As in the kernel's own tree: the module of dm-mod.ko is dm_mod."""
    assert cli.main(["new", "my-mod"]) == ExitStatus.OK
    files = texts(here / "my-mod")
    assert {"Kbuild", "my_mod.c", "tests/test_my_mod.py"} <= set(files)
    assert "obj-m += my_mod.o" in files["Kbuild"]


def test_directory_with_files_is_left_as_it_is(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "my_mod").mkdir()
    (here / "my_mod/Kbuild").write_text("mine")
    assert cli.main(["new", "my_mod"]) == ExitStatus.USAGE
    assert texts(here) == {"my_mod/Kbuild": "mine"}
    error = capsys.readouterr().err
    assert error == "kfabric: nothing written: my_mod is not empty; choose another name\n"


def test_file_of_that_name_is_left_as_it_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "my_mod").write_text("mine")
    assert cli.main(["new", "my_mod"]) == ExitStatus.USAGE
    assert texts(here) == {"my_mod": "mine"}
    assert capsys.readouterr().err == "kfabric: nothing written: my_mod: File exists\n"


def test_empty_directory_is_filled(here: Path) -> None:
    """It may be a mount, or made for the purpose."""
    (here / "my_mod").mkdir()
    assert cli.main(["new", "my_mod"]) == ExitStatus.OK
    assert "my_mod.c" in texts(here / "my_mod")


@each_kind
def test_every_word_of_a_template_is_filled_in(here: Path, options: tuple[str, ...]) -> None:
    """And every template is used."""
    assert cli.main(["new", "my_mod", *options]) == ExitStatus.OK
    files = texts(here / "my_mod")
    assert len(files) == len(new.FILES)
    assert not {
        place: found for place, text in files.items() if (found := re.findall("@[A-Z]+@", text))
    }


def test_no_template_is_unused() -> None:
    """Each is one of FILES."""
    found = {path.name for path in new.TEMPLATES.glob("*/*.in")}
    assert found == {f"{name}.in" for name in new.FILES}


@each_kind
def test_test_can_be_collected(here: Path, options: tuple[str, ...]) -> None:
    """By pytest alone, as an editor does it."""
    cli.main(["new", "my_mod", *options])
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*argv, "my_mod"], cwd=here, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_my_mod.py::test_reader_wakes_up" in done.stdout


def test_next_command_is_one_that_there_is(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tests the directory that was written, and nothing in it is written again."""
    monkeypatch.setattr(sys, "argv", ["build/venv/bin/kfabric", "new", "my-mod"])
    cli.main(["new", "my-mod"])
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "next: build/venv/bin/kfabric test --module my-mod"
    args, *rest = testoptions.parse(last.split()[3:])
    assert rest == [[], []]
    tested = usermodule.of(args)
    assert tested is not None and tested.directory == here / "my-mod"
    assert testrun._tests(tested, []) == [str(here / "my-mod")]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://github.com/some-one/kfabric.git", "some-one/kfabric"),
        ("git@github.com:some-one/kfabric", "some-one/kfabric"),
        ("https://example.org/kfabric.git", None),
        ("", None),
    ],
)
def test_workflow_installs_the_kfabric_that_wrote_it(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    expected: str | None,
) -> None:
    """Nothing in it has to be filled in; without a repository, a line names the wheels."""
    monkeypatch.setattr(new, "_git", lambda words: url if words.startswith("remote") else "c0ffee")
    cli.main(["new", "my_mod"])
    workflow = (here / "my_mod/.github/workflows/kernels.yml").read_text()
    version = (new.prepare.SOURCE / "kfabric_py/VERSION").read_text().strip()
    place = f"git+https://github.com/{expected}@c0ffee"
    words = (
        [f"'kfabric @ {place}'", f"'kfabric-py @ {place}#subdirectory=kfabric_py'"]
        if expected
        else ["--find-links wheels", f"kfabric=={version}"]
    )
    (installs,) = re.findall(r"pip install -q\n +(.*)", workflow)
    assert installs == " ".join(words)
    line = f"for CI, copy the two wheels of kfabric {version} (make wheels) into my_mod/wheels\n"
    assert (line in capsys.readouterr().out) is (expected is None)
