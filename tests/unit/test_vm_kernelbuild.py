# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Kernels are configured as asked, built once, and named by their inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric.errors import BuildError, SetupError
from kfabric.vm import kconfig, kernelbuild, steps
from kfabric.vm.kernelbuild import Recipe

TOP = Path(__file__).parents[2]
OPTIONS = {"CONFIG_KASAN": "y", "CONFIG_TUN": "m", "CONFIG_SWAP": "n", "CONFIG_NR_CPUS": "8"}
CONFIG = """\
# Automatically generated file; DO NOT EDIT.
CONFIG_KASAN=y
CONFIG_TUN=m
# CONFIG_SWAP is not set
CONFIG_NR_CPUS=8
CONFIG_OTHER=y
"""


def fragment(directory: Path, name: str, text: str) -> Path:
    path = directory / f"{name}.config"
    path.write_text(text)
    return path


def test_a_later_fragment_wins(tmp_path: Path) -> None:
    first = fragment(tmp_path, "first", "# why\nCONFIG_A=y   # reason\nCONFIG_B=m # reason\n")
    second = fragment(tmp_path, "second", 'CONFIG_A=n # reason\nCONFIG_C="x" # reason\n')
    asked = kconfig.read([first, second])
    assert asked == {"CONFIG_A": "n", "CONFIG_B": "m", "CONFIG_C": '"x"'}


@pytest.mark.parametrize("line", ["KASAN=y", "CONFIG_KASAN", "CONFIG_KASAN=yes", "CONFIG_A = y"])
def test_what_is_not_an_option_is_refused(tmp_path: Path, line: str) -> None:
    """Kconfig would silently ignore it."""
    with pytest.raises(SetupError, match="not an option"):
        kconfig.read([fragment(tmp_path, "bad", f"{line}\n")])


def test_a_configuration_as_asked_passes() -> None:
    kconfig.check(OPTIONS, CONFIG)


def test_each_option_that_is_not_as_asked_is_named() -> None:
    """Missing, only a module, set although it must not be, another number: all at once."""
    config = "CONFIG_TUN=y\nCONFIG_SWAP=y\nCONFIG_NR_CPUS=64\n"
    with pytest.raises(SetupError) as caught:
        kconfig.check(OPTIONS, config)
    assert caught.value.what == (
        "not configured as asked: CONFIG_KASAN is n instead of y, CONFIG_TUN is y instead of m, "
        "CONFIG_SWAP is y instead of n, CONFIG_NR_CPUS is 64 instead of 8"
    )


def test_options_version_and_compiler_make_the_key() -> None:
    key = kernelbuild.key(OPTIONS, "6.1.1-1", "gcc 12", "")
    assert kernelbuild.key(dict(reversed(OPTIONS.items())), "6.1.1-1", "gcc 12", "") == key
    others = [
        kernelbuild.key({**OPTIONS, "CONFIG_TUN": "y"}, "6.1.1-1", "gcc 12", ""),
        kernelbuild.key(OPTIONS, "6.1.2-1", "gcc 12", ""),
        kernelbuild.key(OPTIONS, "6.1.1-1", "gcc 13", ""),
        kernelbuild.key(OPTIONS, "6.1.1-1", "gcc 12", "a file"),
    ]
    assert len({key, *others}) == 5


def addition(directory: Path, was: str) -> Path:
    """An addition with a new file, and with a patch for a file."""
    folder = directory / "addition"
    (folder / "tree/kernel").mkdir(parents=True)
    (folder / "tree/kernel/new.c").write_text("new\n")
    patch = f"Why.\n\n--- a/Makefile\n+++ b/Makefile\n@@ -1 +1,2 @@\n {was}\n+more\n"
    (folder / "hook.patch").write_text(patch)
    return folder


def test_an_addition_patches_the_source_and_adds_files(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "kernel").mkdir(parents=True)
    (tree / "kernel/old.c").write_text("old\n")
    (tree / "Makefile").write_text("all\n")
    kernelbuild.add(addition(tmp_path, "all"), tree)
    names = ("kernel/old.c", "kernel/new.c", "Makefile")
    assert [(tree / name).read_text() for name in names] == ["old\n", "new\n", "all\nmore\n"]


def test_a_patch_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    """The kernel would be built without what it adds."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "Makefile").write_text("other\n")
    with pytest.raises(BuildError):
        kernelbuild.add(addition(tmp_path, "all"), tree)


def test_each_file_of_an_addition_is_in_the_key(tmp_path: Path) -> None:
    """By its name and its text."""
    folder = addition(tmp_path, "all")
    texts = [kernelbuild.added([folder])]
    (folder / "tree/kernel/new.c").write_text("newer\n")
    texts.append(kernelbuild.added([folder]))
    (folder / "tree/kernel/new.c").rename(folder / "tree/kernel/renamed.c")
    texts.append(kernelbuild.added([folder]))
    assert len({"", *texts}) == 4


def test_every_option_has_a_reason() -> None:
    fragments = list((TOP / kernelbuild.CONFIGS).glob("*.config"))
    assert {path.stem for path in fragments} == {"guest", "debug", "kcsan"}
    for path in fragments:
        kconfig.read([path])
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                assert line.partition("#")[2].strip(), f"{path.name}: {line}"


def test_fragments_ask_for_nothing_twice() -> None:
    for path in (TOP / kernelbuild.CONFIGS).glob("*.config"):
        names = [line.partition("=")[0] for line in path.read_text().splitlines() if "=" in line]
        options = [name for name in names if name.startswith("CONFIG_")]
        assert len(options) == len(set(options)), path.name


def test_the_fragments_are_those_of_the_recipe() -> None:
    recipe = Recipe("debug", "linux-source-6.1", ("guest", "debug"))
    paths = kernelbuild.fragments(Path("/src"), recipe)
    assert [str(path) for path in paths] == [
        "/src/vm/kernels/guest.config",
        "/src/vm/kernels/debug.config",
    ]


def test_headers_are_of_source_and_build(tmp_path: Path) -> None:
    """Generated files replace source files; objects are left out."""
    tree, out = tmp_path / "tree", tmp_path / "out"
    files = {
        tree: ("Makefile", "arch/x86/Makefile", "arch/x86/Makefile.um", "arch/x86/kernel/a.c"),
        out: (".config", "Module.symvers", "tools/objtool/objtool", "Makefile", "vmlinux"),
    }
    for base, names in files.items():
        more = ("include/linux/a.h", f"arch/x86/include/{base.name}.h", f"scripts/{base.name}.o")
        for name in (*names, *more):
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text(base.name)
    kernelbuild.collect_headers(tree, out, tmp_path / "headers")
    found = {
        str(path.relative_to(tmp_path / "headers")): path.read_text()
        for path in (tmp_path / "headers").rglob("*")
        if path.is_file()
    }
    assert found == {
        "Makefile": "tree",
        "arch/x86/Makefile": "tree",
        "arch/x86/Makefile.um": "tree",
        "arch/x86/include/tree.h": "tree",
        "arch/x86/include/out.h": "out",
        "include/linux/a.h": "out",
        ".config": "out",
        "Module.symvers": "out",
        "tools/objtool/objtool": "out",
    }


def test_only_made_files_count_as_steps() -> None:
    lines = ["  CC      init/main.o", "  LD [M]  net/8021q/8021q.ko", "  CALL    scripts/x.sh", ""]
    assert [kernelbuild.is_step(line) for line in lines] == [True, True, False, False]


def test_a_tool_that_fails_is_a_build_error() -> None:
    with pytest.raises(BuildError) as caught:
        kernelbuild._run(["sh", "-c", "echo 'a.c:1:1: error: bad'; exit 3"])
    assert caught.value.what == "a.c:1:1: error: bad"


def test_a_tool_that_hangs_is_ended() -> None:
    with pytest.raises(BuildError, match=r"not done after 0\.2 s"):
        list(kernelbuild._lines(["sleep", "60"], 0.2))


def test_progress_is_logged_without_a_terminal() -> None:
    """A line for each tenth, and no "100 %" before the end, whatever the number of steps."""
    said: list[str] = []
    with steps.Steps("kernel debug", 20, said.append) as progress:
        for _ in range(30):
            progress.advance()
    assert said == [f"kernel debug: {percent} %" for percent in range(10, 100, 10)]
    assert progress.done == 30
