# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The wheels hold all that an installed tool needs, and it does without a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import NoReturn

import pytest

from kfabric import cli, root
from kfabric.errors import ExitStatus, SetupError, UsageError
from kfabric.root import python_path
from kfabric.runner import testrun
from kfabric.vm import prepare, source, tools

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300.0
PROJECT = {"LICENSES", "VERSION", "pinned.txt", "pyproject.toml"}
"""Files of kfabric_py/ that are for its wheel, not in it."""
FIXTURES = ("tests/guest/conftest.py", "tests/guest/support")


def tracked(*paths: str) -> list[str]:
    """The files that git knows below some paths."""
    argv = ["git", "ls-files", "-z", *paths]
    listed = subprocess.check_output(argv, cwd=ROOT, text=True, timeout=SECONDS)
    return [name for name in listed.split("\0") if name]


def files(place: Path) -> list[str]:
    """The files below a directory, except bytecode; relative to it."""
    found = (path for path in place.rglob("*") if not path.is_dir())
    return sorted(str(p.relative_to(place)) for p in found if "__pycache__" not in p.parts)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which pip has installed both wheels, without what they depend on."""
    place = tmp_path_factory.mktemp("wheels")
    wheels = place / "wheels"
    subprocess.run([ROOT / "vm/wheels.sh", sys.executable, wheels], timeout=SECONDS, check=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile"]
    argv = [*pip, "--target", str(place / "site"), *map(str, wheels.glob("*.whl"))]
    subprocess.run(argv, timeout=SECONDS, check=True)
    return place / "site"


@pytest.fixture(scope="module")
def laid_out(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout that the installed tool has made."""
    cache = tmp_path_factory.mktemp("cache")
    program = "from kfabric.vm.prepare import SOURCE; print(SOURCE)"
    place = Path(python(installed, cache, "-c", program).strip())
    assert place.is_relative_to(cache)
    return place


def python(installed: Path, cache: Path, *words: str) -> str:
    """What Python prints that finds the installed packages, and no checkout."""
    env = {**os.environ, "PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cache,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stdout


def metadata(installed: Path, name: str) -> Message:
    (path,) = installed.glob(f"{name}-*.dist-info/METADATA")
    return message_from_string(path.read_text())


@pytest.mark.parametrize(
    ("folder", "package"), [("harness", "kfabric"), ("kfabric_py", "kfabric_py")]
)
def test_wheel_has_every_file_of_its_folder(installed: Path, folder: str, package: str) -> None:
    """Modules, templates, pages and programs of all rooms, and nothing else."""
    wanted = {str(Path(name).relative_to(folder)) for name in tracked(folder)}
    wanted -= PROJECT if folder == "kfabric_py" else set()
    found = {name for name in files(installed / package) if not name.startswith(source.CARRIED)}
    assert found == wanted


def test_wheels_are_of_one_version_and_licence(installed: Path) -> None:
    """The tool needs the client of its own version; both carry the texts of the licence."""
    tool, client = metadata(installed, "kfabric"), metadata(installed, "kfabric_py")
    version = (ROOT / "kfabric_py/VERSION").read_text().strip()
    assert tool["Version"] == client["Version"] == version
    assert f"kfabric-py=={version}" in tool.get_all("Requires-Dist", [])
    assert tool["License-Expression"] == client["License-Expression"]
    texts = {path.name for path in (ROOT / "LICENSES").iterdir()}
    for wheel in installed.glob("*.dist-info"):
        assert {path.name for path in (wheel / "licenses/LICENSES").iterdir()} == texts


def test_client_depends_on_nothing(installed: Path) -> None:
    assert metadata(installed, "kfabric_py").get_all("Requires-Dist") is None


def test_tool_depends_on_what_the_checkout_installs(installed: Path) -> None:
    """In the same versions; further packages are only for named commands."""
    lists = [ROOT / f"vm/requirements-{name}.txt" for name in ("guest", "tool")]
    lines = [line.partition("#")[0].strip() for path in lists for line in path.open()]
    wanted = {line for line in lines if line}
    declared = metadata(installed, "kfabric").get_all("Requires-Dist", [])
    needed = {line for line in declared if "extra" not in line and "kfabric" not in line}
    assert needed == wanted
    extras = {line.partition("extra == ")[2].strip('"') for line in declared if "extra" in line}
    assert extras == {"coverage", "post-mortem"}


def test_installed_tool_knows_its_version(installed: Path, tmp_path: Path) -> None:
    version = (ROOT / "kfabric_py/VERSION").read_text().strip()
    assert python(installed, tmp_path, "-m", "kfabric.cli", "--version") == f"kfabric {version}\n"


def test_checkout_of_an_installed_tool_is_like_this_one(laid_out: Path) -> None:
    """It has what builds and guests use, unchanged, and scripts that can be run."""
    wanted = [*tracked("harness", "kfabric_py", "kmod", "vm", "examples", *FIXTURES)]
    wanted = [name for name in wanted if name not in {f"kfabric_py/{file}" for file in PROJECT}]
    found = [name for name in files(laid_out) if not name.startswith("build/")]
    assert set(found) - {"tests/conftest.py"} == set(wanted)
    for name in found:
        assert (laid_out / name).read_bytes() == (ROOT / name).read_bytes(), name
    assert os.access(laid_out / "vm/bootstrap.sh", os.X_OK)


def test_checkout_of_an_installed_tool_is_used_as_it_is(laid_out: Path, tmp_path: Path) -> None:
    """Processes that find the packages there take it for the checkout, as guests do."""
    program = "from kfabric import root; from kfabric.vm.prepare import SOURCE;"
    program += "print(SOURCE, root.INSTALLED)"
    env = {**os.environ, "PYTHONPATH": python_path(laid_out), "XDG_CACHE_HOME": "/proc"}
    argv = [sys.executable, "-c", program]
    shown = subprocess.check_output(argv, cwd=tmp_path, env=env, text=True, timeout=SECONDS)
    assert shown == f"{laid_out} True\n"


def test_checkout_is_made_once_for_each_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run left of a removed one is no checkout."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package, client = tmp_path / "kfabric", tmp_path / "kfabric_py"
    (package / "checkout/vm").mkdir(parents=True)
    (package / "checkout/vm/init").write_text("one")
    client.mkdir()
    (package / "cli.py").touch()
    (client / "sets.py").touch()
    first = source.lay_out(source.contents(package, client))
    (first / "build/mark").touch()
    assert source.lay_out(source.contents(package, client)) == first
    assert (first / "build/mark").exists()
    assert (first / "build/python/kfabric/cli.py").exists()
    shutil.rmtree(first)
    (first / "build/vm").mkdir(parents=True)
    assert source.lay_out(source.contents(package, client)) == first
    assert (first / "harness/cli.py").exists()
    (package / "checkout/vm/init").write_text("two")
    assert source.lay_out(source.contents(package, client)) != first


@pytest.fixture
def in_installed_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an installed tool, whose commands would be refused before they do anything."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a command began")

    monkeypatch.setattr(root, "INSTALLED", True)
    monkeypatch.setattr(cli.importlib, "import_module", refuse)
    monkeypatch.setattr(testrun, "Runs", refuse)


@pytest.mark.parametrize("command", sorted(cli.NEED_CHECKOUT))
def test_installed_tool_refuses_what_needs_a_checkout(
    command: str, in_installed_tool: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line; its help and its completion have only the other commands."""
    assert cli.main([command]) == ExitStatus.USAGE
    line = f"kfabric: wrong usage: kfabric {command} needs a checkout of kfabric; "
    assert capsys.readouterr().err == f"{line}this is an installed tool\n"
    assert f"  {command} " not in cli.usage()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([], "kfabric test without a module"),
        (["-k", "lost"], "kfabric test without a module"),
        (["--results", "--module", "{module}"], "kfabric test --results"),
    ],
)
def test_installed_tool_tests_only_modules_of_the_user(
    words: list[str], what: str, in_installed_tool: None
) -> None:
    """Those of kfabric are in the checkout, and so is the page with the results."""
    module = str(ROOT / "examples/pingpong_ulp")
    with pytest.raises(UsageError) as caught:
        testrun.main([word.format(module=module) for word in words])
    assert caught.value.what == f"{what} needs a checkout of kfabric"


def test_clean_removes_the_checkouts_of_other_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an installed tool; from a checkout of the user's it cannot know which ones are used."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = tmp_path / "kfabric/checkouts"
    for name in ("mine", "older"):
        (place / name / "build/kmod").mkdir(parents=True)
    for name in ("images", "buildroots"):
        (tmp_path / "kfabric" / name).mkdir()
    assert cli.main(["vm", "clean"]) == ExitStatus.OK
    assert {path.name for path in place.iterdir()} == {"mine", "older"}
    monkeypatch.setattr(source, "SOURCE", place / "mine")
    assert cli.main(["vm", "clean"]) == ExitStatus.OK
    assert {path.name for path in place.iterdir()} == {"mine", "lock"}
    assert (place / "mine/build/kmod").is_dir()


def test_results_of_an_installed_tool_are_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a checkout are in its build/."""
    monkeypatch.chdir(tmp_path)
    assert source.results() == ROOT / "build"
    monkeypatch.setattr(source, "INSTALLED", True)
    assert source.results() == tmp_path / "build"


def test_missing_programs_are_named_with_the_command_that_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is built."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(prepare.image, "ensure", lambda *_: None)
    for program in set(prepare.PROGRAMS) - {"zstd", "qemu-img"}:
        (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError) as caught:
        prepare.guest_image()
    text = f"set-up failed: not in PATH: qemu-img, zstd; {tools.HINT}"
    assert caught.value.line() == text
    assert "kfabric setup" in text


def test_pyproject_of_the_client_says_what_that_of_the_tool_says() -> None:
    """The build's needs, the licence and the oldest Python."""
    tool, client = (
        tomllib.loads((ROOT / place / "pyproject.toml").read_text()) for place in ("", "kfabric_py")
    )
    assert tool["build-system"] == client["build-system"]
    for key in ("license", "license-files", "requires-python"):
        assert tool["project"][key] == client["project"][key]
