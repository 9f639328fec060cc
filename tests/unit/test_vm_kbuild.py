# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Modules are rebuilt if and only if one of their inputs changes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from slow_steps import Log

from kfabric.errors import BuildError, SetupError
from kfabric.guest.waiting import wait_until
from kfabric.vm import cache, kbuild, tools
from kfabric.vm.headers import Headers
from kfabric.vm.spec import Image, Variant
from kfabric.vm.versions import Stock, Version


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a core module and an example."""
    source = tmp_path / "checkout"
    for name in ("kmod/Kbuild", "kmod/core/main.c", "examples/ulp/Kbuild", "examples/ulp/ulp.c"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    return source


def key(source: Path, release: str = "6.1", variant: Variant = Variant.PROD) -> str:
    return ":".join(kbuild.key(source, release, variant, tree) for tree in kbuild.trees(source))


def test_the_core_is_built_first(checkout: Path) -> None:
    assert kbuild.trees(checkout) == [Path("kmod"), Path("examples/ulp")]


def test_content_release_and_variant_count_and_time_does_not(checkout: Path) -> None:
    before = key(checkout)
    os.utime(checkout / "kmod/core/main.c", (0, 0))
    assert key(checkout) == before
    assert key(checkout, release="6.12") != before
    assert key(checkout, variant=Variant.TEST) != before
    (checkout / "examples/ulp/ulp.c").write_text("changed")
    assert key(checkout) != before


def test_the_copy_follows_the_sources(checkout: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    kbuild.sync(checkout, copy)
    made = copy / "kmod/core/main.o"
    made.touch()
    (copy / "kmod/kfabric.mod.c").touch()
    (checkout / "kmod/core/main.c").rename(checkout / "kmod/core/other.c")
    kbuild.sync(checkout, copy)
    assert (copy / "kmod/core/other.c").exists()
    assert not (copy / "kmod/core/main.c").exists()
    assert made.exists()
    assert (copy / "kmod/kfabric.mod.c").exists()


def test_build_in_the_checkout_is_not_copied(checkout: Path, tmp_path: Path) -> None:
    """make would take its objects, which may be of another kernel, for the copy's own."""
    before = key(checkout)
    for name in ("core/main.o", "core/.main.o.cmd", "kfabric.ko", "kfabric.mod.c"):
        (checkout / "kmod" / name).touch()
    for name in ("kmod/Module.symvers", "kmod/modules.order", "examples/ulp/Module.symvers"):
        (checkout / name).touch()
    assert key(checkout) == before
    copy = tmp_path / "copy"
    kbuild.sync(checkout, copy)
    copied = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert copied == {
        *("kmod/Kbuild", "kmod/core/main.c"),
        *("examples/ulp/Kbuild", "examples/ulp/ulp.c"),
    }


def test_all_modules_are_linked_anew(tmp_path: Path) -> None:
    """A module without a source is removed, and so is the list of exports."""
    for name in ("Module.symvers", "old.ko", "main.o", "main.mod.c"):
        (tmp_path / "tree").mkdir(exist_ok=True)
        (tmp_path / "tree" / name).touch()
    kbuild.forget_linked(tmp_path)
    assert {path.name for path in (tmp_path / "tree").iterdir()} == {"main.o", "main.mod.c"}


def test_unchanged_sources_keep_their_time(checkout: Path, tmp_path: Path) -> None:
    """make uses time stamps to decide what to compile again."""
    copy = tmp_path / "copy"
    kbuild.sync(checkout, copy)
    os.utime(copy / "kmod/core/main.c", (1, 1))
    kbuild.sync(checkout, copy)
    assert (copy / "kmod/core/main.c").stat().st_mtime == 1


def test_the_variant_is_a_make_variable() -> None:
    build, tree = Path("/h"), Path("/t")
    assert "KFABRIC_TEST=1" in kbuild.make_argv(build, tree, Variant.TEST, None)
    assert not any("TEST" in w for w in kbuild.make_argv(build, tree, Variant.PROD, None))


@pytest.mark.parametrize("path", ["/home/a b/kfabric", "/home/a:b/kfabric", "/home/é,/k"])
def test_paths_that_kbuild_cannot_handle_are_refused(path: str) -> None:
    with pytest.raises(SetupError, match="character"):
        cache.require_plain(Path(path))


def test_a_build_failure_is_its_first_error() -> None:
    log = "  CC main.o\nmain.c:3:1: error: expected ';'\nmake: *** [x] Error 1\n"
    assert tools.first_error(log) == "main.c:3:1: error: expected ';'"
    modpost = 'ERROR: modpost: "kfi_wait" [/k/ulp.ko] undefined!\n'
    assert tools.first_error(modpost) == modpost.strip()
    sub_make = "make[2]: *** [x] Error 1\na.c:1:2: error: no such thing\nmake: Error 2\n"
    assert tools.first_error(sub_make) == "a.c:1:2: error: no such thing"
    assert tools.first_error("quiet\n") == "quiet"
    assert tools.first_error("") == "make fails without a message"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/copy/kmod/a.c:3:5: warning: symbol 'x' was not declared", True),
        ("WARNING: modpost: missing MODULE_DESCRIPTION()", True),
        ("  CC [M]  /copy/kmod/warning.o", False),
        ("Skipping BTF generation for /copy/a.ko due to unavailability of vmlinux", False),
        ("make[2]: warning:  Clock skew detected.  Your build may be incomplete.", False),
        ("warning: the compiler differs from the one used to build the kernel", False),
    ],
)
def test_warnings_of_a_build(line: str, found: bool) -> None:
    expected = [line.replace("/copy/", "")] if found else []
    assert kbuild.warnings(f"{line}\n{line}\n", Path("/copy")) == expected


MAKE = """\
#!/bin/sh
# Compiles new files, with a warning for each if the build is strict.
for word; do
    case $word in
    M=*) tree=${word#M=} ;;
    W=1) strict=yes ;;
    esac
done
[ -e "$tree/main.o" ] && exit
touch "$tree/main.o"
[ "$strict" ] && echo "$tree/core/main.c:3:5: warning: unused variable 'x'"
exit 0
"""


class Place:
    """Where the headers are the host's."""

    def headers(self, release: str) -> Headers:
        """Any."""
        return Headers(Path("/h"))


def test_module_that_warns_is_not_built(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the compiler's text; a second build fails as well."""
    (tmp_path / "make").write_text(MAKE)
    (tmp_path / "make").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(kbuild.supply, "of", lambda *_: Place())
    version = Version("6.1", "bookworm", Stock("linux-image-amd64", "bookworm"))
    image = Image("6.1", Path("linux"), Path("initrd"), Path("root.img"), version)
    for _ in range(2):
        with pytest.raises(BuildError) as caught:
            kbuild.ensure(checkout, image, Variant.PROD, lambda line: None)
        assert caught.value.what == "kmod/core/main.c:3:5: warning: unused variable 'x'"
        assert caught.value.console.strip() == caught.value.what


def test_build_that_takes_long_is_shown(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each directory, with its files: all of them take minutes on a busy host."""
    log = Log(monkeypatch)
    monkeypatch.setattr(kbuild.supply, "of", lambda *_: Place())
    monkeypatch.setattr(kbuild, "strip", lambda *_: None)
    shown: list[bool] = []

    def make(argv: list[str], copy: Path) -> str:
        tree = next(word for word in argv if word.startswith("M=")).removeprefix(f"M={copy}/")
        shown.append(log.wait(f"make in {tree} has run for 0 s: 0 of 1 files"))
        return ""

    monkeypatch.setattr(kbuild, "make", make)
    version = Version("6.1", "bookworm", Stock("linux-image-amd64", "bookworm"))
    image = Image("6.1", Path("linux"), Path("initrd"), Path("root.img"), version)
    kbuild.ensure(checkout, image, Variant.TEST, log)
    assert shown == [True, True]


class Builds:
    """Builds in which each tree makes one module; ``trees``: those that were made since.

    Each exports ``symbols``.
    """

    def __init__(self, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trees: list[str] = []
        self.symbols = "kfi_wait"
        self.fails = False
        self._checkout = checkout
        version = Version("6.1", "bookworm", Stock("linux-image-amd64", "bookworm"))
        self._image = Image("6.1", Path("linux"), Path("initrd"), Path("root.img"), version)
        monkeypatch.setattr(kbuild.supply, "of", lambda *_: Place())
        monkeypatch.setattr(kbuild, "make", self._make)
        monkeypatch.setattr(kbuild, "strip", self._strip)

    def _make(self, argv: list[str], copy: Path) -> str:
        tree = Path(next(word for word in argv if word.startswith("M=")).removeprefix("M="))
        self.trees.append(str(tree.relative_to(copy)))
        if self.fails:
            raise BuildError("no")
        (tree / f"{tree.name}.ko").touch()
        (tree / "Module.symvers").write_text(self.symbols)
        return ""

    def _strip(self, made: Iterable[Path], target: Path) -> None:
        for path in made:
            (target / path.name).touch()

    def ensure(self, *, others: bool) -> tuple[list[str], set[str]]:
        """Build if need be: the trees that were made, and the modules that are there."""
        self.trees.clear()
        place = kbuild.ensure(
            self._checkout, self._image, Variant.TEST, lambda line: None, others=others
        )
        return list(self.trees), {path.stem for path in place.glob("*.ko")}


@pytest.fixture
def builds(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Builds:
    """Builds of the checkout."""
    return Builds(checkout, monkeypatch)


def test_core_is_built_without_the_others(builds: Builds) -> None:
    """They are built once they are wanted, and the core is not built again."""
    assert builds.ensure(others=False) == (["kmod"], {"kmod"})
    assert builds.ensure(others=False) == ([], {"kmod"})
    assert builds.ensure(others=True) == (["examples/ulp"], {"kmod", "ulp"})
    assert builds.ensure(others=True) == ([], {"kmod", "ulp"})
    assert builds.ensure(others=False) == ([], {"kmod", "ulp"})


def test_changed_example_leaves_the_core_alone(builds: Builds, checkout: Path) -> None:
    builds.ensure(others=True)
    (checkout / "examples/ulp/ulp.c").write_text("changed")
    assert builds.ensure(others=False) == ([], {"kmod", "ulp"})
    assert builds.ensure(others=True) == (["examples/ulp"], {"kmod", "ulp"})


def test_others_are_built_again_only_if_the_core_exports_something_else(
    builds: Builds, checkout: Path
) -> None:
    """An edit of a function leaves them alone; a header or a symbol does not."""
    builds.ensure(others=True)
    (checkout / "kmod/core/main.c").write_text("changed")
    assert builds.ensure(others=True)[0] == ["kmod"]
    (checkout / "kmod/core/main.h").write_text("a header")
    assert builds.ensure(others=True)[0] == ["kmod", "examples/ulp"]
    (checkout / "kmod/core/main.c").write_text("changed again")
    builds.symbols = "another one"
    assert builds.ensure(others=False)[0] == ["kmod"]
    assert builds.ensure(others=True)[0] == ["examples/ulp"]


def test_core_that_failed_is_built_again(builds: Builds, checkout: Path) -> None:
    """Also if its edit is taken back."""
    builds.ensure(others=True)
    (checkout / "kmod/core/main.c").write_text("wrong")
    builds.fails = True
    with pytest.raises(BuildError):
        builds.ensure(others=False)
    builds.fails = False
    (checkout / "kmod/core/main.c").write_text("kmod/core/main.c")
    assert builds.ensure(others=True) == (["kmod"], {"kmod", "ulp"})


def test_module_whose_example_is_gone_goes(builds: Builds, checkout: Path) -> None:
    """If it comes back, it is built again."""
    (checkout / "examples/more").mkdir()
    (checkout / "examples/more/Kbuild").touch()
    assert builds.ensure(others=True)[1] == {"kmod", "more", "ulp"}
    (checkout / "examples/more/Kbuild").unlink()
    assert builds.ensure(others=True) == ([], {"kmod", "ulp"})
    (checkout / "examples/more/Kbuild").touch()
    assert builds.ensure(others=True) == (["examples/more"], {"kmod", "more", "ulp"})


@pytest.mark.parametrize("ignored", ["", "trap '' TERM; "], ids=["polite", "stubborn"])
def test_build_that_takes_too_long_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignored: str
) -> None:
    """make ends, and so does the compiler that it has started."""
    monkeypatch.setattr(tools, "END_SECONDS", 0.1)
    pid = tmp_path / "pid"
    pid.touch()
    limit = 0.1
    # Until the child has begun before the limit.
    while not pid.read_text():
        limit *= 2
        monkeypatch.setattr(kbuild, "BUILD_SECONDS", limit)
        with pytest.raises(BuildError, match="not done after"):
            kbuild.make(["sh", "-c", f"{ignored}sleep 1000 & echo $! > {pid}; wait"], tmp_path)
    child = Path("/proc") / pid.read_text().strip() / "exe"
    wait_until(lambda: not child.exists(), "the end of the child")


def test_progress_counts_the_files_that_were_compiled_now(tmp_path: Path) -> None:
    """Neither an object of an earlier build, nor the source that make writes."""
    for name in ("a.c", "b.c", "c.c", "m.mod.c", "a.o", "b.o", "m.mod.o", "m.o"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "b.o", (1, 1))
    assert kbuild._compiled(tmp_path, 2 * 10**9) == "1 of 3 files"
