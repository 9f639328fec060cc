# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A user's module to test: errors and their texts, and the directory that guests mount."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from slow_steps import Log

from kfabric import names
from kfabric.commands import new
from kfabric.errors import BuildError, ExitStatus, GuestPanic, GuestSplat, ModuleLoadError
from kfabric.guest import modules, worker
from kfabric.guest import usermodule as guest_part
from kfabric.guest.kmsg import Record
from kfabric.guest.topology import Netdev, RdmaLink
from kfabric.root import python_path
from kfabric.runner import testrun
from kfabric.vm import kbuild, prepare, userbuild, usermodule
from kfabric.vm.machine import Vm
from kfabric.vm.spec import Image, Variant, VmSpec
from kfabric.vm.userbuild import UserModuleError
from kfabric.vm.usermodule import UserModule

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
    image = Image("6.1", Path(), Path(), Path(), prepare.version("6.1"))

    def run(script: str) -> Path:
        argv = ["sh", "-euc", f'cd "$0"; {script}']
        monkeypatch.setattr(userbuild, "make_argv", lambda headers, copy, *_: [*argv, str(copy)])
        return userbuild.ensure(checkout, image, Variant.TEST, tree, print)

    return run


def test_line_about_the_build_names_the_directory_and_the_kernel(
    build: Callable[[str], Path], tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not the variant of kfabric's own modules, which a stranger does not know."""
    build("echo mine.o >modules.order; touch mine.ko")
    assert capsys.readouterr().out == f"modules of {tree}: building for 6.1\n"


def test_build_that_takes_long_is_shown(
    build: Callable[[str], Path], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the user's directory, not that of the copy."""
    log = Log(monkeypatch)
    shown: list[bool] = []

    def make(*_: object) -> str:
        shown.append(log.wait(f"make in {tree} has run for 0 s"))
        return ""

    monkeypatch.setattr(kbuild, "make", make)
    monkeypatch.setattr("builtins.print", log)
    with pytest.raises(UserModuleError):  # it has built nothing
        build("")
    assert shown == [True]


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserModuleError, match="nowhere is no directory"):
        userbuild.check(tmp_path / "nowhere")


def test_directory_without_a_makefile_is_refused(tmp_path: Path) -> None:
    """Either name will do, as for the kernel's own build."""
    with pytest.raises(UserModuleError, match="has no Kbuild and no Makefile"):
        userbuild.check(tmp_path)
    (tmp_path / "Makefile").touch()
    userbuild.check(tmp_path)


def test_build_without_a_module_is_one_clear_error(build, tree: Path) -> None:
    with pytest.raises(UserModuleError, match=f"{tree} builds no module") as error:
        build(": > modules.order")
    assert "obj-m" in error.value.line()


def test_compile_error_has_the_compilers_text_and_the_users_file(build, tree: Path) -> None:
    """The compiled copy is not the user's file."""
    script = "echo $0/mine.c:3:1: error: \"expected ';'\"; echo make: Error 1; exit 2"
    with pytest.raises(BuildError) as error:
        build(script)
    assert error.value.what == f"{tree}/mine.c:3:1: error: expected ';'"
    assert "Error 1" in error.value.console


def test_warning_of_the_compiler_is_shown_for_the_users_file(
    build, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not end the build."""
    warning = "mine.c:3:1: warning: unused variable 'x'"
    build(f'echo "$0/{warning}"; echo mine.o >modules.order; touch mine.ko')
    assert capsys.readouterr().out.splitlines()[1:] == [f"{tree}/{warning}"]


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("$0/lost.o', needed by '$0/'", "obj-m names lost.o, and there is no lost.c"),
        ("lost.o', needed by '.'", "obj-m names lost.o, and there is no lost.c"),
        ("$0/a/b.o', needed by '$0/mine.o'", "mine.o needs a/b.o, and there is no a/b.c"),
        ("$0/a/Makefile'", "make[2]: *** No rule to make target '{tree}/a/Makefile'"),
    ],
)
def test_source_that_is_missing_is_named(build, tree: Path, rule: str, line: str) -> None:
    """In the words of a Kbuild, whether the kernel's make prints whole paths or parts."""
    with pytest.raises(BuildError) as error:
        build(f'echo "make[2]: *** No rule to make target \'{rule}.  Stop."; exit 2')
    assert error.value.what == line.format(tree=tree)


def test_modules_are_loaded_in_the_order_of_their_makefile(build) -> None:
    """Kernels write file names with different suffixes there."""
    place = build("touch b.ko a.ko; printf '/x/b.ko\\n/x/a.o\\n' > modules.order")
    assert (place / names.MODULE_ORDER).read_text() == "b\na\n"


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


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("mine.c", "#include <linux/module.h>\n/* skfi_x, kfabric */\n", False),
        ("mine.c", '#include "kfabric.h"\n', True),
        ("inc/mine.h", "extern int kfi_wait(struct kfid_wait *set, int timeout);\n", True),
        ("Kbuild", "ccflags-y := -I$(KFABRIC_DIR)/include\n", True),
        ("README.md", "make KFABRIC_DIR=... builds it for kfi_wait()\n", False),
        ("test_it.py", "import kfabric_py  # kfi_wait()\n", False),
    ],
)
def test_module_that_mentions_our_functions_calls_kfabric(
    tree: Path, name: str, text: str, expected: bool
) -> None:
    """In a file from which it is built."""
    assert not userbuild.calls_kfabric(prepare.SOURCE, tree)
    (tree / name).write_text(text)
    assert userbuild.calls_kfabric(prepare.SOURCE, tree) is expected


@pytest.mark.parametrize("kind", [new.PLAIN, new.KFABRIC])
def test_new_module_calls_kfabric_if_it_was_asked_for(tmp_path: Path, kind: str) -> None:
    new.write(tmp_path / "my_mod", new.render(kind, {"NAME": "my_mod"}))
    assert userbuild.calls_kfabric(prepare.SOURCE, tmp_path / "my_mod") is (kind == new.KFABRIC)


@pytest.mark.parametrize("name", ["pingpong_ulp", "rdm_ulp"])
def test_our_examples_call_kfabric(name: str) -> None:
    assert userbuild.calls_kfabric(prepare.SOURCE, prepare.SOURCE / "examples" / name)


@pytest.mark.parametrize("calls", [False, True])
def test_module_that_does_not_call_kfabric_does_not_depend_on_it(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: bool
) -> None:
    """It is built without our headers, and stays as it is when our exports change."""
    checkout = tmp_path / "checkout"
    (checkout / "kmod").mkdir(parents=True)
    (checkout / "kmod/Kbuild").touch()
    if calls:
        (tree / "mine.c").write_text("kfi_wait(set, -1);")
    given: list[Path | None] = []

    def make_argv(headers: Any, copy: Path, variant: Variant, core: Path | None) -> list[str]:
        given.append(core)
        return ["sh", "-euc", 'cd "$0"; touch m.ko; echo m.ko > modules.order', str(copy)]

    headers = SimpleNamespace(build=Path("/h"), command=lambda argv, shared: argv)
    place = SimpleNamespace(headers=lambda release: headers)
    monkeypatch.setattr(kbuild.supply, "of", lambda *_: place)
    monkeypatch.setattr(kbuild, "strip", lambda modules, target: None)
    monkeypatch.setattr(userbuild, "make_argv", make_argv)
    image = Image("6.1", Path(), Path(), Path(), prepare.version("6.1"))
    core = kbuild.directory(checkout, image.builds, Variant.TEST) / "src/kmod"
    core.mkdir(parents=True)
    for text in ("", "changed"):
        (core / "Module.symvers").write_text(text)
        userbuild.ensure(checkout, image, Variant.TEST, tree, lambda line: None)
    assert given == ([core, core] if calls else [None])


@pytest.mark.parametrize(
    ("kfabric", "asked", "variant", "core"),
    [
        (False, None, None, False),
        (True, None, Variant.TEST, True),
        (False, Variant.PROD, Variant.PROD, False),
        (True, Variant.PROD, Variant.PROD, False),
    ],
)
def test_guest_has_our_modules_only_if_it_needs_them_or_the_user_asks(
    made: Path,
    monkeypatch: pytest.MonkeyPatch,
    kfabric: bool,
    asked: Variant | None,
    variant: Variant | None,
    core: bool,
) -> None:
    """Those of our tests are only for the user who asks for a build."""
    built: list[dict[str, bool]] = []
    monkeypatch.setattr(usermodule.kbuild, "ensure", lambda *_, **how: built.append(how))
    monkeypatch.setattr(usermodule.userbuild, "ensure", lambda *_: made)
    image = Image("6.1", Path(), Path(), Path(), prepare.version("6.1"))
    module = UserModule(made, made, kfabric=kfabric)
    spec = usermodule.with_module(VmSpec(variant=asked), image, module, lambda line: None)
    assert (spec.variant, spec.core) == (variant, core)
    assert built == ([{"others": False}] if kfabric else [])


def test_address_of_a_link_needs_our_modules(tree: Path) -> None:
    """The link is made with them."""
    for word, expected in (("a=1", False), ("addr={address}", True)):
        tested = usermodule.of(options("--module", str(tree), "--module-param", word))
        assert tested is not None and tested.kfabric is expected


@pytest.mark.parametrize(("text", "ours"), [("", False), ("import kfabric_py", True)])
def test_run_of_a_plain_module_builds_ours_only_for_its_tests(
    tree: Path, monkeypatch: pytest.MonkeyPatch, text: str, ours: bool
) -> None:
    """And never those of our own tests."""
    (tree / "test_it.py").write_text(text)
    image = SimpleNamespace(release="6.1", version=None)
    seen: list[bool] = []

    def prepared(_name: str, ours: bool) -> SimpleNamespace:
        seen.append(ours)
        return image

    monkeypatch.setattr(testrun, "_prepare", prepared)
    monkeypatch.setattr(testrun, "fit", lambda part, version: part)
    monkeypatch.setattr(testrun, "_run", lambda *_: 0)
    monkeypatch.setattr(testrun.usermodule, "build", lambda *given: seen.append(given[2].kfabric))
    assert testrun.main(["--module", str(tree)]) == 0
    assert seen == [False, ours]


def test_our_own_tests_get_all_of_our_modules_beside_a_users_module() -> None:
    assert testrun._is_of_checkout(f"{prepare.SOURCE}/tests/guest/test_cq.py::test_a")
    assert not testrun._is_of_checkout(f"{prepare.SOURCE}/examples/pingpong_ulp/tests")


def test_make_gets_our_headers_and_symbols() -> None:
    headers: Any = SimpleNamespace(build=Path("/h"))
    argv = userbuild.make_argv(headers, Path("/copy"), Variant.PROD, Path("/our/kmod"))
    assert "KBUILD_EXTRA_SYMBOLS=/our/kmod/Module.symvers" in argv
    assert "KFABRIC_DIR=/our/kmod" in argv
    assert "KCFLAGS=-I/our/kmod/include" in argv


def test_guest_sees_the_project_that_module_and_tests_lie_in(tree: Path) -> None:
    """pytest's configuration files mark its root as well."""
    project = tree.parent
    (project / "tests").mkdir()
    assert usermodule.root(tree, [project / "tests"]) == project
    (project.parent / "pytest.ini").touch()
    assert usermodule.root(tree, [project / "tests"]) == project.parent
    (project / "pyproject.toml").touch()
    assert usermodule.root(tree, []) == tree, "it has a .git"


def test_module_of_the_checkout_needs_nothing_that_is_not_seen_already() -> None:
    example = prepare.SOURCE / "examples/pingpong_ulp"
    assert (
        usermodule.root(example, [prepare.SOURCE / "tests/guest/test_pingpong_ulp.py"])
        == prepare.SOURCE
    )


def test_tests_of_the_checkout_do_not_widen_what_the_guest_sees(tree: Path) -> None:
    assert usermodule.root(tree, [prepare.SOURCE / "tests/guest"]) == tree


def test_directory_that_the_guest_needs_itself_is_not_mounted_over() -> None:
    with pytest.raises(UserModuleError, match="only / in common"):
        usermodule.root(Path("/home/me/mod"), [Path("/srv/tests")])
    with pytest.raises(UserModuleError, match="only /tmp in common"):
        usermodule.root(Path("/tmp/nobody-has-this"), [Path("/tmp/nor-this")])


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
    monkeypatch.setattr(testrun, "_prepare", lambda *_: image)
    monkeypatch.setattr(testrun, "fit", lambda part, version: part)
    monkeypatch.setattr(testrun, "precompiling", lambda image, paths: nullcontext())
    monkeypatch.setattr(testrun.usermodule, "build", lambda *given: seen.append(given[2]))
    monkeypatch.setattr(testrun, "_run", run)
    monkeypatch.chdir(tree)
    argv = ["--module", ".", "--module-param", "a=1", "-x", "--", "tests/test_it.py::test_a"]
    assert testrun.main(argv) == 0
    tested, (command, _, where) = seen
    assert tested == UserModule(tree, tree, ("a=1",))
    assert where == tree
    assert command[-1] == f"{tree}/tests/test_it.py::test_a"
    assert command[command.index("--kfabric-module") + 1] == usermodule.to_json(tested)
    assert f"--rootdir={tree}" in command and "--" not in command


def test_nothing_is_written_below_the_users_directory(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No guest's files, no pytest cache, no bytecode: pytest itself would write all of them."""
    test = tree / "test_it.py"
    test.write_text("def test_it():\n    pass\n")
    (tree / "conftest.py").touch()
    commands: list[list[str]] = []
    monkeypatch.setattr(testrun.bytecode, "tests", lambda *given: commands.append(list(given[2])))
    ours = str(prepare.SOURCE / "tests/guest")
    testrun.precompiling(cast(Any, None), [ours, str(tree)])
    testrun.precompiling(cast(Any, None), [str(tree)])
    assert commands == [[ours]]

    image = SimpleNamespace(release="6.1", version=None)
    monkeypatch.setattr(testrun, "_prepare", lambda *_: image)
    monkeypatch.setattr(testrun, "fit", lambda part, version: testrun.replace(part, guests=0))
    monkeypatch.setattr(testrun, "REPORTS", tree.parent / "reports")
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(testrun.usermodule, "build", lambda *_: None)
    before = sorted(tree.rglob("*"))
    assert testrun.main(["--module", str(tree)]) == 0
    assert sorted(tree.rglob("*")) == before
    assert (tree.parent / "reports/pytest_cache").is_dir()


def test_module_in_the_checkout_is_the_users_as_well() -> None:
    """No bytecode is written next to its tests, only next to our own."""
    example = prepare.SOURCE / "examples/pingpong_ulp"
    runs = testrun.Runs([], [], UserModule(example, prepare.SOURCE))
    assert runs._is_theirs(f"{example}/tests/test_it.py::test_every_message_arrives")
    assert not runs._is_theirs(f"{prepare.SOURCE}/tests/guest/test_cq.py")
    assert not testrun.Runs([], [])._is_theirs(f"{example}/tests/test_it.py")


def test_guests_files_are_next_to_the_reports() -> None:
    """Wherever the user's module is."""
    argv = testrun.Part("guest", ("x",), 1).argv(["--rootdir=/home/me/mod"])
    assert argv[argv.index("--kfabric-dir") + 1] == str(testrun.REPORTS)


def test_without_paths_the_modules_directory_is_searched_for_tests(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def run(argv: Sequence[str], *_: object) -> int:
        seen.append(argv[-1])
        return 0

    image = SimpleNamespace(release="6.1", version=None)
    monkeypatch.setattr(testrun, "_prepare", lambda *_: image)
    monkeypatch.setattr(testrun, "fit", lambda part, version: part)
    monkeypatch.setattr(testrun, "precompiling", lambda image, paths: nullcontext())
    monkeypatch.setattr(testrun.usermodule, "build", lambda *_: None)
    monkeypatch.setattr(testrun, "_run", run)
    assert testrun.main(["--module", str(tree)]) == 0
    assert seen == [str(tree)]


def test_option_of_the_plugin_is_complete(tree: Path) -> None:
    given = UserModule(tree, tree.parent, ("a=1", "b.c={address}"), load=False, kfabric=True)
    assert usermodule.from_json(usermodule.to_json(given)) == given
    given = UserModule(None, prepare.SOURCE, modprobe=("ifb", "null_blk"))
    assert usermodule.from_json(usermodule.to_json(given)) == given


def test_no_module_is_no_error() -> None:
    parser = argparse.ArgumentParser()
    usermodule.add_options(parser)
    assert usermodule.of(parser.parse_args([])) is None


def options(*words: str) -> argparse.Namespace:
    """The parsed options."""
    parser = argparse.ArgumentParser()
    usermodule.add_options(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--module-param", "a=1"], "--module-param needs a module"),
        (["--module-unloaded"], "--module-unloaded needs a module"),
        (["--modprobe", "./null_blk"], "takes a name such as null_blk, not './null_blk'"),
        (["--modprobe", ""], "takes a name such as null_blk, not ''"),
    ],
)
def test_senseless_options_are_refused(words: list[str], reason: str) -> None:
    with pytest.raises(UserModuleError, match=re.escape(reason)) as error:
        usermodule.of(options(*words))
    assert error.value.status == ExitStatus.USAGE


def test_module_of_the_image_needs_the_paths_of_tests() -> None:
    """Otherwise all tests of the checkout would run."""
    with pytest.raises(UserModuleError, match="needs tests"):
        testrun.main(["--modprobe", "ifb"])


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Built modules: my-core with depth and put, top with count."""
    place = tmp_path / "made"
    place.mkdir()
    (place / names.MODULE_ORDER).write_text("my-core\ntop\n")
    # As gcc lays them out; a parameter with a callback of its own is only a symbol.
    core = b"\x7fELF\0license=GPL\0parmtype=depth:uint\0parm=depth:how deep\0depends=kfabric\0"
    (place / "my-core.ko").write_bytes(core + b"\0__param_depth\0__param_str_put\0__param_put\0")
    (place / "top.ko").write_bytes(b"\x7fELF\0parmtype=count:uint\0depends=\0name=top\0")
    return place


def test_parameters_of_a_module_are_those_of_its_file(made: Path) -> None:
    assert userbuild.parameters(made) == {"my_core": {"depth", "put"}, "top": {"count"}}


@pytest.mark.parametrize(
    ("words", "aimed"),
    [
        (("count=3", "depth=4", "put"), ["top.count=3", "my_core.depth=4", "my_core.put"]),
        (("my-core.depth=a.b=c",), ["my_core.depth=a.b=c"]),
        (("ifb.nosuch=1", "numifbs=3"), ["ifb.nosuch=1", "numifbs=3"]),
    ],
)
def test_parameter_goes_to_the_modules_that_have_it(
    made: Path, words: tuple[str, ...], aimed: list[str]
) -> None:
    """The host does not know those of the image's modules, so the guest checks them."""
    module = UserModule(made, made, words, modprobe=("ifb",))
    assert usermodule._aimed(module, made) == aimed


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("nosuch=1", "my_core, top has no parameter nosuch; it has count, depth, put"),
        ("top.depth=1", "top has no parameter depth; it has count"),
        ("=1", "my_core, top has no parameter ; it has count, depth, put"),
        ("bottom.count=1", "bottom is no tested module; there is my_core, top"),
    ],
)
def test_parameter_that_no_module_has_is_refused_before_a_guest_boots(
    made: Path, monkeypatch: pytest.MonkeyPatch, word: str, reason: str
) -> None:
    """In one line, with those that there are."""
    monkeypatch.setattr(usermodule.kbuild, "ensure", lambda *_: None)
    monkeypatch.setattr(usermodule.userbuild, "ensure", lambda *_: made)
    image = Image("6.1", Path(), Path(), Path(), prepare.version("6.1"))
    with pytest.raises(UserModuleError) as error:
        usermodule.build(image, Variant.TEST, UserModule(made, made, (word,)), lambda line: None)
    assert error.value.line() == f"wrong usage: --module-param {word}: {reason}"
    assert error.value.status == ExitStatus.USAGE


def test_modules_that_call_kfabric_need_it(made: Path) -> None:
    """Others are tested in a guest without our modules, unless they want an RDMA link."""
    guest = partial(guest_part.UserModule, made)
    assert guest(["my-core", "top"], []).needs_kfabric
    assert not guest(["top"], ["count=3"]).needs_kfabric
    assert guest(["top"], ["top.addr={address}"]).needs_kfabric
    assert not guest([], [], modprobe=["ifb"]).needs_kfabric


class Loader:
    """The kernel's side of loading: some modules are there; some parameters are unknown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, unknown: Sequence[str] = ()) -> None:
        self.there: list[str] = []
        self.calls: list[str] = []
        self._unknown = unknown
        for name in ("state", "insert", "probe", "remove_when_free"):
            monkeypatch.setattr(guest_part.modules, name, getattr(self, name))

    def state(self, name: str) -> str | None:
        """Something if it is loaded."""
        return name if name in self.there else None

    def insert(self, path: Path, text: str) -> list[str]:
        """Note it."""
        self.there.append(modules.kernel_name(path.stem))
        self.calls.append(f"insert {path.stem} {text}".strip())
        return [word for word in self._unknown if word in text]

    def probe(self, name: str, words: Sequence[str]) -> list[str]:
        """Note it."""
        self.there.append(modules.kernel_name(name))
        self.calls.append(" ".join(["probe", name, *words]))
        return [word for word in self._unknown if word in " ".join(words)]

    def remove_when_free(self, name: str, limit: object) -> None:
        """Note it."""
        self.there.remove(name)
        self.calls.append(f"remove {name}")


def test_modules_of_the_image_come_first_and_go_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's module may need them."""
    kernel = Loader(monkeypatch)
    mine = guest_part.UserModule(tmp_path, ["my-top"], ["ifb.n=2", "my_top.x=1"], modprobe=["ifb"])
    mine.load()
    assert mine.loaded == ("ifb", "my_top")
    mine.unload()
    assert kernel.calls == ["probe ifb n=2", "insert my-top x=1", "remove my_top", "remove ifb"]


def test_parameter_that_the_kernel_ignores_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module does not stay: a test would run with other parameters than it wanted."""
    kernel = Loader(monkeypatch, unknown=["nosuch"])
    mine = guest_part.UserModule(tmp_path, [], ["nosuch=1"], modprobe=["ifb"])
    with pytest.raises(modules.ModuleError, match="ifb has no parameter nosuch"):
        mine.load()
    assert kernel.there == []


def test_parameter_that_one_module_has_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of several modules gets a word without a module's name."""
    monkeypatch.setattr(guest_part.modules, "state", lambda name: None)
    ignored = {"core": ["count"], "top": []}
    monkeypatch.setattr(guest_part.modules, "insert", lambda path, text: ignored[path.stem])
    guest_part.UserModule(tmp_path, ["core", "top"], []).load(count=3)


def test_kernel_names_the_parameters_that_it_ignores() -> None:
    """Those of other modules, and lines of users, do not count."""
    lines = [
        (True, "ifb: unknown parameter 'nosuch' ignored"),
        (True, "my_ifb: unknown parameter 'other' ignored"),
        (False, "ifb: unknown parameter 'mine' ignored"),
        (True, "ifb: loaded"),
    ]
    log: Any = SimpleNamespace(new=lambda: [Record(0, 0, 4, *line) for line in lines])
    assert modules._ignored(log, "ifb") == ["nosuch"]


def test_module_that_the_guest_had_loaded_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guest may need it."""
    monkeypatch.setenv(names.MODPROBE, "9pnet ifb")
    monkeypatch.setenv(names.MODULE_PARAMETERS, "[]")
    assert guest_part._tested(None, ("9pnet",)).names == ("ifb",)


def test_parameter_of_a_module_that_the_guest_had_loaded_is_an_error(tmp_path: Path) -> None:
    """It would have no effect."""
    for words, files in ((["9pnet.a=1"], ["mine"]), (["a=1"], [])):
        mine = guest_part.UserModule(tmp_path, files, words)
        with pytest.raises(modules.ModuleError, match="9pnet is loaded already, so a is too late"):
            mine.require_no_words_for(["9pnet"])
    guest_part.UserModule(tmp_path, ["mine"], ["a=1"]).require_no_words_for(["9pnet"])
    guest_part.UserModule(tmp_path, ["mine"], ["a=1"]).require_no_words_for([])


def test_state_from_before_the_modules_is_kept_for_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without an RDMA link."""
    monkeypatch.setattr(guest_part, "STATE", tmp_path / "state")
    for link in (LINK, None):
        before = guest_part.Before(link, {"net devices": 1}, ("9pnet",))
        guest_part._remember(before)
        assert guest_part._recall() == before


def test_parameters_go_to_the_module_that_they_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on the kernel's command line; a dash in a file's name is none in the module's."""
    kernel = Loader(monkeypatch)
    words = ["addr={address}", "my_core.depth=4", "my-top.name=a.b=c"]
    guest_part.UserModule(tmp_path, ["my-core", "top"], words, LINK.address).load()
    assert kernel.calls == ["insert my-core addr=198.18.3.1 depth=4", "insert top addr=198.18.3.1"]
    kernel.calls.clear()
    guest_part.UserModule(tmp_path, ["my-top"], words).load("my_top.x=1", count=3)
    assert kernel.calls == ["insert my-top x=1 count=3"]


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
    usermodule.load(cast(Vm, guest), UserModule(tree, tree))


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
    (tmp_path / names.MODULE_ORDER).write_text("my-core\nmine\n")
    monkeypatch.setenv(names.MODULE_DIR, str(tmp_path))
    monkeypatch.setenv(names.MODPROBE, "ifb")
    assert modules.watched() == (*modules.OURS, "ifb", "my_core", "mine")


def test_modules_are_unloaded_after_a_failed_teardown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its error also lists what they leave."""
    before = {"net devices": 1}
    mine: Any = SimpleNamespace(loaded=("mine",), unload=lambda: setattr(mine, "loaded", ()))
    monkeypatch.setattr(guest_part, "_recall", lambda: guest_part.Before(LINK, before, ()))
    monkeypatch.setattr(guest_part, "_tested", lambda *_: mine)
    monkeypatch.setattr(guest_part.leaks, "since", lambda before: ["net devices: 1 -> 2"])
    last: Any = None  # the hook reads only whether another test follows
    step = guest_part.UserModuleChecks().pytest_runtest_teardown(last, None)
    next(step)
    with pytest.raises(OSError, match="no link") as failed:
        step.throw(OSError("no link"))
    assert mine.loaded == ()
    assert failed.value.__notes__ == ["mine left behind, unloaded: net devices: 1 -> 2"]


def test_guest_takes_the_arguments_of_the_host_with_a_strict_configuration(
    tmp_path: Path,
) -> None:
    """A project with --strict-config, as this checkout: a guest has no cache, but its option."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-config\n")
    (tmp_path / "test_it.py").write_text("def test_a(): ...\n")
    argv = [sys.executable, "-m", "pytest", *worker.GUEST_ARGUMENTS, "-p", "kfabric.runner.plugin"]
    argv += ["-o", f"cache_dir={tmp_path}/cache", "--collect-only", "-q"]
    env = {**os.environ, "PYTHONPATH": python_path(prepare.SOURCE)}
    done = subprocess.run(
        argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
