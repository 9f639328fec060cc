# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A user's module to test: errors and their texts, and the directory that guests mount."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import names
from harness.errors import BuildError, GuestPanic, GuestSplat, ModuleLoadError
from harness.guest import modules
from harness.guest import ulp as guest_ulp
from harness.guest.topology import Netdev, RdmaLink
from harness.runner import testrun
from harness.vm import kbuild, prepare, ulp, ulpbuild
from harness.vm.machine import Vm
from harness.vm.spec import Variant
from harness.vm.ulp import Ulp
from harness.vm.ulpbuild import UlpError

LINK = RdmaLink("rxe0", Netdev("net0", 3, "198.18.3.1"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with a module, a header that it needs, and files left by a build."""
    tree = tmp_path / "project/kmod"
    (tree / "inc").mkdir(parents=True)
    for name in ("Kbuild", "mine.c", "inc/mine.h", "mine.o", "mine.ko", "Module.symvers"):
        (tree / name).write_text(name)
    (tree / ".git").mkdir()
    (tree / ".git/config").write_text("[core]")
    return tree


@pytest.fixture
def build(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Build the tree with a shell script in make's place; returns the directory."""
    checkout = tmp_path / "checkout"
    (checkout / "kmod").mkdir(parents=True)
    (checkout / "kmod/Kbuild").touch()
    headers = SimpleNamespace(build=Path("/h"), command=lambda argv, shared: argv)
    place = SimpleNamespace(headers=lambda release: headers)
    monkeypatch.setattr(kbuild.supply, "of", lambda *_: place)
    monkeypatch.setattr(kbuild, "strip", lambda modules, target: None)
    image: Any = SimpleNamespace(release="6.1", version=None)

    def run(script: str) -> Path:
        argv = ["sh", "-euc", f'cd "$0"; {script}']
        monkeypatch.setattr(ulpbuild, "make_argv", lambda headers, copy, *_: [*argv, str(copy)])
        return ulpbuild.ensure(checkout, image, Variant.TEST, tree, lambda line: None)

    return run


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UlpError, match="nowhere is no directory"):
        ulpbuild.check(tmp_path / "nowhere")


def test_directory_without_a_makefile_is_refused(tmp_path: Path) -> None:
    """Either name will do, as for the kernel's own build."""
    with pytest.raises(UlpError, match="has no Kbuild and no Makefile"):
        ulpbuild.check(tmp_path)
    (tmp_path / "Makefile").touch()
    ulpbuild.check(tmp_path)


def test_build_without_a_module_is_one_clear_error(build, tree: Path) -> None:
    with pytest.raises(UlpError, match=f"{tree} builds no module") as error:
        build(": > modules.order")
    assert "obj-m" in error.value.line()


def test_compile_error_has_the_compilers_text_and_the_users_file(build, tree: Path) -> None:
    """The compiled copy is not the user's file."""
    script = "echo $0/mine.c:3:1: error: \"expected ';'\"; echo make: Error 1; exit 2"
    with pytest.raises(BuildError) as error:
        build(script)
    assert error.value.what == f"{tree}/mine.c:3:1: error: expected ';'"
    assert "Error 1" in error.value.console


def test_modules_are_loaded_in_the_order_of_their_makefile(build) -> None:
    """Kernels write file names with different suffixes there."""
    place = build("touch b.ko a.ko; printf '/x/b.ko\\n/x/a.o\\n' > modules.order")
    assert (place / names.ULP_ORDER).read_text() == "b\na\n"


def test_copy_has_the_sources_and_nothing_that_was_made(build) -> None:
    place = build("find . -type f > list; touch m.ko; echo m.ko > modules.order")
    found = set((place / "src/list").read_text().split())
    assert found == {"./Kbuild", "./mine.c", "./inc/mine.h", "./list"}


def test_build_is_repeated_only_after_a_change(build, tree: Path) -> None:
    script = "echo >> ../built; touch m.ko; echo m.ko > modules.order"
    place = build(script)
    build(script)
    assert (place / "built").read_text() == "\n"
    (tree / "inc/mine.h").write_text("changed")
    build(script)
    assert (place / "built").read_text() == "\n\n"


def test_make_gets_our_headers_and_symbols() -> None:
    headers: Any = SimpleNamespace(build=Path("/h"))
    argv = ulpbuild.make_argv(headers, Path("/copy"), Variant.PROD, Path("/our/kmod"))
    assert "KBUILD_EXTRA_SYMBOLS=/our/kmod/Module.symvers" in argv
    assert "KFABRIC_DIR=/our/kmod" in argv
    assert "KCFLAGS=-I/our/kmod/include" in argv


def test_guest_sees_the_project_that_module_and_tests_lie_in(tree: Path) -> None:
    """pytest's configuration files mark its root as well."""
    project = tree.parent
    (project / "tests").mkdir()
    assert ulp.root(tree, [project / "tests"]) == project
    (project.parent / "pytest.ini").touch()
    assert ulp.root(tree, [project / "tests"]) == project.parent
    (project / "pyproject.toml").touch()
    assert ulp.root(tree, []) == tree, "it has a .git"


def test_module_of_the_checkout_needs_nothing_that_is_not_seen_already() -> None:
    example = prepare.SOURCE / "examples/pingpong_ulp"
    assert (
        ulp.root(example, [prepare.SOURCE / "tests/guest/test_pingpong_ulp.py"]) == prepare.SOURCE
    )


def test_tests_of_the_checkout_do_not_widen_what_the_guest_sees(tree: Path) -> None:
    assert ulp.root(tree, [prepare.SOURCE / "tests/guest"]) == tree


def test_directory_that_the_guest_needs_itself_is_not_mounted_over() -> None:
    with pytest.raises(UlpError, match="only / in common"):
        ulp.root(Path("/home/me/ulp"), [Path("/srv/tests")])
    with pytest.raises(UlpError, match="only /tmp in common"):
        ulp.root(Path("/tmp/nobody-has-this"), [Path("/tmp/nor-this")])


def test_tests_get_the_module_and_run_where_the_guest_sees_them(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths are made absolute: pytest runs in another directory."""
    (tree / "tests").mkdir()
    (tree / "tests/test_it.py").write_text("def test_a(): ...\n")
    seen: list[Any] = []

    def run(*given: Any) -> int:
        seen.append(given)
        return 0

    image = SimpleNamespace(release="6.1", version=None)
    monkeypatch.setattr(testrun, "_prepare", lambda name: image)
    monkeypatch.setattr(testrun, "fit", lambda part, version: part)
    monkeypatch.setattr(testrun, "precompile", lambda image, paths: None)
    monkeypatch.setattr(testrun.ulp, "build", lambda *given: seen.append(given[2]))
    monkeypatch.setattr(testrun, "_run", run)
    monkeypatch.chdir(tree)
    argv = ["--ulp", ".", "--ulp-param", "a=1", "-x", "--", "tests/test_it.py::test_a"]
    assert testrun.main(argv) == 0
    tested, (command, _, where) = seen
    assert tested == Ulp(tree, tree, ("a=1",))
    assert where == tree
    assert command[-1] == f"{tree}/tests/test_it.py::test_a"
    assert command[command.index("--kfabric-ulp") + 1] == ulp.to_json(tested)
    assert f"--rootdir={tree}" in command and "--" not in command


def test_without_paths_the_modules_directory_is_searched_for_tests(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def run(argv: Sequence[str], *_: object) -> int:
        seen.append(argv[-1])
        return 0

    image = SimpleNamespace(release="6.1", version=None)
    monkeypatch.setattr(testrun, "_prepare", lambda name: image)
    monkeypatch.setattr(testrun, "fit", lambda part, version: part)
    monkeypatch.setattr(testrun, "precompile", lambda image, paths: None)
    monkeypatch.setattr(testrun.ulp, "build", lambda *_: None)
    monkeypatch.setattr(testrun, "_run", run)
    assert testrun.main(["--ulp", str(tree)]) == 0
    assert seen == [str(tree)]


def test_option_of_the_plugin_is_complete(tree: Path) -> None:
    given = Ulp(tree, tree.parent, ("a=1", "b.c={address}"), load=False)
    assert ulp.from_json(ulp.to_json(given)) == given


def test_no_ulp_is_no_error() -> None:
    parser = argparse.ArgumentParser()
    ulp.add_options(parser)
    assert ulp.of(parser.parse_args([])) is None


def test_parameters_go_to_the_module_that_they_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on the kernel's command line; a dash in a file's name is none in the module's."""
    loaded = []
    monkeypatch.setattr(guest_ulp.modules, "state", lambda name: None)
    monkeypatch.setattr(
        guest_ulp.modules, "insert", lambda path, text: loaded.append((path.name, text))
    )
    words = ["addr={address}", "my_core.depth=4", "my-top.name=a.b=c"]
    guest_ulp.Ulp(tmp_path, ["my-core", "top"], words, LINK).load()
    assert loaded == [("my-core.ko", "addr=198.18.3.1 depth=4"), ("top.ko", "addr=198.18.3.1")]
    loaded.clear()
    guest_ulp.Ulp(tmp_path, ["my-top"], words, LINK).load("my_top.x=1", count=3)
    assert loaded == [("my-top.ko", "x=1 count=3")]


class FakeGuest:
    """A guest in which loading has a given result."""

    spec = SimpleNamespace(deadlines=SimpleNamespace(boot=1.0))

    def __init__(
        self,
        rc: int = 0,
        err: bytes = b"",
        splats: Sequence[SimpleNamespace] = (),
        error: GuestPanic | None = None,
    ) -> None:
        self._done = SimpleNamespace(rc=rc, err=err)
        self._splats = splats
        self._error = error

    def run(self, argv: Sequence[str], timeout: float) -> SimpleNamespace:
        if self._error:
            raise self._error
        return self._done

    def splats(self) -> Sequence[SimpleNamespace]:
        return self._splats


def load(guest: FakeGuest, tree: Path) -> None:
    """Load the modules of the tree in the fake guest."""
    ulp.load(cast(Vm, guest), Ulp(tree, tree))


def test_refused_module_is_one_line_with_the_kernels_reason(tree: Path) -> None:
    guest = FakeGuest(1, b"load /b/mine.ko: Invalid argument\n  mine: no address\n")
    with pytest.raises(ModuleLoadError, match=r"^load /b/mine\.ko: Invalid argument$") as error:
        load(guest, tree)
    assert "mine: no address" in error.value.console


def test_panic_while_it_is_loaded_is_reported(tree: Path) -> None:
    guest = FakeGuest(error=GuestPanic("BUG: null", console="the stack"))
    with pytest.raises(GuestPanic, match=f"BUG: null, while the modules of {tree} were") as error:
        load(guest, tree)
    assert error.value.console == "the stack"


def test_splat_while_it_is_loaded_is_an_error(tree: Path) -> None:
    guest = FakeGuest(splats=[SimpleNamespace(title="WARNING: at mine.c", text="all of it")])
    with pytest.raises(GuestSplat, match=r"WARNING: at mine\.c, while") as error:
        load(guest, tree)
    assert error.value.console == "all of it"


def test_its_users_count_among_what_a_test_may_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / names.ULP_ORDER).write_text("my-core\nmine\n")
    monkeypatch.setenv(names.ULP, str(tmp_path))
    assert modules.watched() == (*modules.OURS, "my_core", "mine")


def test_modules_are_unloaded_after_a_failed_teardown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its error also lists what they leave."""
    before = {"net devices": 1}
    mine: Any = SimpleNamespace(loaded=("mine",), unload=lambda: setattr(mine, "loaded", ()))
    monkeypatch.setattr(guest_ulp, "_recall", lambda: (LINK, before))
    monkeypatch.setattr(guest_ulp, "_ulp", lambda link: mine)
    monkeypatch.setattr(guest_ulp.leaks, "since", lambda before: ["net devices: 1 -> 2"])
    last: Any = None  # the hook reads only whether another test follows
    step = guest_ulp.UlpChecks().pytest_runtest_teardown(last, None)
    next(step)
    with pytest.raises(OSError, match="no link") as failed:
        step.throw(OSError("no link"))
    assert mine.loaded == ()
    assert failed.value.__notes__ == ["mine left behind, unloaded: net devices: 1 -> 2"]
