# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A misspelt function is found in the built module, before a guest boots."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfabric import names
from kfabric.runner import testrun
from kfabric.trace import command, spelling, watchfile
from kfabric.trace.scope import Scope
from kfabric.vm import usermodule
from kfabric.vm.userbuild import UserModuleError
from kfabric.vm.usermodule import UserModule

SOURCE = """
void kernel_publish(int item);
static __attribute__((noinline)) void my_mod_take(void) { asm volatile(""); }
void my_mod_publish(int item) { kernel_publish(item); my_mod_take(); }
"""


@pytest.fixture(scope="session")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object file with functions, as a module is."""
    place = tmp_path_factory.mktemp("module")
    (place / "my_mod.c").write_text(SOURCE)
    argv = ["gcc", "-O1", "-c", str(place / "my_mod.c"), "-o", str(place / "my_mod.ko")]
    subprocess.run(argv, check=True, timeout=60)
    return place / "my_mod.ko"


@pytest.fixture
def built(tmp_path: Path, module: Path) -> Path:
    """The directory of a build with it."""
    place = tmp_path / "built"
    place.mkdir()
    (place / "my-mod.ko").symlink_to(module)
    (place / names.MODULE_ORDER).write_text("my-mod\n")
    return place


def scope(event: str, *modules: str) -> Scope:
    """Marks two functions."""
    return Scope(modules=modules or ("my_mod",), publish=(event,), take=("my_mod_take",))


@pytest.mark.parametrize("event", ["my_mod_publish", "kernel_publish"])
def test_function_of_the_module_or_one_that_it_calls_is_known(
    built: Path, event: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both may be marked; a static function has a symbol, too."""
    spelling.check(scope(event), built)
    assert capsys.readouterr().err == ""


def test_misspelt_function_is_refused_with_the_similar_name(built: Path) -> None:
    """After the build and before the boot, with the file in which it was named."""
    with pytest.raises(UserModuleError) as caught:
        spelling.check(scope("my_mod_publsh"), built, "FILE: ")
    assert caught.value.line() == (
        "wrong usage: FILE: no function my_mod_publsh is in my_mod; did you mean my_mod_publish?"
    )


@pytest.mark.parametrize("event", ["vfs_write", "sub_publish"])
def test_function_with_another_name_is_shown_and_not_refused(
    built: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], event: str
) -> None:
    """It may be the kernel's own, or inlined; a common ending is no mistake."""
    monkeypatch.delenv(names.QUIET, raising=False)
    spelling.check(scope(event), built)
    line = f"kfabric: no function {event} is in my_mod; {spelling.INLINED}\n"
    assert capsys.readouterr().err == line


def test_function_may_be_that_of_another_module(built: Path) -> None:
    """The symbols of one that is not built here are not at hand."""
    spelling.check(scope("my_mod_publsh", "my_mod", "ext4"), built)


def test_trace_looks_for_the_functions_that_its_options_mark(built: Path) -> None:
    """Of the modules of DIR; without marks or DIR there is nothing to look for."""
    env = {names.MODULE_DIR: str(built)}
    command._check_spelling(Scope(modules=("my_mod",)), env)
    command._check_spelling(scope("my_mod_publsh"), {})
    with pytest.raises(UserModuleError, match="no function my_mod_publsh is in my_mod"):
        command._check_spelling(scope("my_mod_publsh"), env)


@pytest.mark.parametrize("verify", [False, True])
def test_tests_look_for_the_functions_of_the_file_if_they_verify_wake_ups(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verify: bool
) -> None:
    """Otherwise the file is not read."""
    (tmp_path / watchfile.NAME).write_text(
        'module = "my_mod"\nevent = "my_mod_publsh"\ntake = "my_mod_take"\n'
    )

    class Started(Exception):
        """The tests would run."""

    def run(*_: object) -> int:
        raise Started

    monkeypatch.setattr(testrun, "_prepare", lambda *_: SimpleNamespace(release="6.1", version=""))
    monkeypatch.setattr(testrun, "fit", lambda part, _: part)
    monkeypatch.setattr(testrun, "_run", run)
    monkeypatch.setattr(usermodule, "build", lambda *_: built)
    options = ["--verify-wakeups"] if verify else []
    runs = testrun.Runs(options, [], UserModule(tmp_path, tmp_path))
    part = testrun.Part("vm", (), 0, output=tmp_path)
    with pytest.raises(UserModuleError if verify else Started):
        runs._on(part, "")


def test_file_that_cannot_be_read_is_left_to_the_plugin(built: Path, tmp_path: Path) -> None:
    """It has a line of its own for that, and no file is no mistake."""
    spelling.check_file(tmp_path, built)
    (tmp_path / watchfile.NAME).write_text("module = ")
    spelling.check_file(tmp_path, built)
