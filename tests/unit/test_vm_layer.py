# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Additions to a guest's image: their names, what the image has of them, and the layer's files."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfabric import names
from kfabric.commands import vm as vm_command
from kfabric.errors import ExitStatus, SetupError, UsageError
from kfabric.runner import far, farside, testrun
from kfabric.trace import command as trace
from kfabric.trace.scope import Scope
from kfabric.vm import apt, cache, disk, layer, options, prepare, usermodule
from kfabric.vm.kernel import Kernel
from kfabric.vm.layer import NoSuchModule, NoSuchPackage
from kfabric.vm.machine import Vm
from kfabric.vm.spec import Extras, Image, Variant, VmSpec
from kfabric.vm.versions import Stock, Version

RELEASE = "6.1.0-1-amd64"
VERSION = Version("stock", apt.SUITE, Stock("linux-image-amd64", apt.SUITE))
ALL = """\
kernel/drivers/block/null_blk/null_blk.ko
kernel/drivers/md/dm-mod.ko
kernel/drivers/net/veth.ko
kernel/fs/ext4/ext4.ko
kernel/fs/nfs/nfs.ko
kernel/fs/nfs/nfsv4.ko
"""
THERE = "kernel/drivers/net/veth.ko:\nkernel/fs/nfs/nfs.ko: kernel/net/sunrpc/sunrpc.ko\n"
BUILT_IN = "kernel/fs/9p/9p.ko\n"


def quiet(_line: str) -> None:
    """A log that is not shown."""


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; nothing is asked for by the environment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in (layer.PACKAGES, layer.MODULES):
        monkeypatch.setenv(name, "")
    return tmp_path / "cache/kfabric"


@pytest.fixture
def base(tmp_path: Path, cached: Path) -> Image:
    """An image with bash, veth and nfs, and with ext4 in its initrd."""
    tree = tmp_path / "tree"
    lists = tree / "usr/lib/modules" / RELEASE
    lists.mkdir(parents=True)
    for name, text in (("order", ALL), ("dep", THERE), ("builtin", BUILT_IN)):
        (lists / f"modules.{name}").write_text(text)
    place = cached / "images/base"
    (place / "early/modules").mkdir(parents=True)
    (place / "early/modules/ext4.ko").touch()
    facts = {"release": RELEASE, "packages": {"bash": "5"}}
    (place / "image.json").write_text(json.dumps(facts))
    make_disk(tree, place / "root.img")
    return Image(RELEASE, place / "linux", place / "initrd.cpio", place / "root.img", VERSION)


def make_disk(tree: Path, path: Path) -> None:
    """A file system with these files."""
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(tree), str(path), "8m"]
    subprocess.run(argv, check=True, timeout=60)


def asked(*modules: str, packages: tuple[str, ...] = ()) -> Extras:
    return Extras(packages, modules)


def test_whatever_the_image_has_makes_no_layer(base: Image) -> None:
    """In its root, in its initrd, or in the kernel itself."""
    extras = asked("veth", "ext4", "9p", "nfs", packages=("bash",))
    assert layer.ensure(Path("/"), base, extras, quiet) is base


def test_nothing_is_read_if_nothing_is_asked_for() -> None:
    base = Image(RELEASE, Path("/k"), Path("/i"), Path("/nowhere/root.img"), VERSION)
    assert layer.ensure(Path("/"), base, Extras(), quiet) is base


def test_spelling_and_order_make_no_other_layer(base: Image) -> None:
    one = layer.lacking(base, asked("dm-mod", "null_blk", packages=("strace", "gdb")))
    other = layer.lacking(base, asked("null-blk", "dm_mod", "dm-mod?", packages=("gdb", "strace")))
    assert one == other == asked("dm_mod", "null_blk", packages=("gdb", "strace"))
    assert layer.key(one) == layer.key(other)


def test_each_addition_has_a_layer_of_its_own() -> None:
    """A module is no package of the same name."""
    every = [asked("loop"), asked(packages=("loop",)), asked("loop", "fuse"), asked("fuse")]
    assert len({layer.key(one) for one in every}) == len(every)


def test_directory_is_added_unless_all_of_it_is_there(base: Image) -> None:
    assert layer.lacking(base, asked("fs/nfs/", "drivers/net/")) == asked("fs/nfs/")


def test_unknown_module_is_named_with_a_near_one(base: Image) -> None:
    with pytest.raises(NoSuchModule, match=f"nul_blk in kernel {RELEASE}") as error:
        layer.lacking(base, asked("nul_blk"))
    assert error.value.hint == "did you mean null_blk?"
    assert error.value.status == ExitStatus.USAGE
    with pytest.raises(NoSuchModule) as error:
        layer.lacking(base, asked("xyzzy"))
    assert error.value.hint == "it has 6, and none with a similar name"


def test_module_that_the_kernel_need_not_have_may_be_missing(base: Image) -> None:
    """With a question mark, as in the lists of modules."""
    assert not layer.lacking(base, asked("xyzzy?"))
    assert layer.lacking(base, asked("null_blk?")) == asked("null_blk")


def test_kernels_own_modules_are_known_whether_the_image_has_them_or_not(base: Image) -> None:
    """And in either spelling; whatever is built in counts, too."""
    assert layer.unknown(base, ["null_blk", "null-blk", "ext4", "9p", "lostwake"]) == ["lostwake"]


def test_traced_module_that_the_guest_lacks_is_shown_before_the_boot(
    base: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not one of the kernel, of the directory that was built, or of kfabric's own."""
    monkeypatch.delenv(names.QUIET, raising=False)
    (tmp_path / names.MODULE_ORDER).write_text("my-mod\n")
    ours = tmp_path / "build/kmod" / base.builds / Variant.TEST.value
    ours.mkdir(parents=True)
    (ours / "kfi_mock.ko").touch()
    monkeypatch.setattr(prepare, "SOURCE", tmp_path)
    spec = VmSpec(variant=Variant.TEST, env={names.MODULE_DIR: str(tmp_path)})
    vm = cast(Vm, SimpleNamespace(image=base, spec=spec))
    trace._show_unknown(Scope(modules=("my_mod", "kfi_mock", "nfs")), vm)
    assert capsys.readouterr().err == ""
    trace._show_unknown(Scope(modules=("nfs", "lostwake")), vm)
    assert capsys.readouterr().err == (
        f"kfabric: kernel {RELEASE} has no module lostwake, so CMD has to load it; "
        "a directory is --module ./lostwake\n"
    )


def test_layer_is_built_once_and_completely(base: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the image's kernel and initrd. A directory that a guest has made is not one."""
    built: list[Path] = []

    def build(_source: Path, _base: Image, wanted: Extras, target: Path, _log: object) -> None:
        built.append(target)
        target.mkdir(parents=True, exist_ok=True)
        (target / layer.FACTS).write_text(json.dumps(vars(wanted)))

    monkeypatch.setattr(layer, "_build", build)
    target = base.disk.parent / "layers" / layer.key(asked("null_blk"))
    (target / "programs").mkdir(parents=True)
    for _ in range(2):
        found = layer.ensure(Path("/"), base, asked("null_blk"), quiet)
        assert found.disk == target / "root.img"
        assert (found.kernel, found.initrd, found.release) == (base.kernel, base.initrd, RELEASE)
    assert built == [target]


def test_layer_has_the_files_of_the_image_and_the_additions(
    base: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    def modules(full: Kernel, root: Path, wanted: list[str]) -> None:
        (root / "modules").write_text(" ".join([full.release, *wanted]))

    def packages(suite: str, root: Path, names: tuple[str, ...]) -> None:
        (root / "packages").write_text(" ".join([suite, *names]))

    monkeypatch.setattr(layer, "_kernel", lambda *_: Kernel(RELEASE, Path("/"), Path("/")))
    monkeypatch.setattr(layer.kernel, "install_modules", modules)
    monkeypatch.setattr(layer, "_install_packages", packages)
    monkeypatch.setattr(layer, "_require_packages", lambda *_: None)
    lines: list[str] = []
    extras = asked("null_blk", packages=("strace",))
    found = layer.ensure(Path("/"), base, extras, lines.append)
    assert disk.read(found.disk, "/modules") == f"{RELEASE} null_blk"
    assert disk.read(found.disk, "/packages") == f"{apt.SUITE} strace"
    assert disk.read(found.disk, f"/usr/lib/modules/{RELEASE}/modules.order") == ALL
    assert sorted(path.name for path in found.disk.parent.iterdir()) == ["layer.json", "root.img"]
    assert lines[0] == f"image layer: strace null_blk for the image of {RELEASE}"
    assert "done in" in lines[-1]


class Archive:
    """A source of kernels that unpacks one into the scratch directory, or has it elsewhere."""

    def __init__(self, tree: Path | None = None) -> None:
        self.asked: list[str] = []
        self._tree = tree

    def kernel(self, release: str, scratch: Path) -> Kernel:
        self.asked.append(release)
        tree = self._tree or scratch / "kernel"
        tree.mkdir(exist_ok=True)
        (tree / "here").touch()
        (scratch / "linux").touch()
        return Kernel(release, tree, scratch / "linux")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_all_modules_of_a_kernel_are_fetched_once(
    base: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """A build root has them already: they are not copied."""
    archive = Archive(tmp_path / "root" if elsewhere else None)
    monkeypatch.setattr(layer.supply, "of", lambda *_: archive)
    found = [layer._kernel(Path("/"), base, quiet) for _ in range(2)]
    assert archive.asked == [RELEASE]
    assert (found[0].tree / "here").exists() and found[0] == found[1]
    assert found[0].tree.is_symlink() == elsewhere
    assert not (base.disk.parent / "kernel/linux").exists()


@pytest.mark.parametrize("error", [SetupError("cannot download"), StopIteration()])
def test_kernel_that_the_archive_no_longer_has_is_reported(
    base: Image, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def gone(*_: object) -> Kernel:
        raise error

    monkeypatch.setattr(layer.supply, "of", lambda *_: SimpleNamespace(kernel=gone))
    with pytest.raises(SetupError, match=f"the modules of {RELEASE}") as caught:
        layer._kernel(Path("/"), base, quiet)
    assert "kfabric vm clean" in caught.value.hint
    assert not (base.disk.parent / "kernel").exists()


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A root with what mmdebstrap would make itself."""
    root = tmp_path / "root"
    (root / "dev/shm").mkdir(parents=True)
    (root / "dev/fd").symlink_to("/proc/self/fd")
    (root / "etc/apt").mkdir(parents=True)
    (root / "etc/apt/sources.list").write_text("deb old\n")
    return root


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes mmdebstrap fail with this output."""

    def refuse(console: str) -> None:
        def fail(*_: object) -> None:
            raise SetupError("mmdebstrap fails", console=console)

        monkeypatch.setattr(apt, "archives", lambda _suite: ["deb new"])
        monkeypatch.setattr(apt, "debootstrap", fail)
        monkeypatch.setattr(apt, "names", lambda _root: ["cairo-perf-utils", "linux-perf", "gdb"])

    return refuse


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("Unable to locate package perf", "perf in Debian's sid; did you mean linux-perf?"),
        ("Unable to locate package gbd", "gbd in Debian's sid; did you mean gdb?"),
        ("Unable to locate package xy", "xy in Debian's sid; it has 3, and none with a similar"),
        ("Package 'a' has no installation candidate", "Package 'a' has no installation candidate"),
        ("Version '9' for 'a' was not found", "Version '9' for 'a' was not found in Debian's sid"),
    ],
)
def test_unknown_package_is_named(unpacked: Path, refusing, said: str, line: str) -> None:
    """With a near name: that of perf is longer."""
    refusing(f"Reading package lists...\nE: {said}\nE: apt download failed\n")
    with pytest.raises(NoSuchPackage) as error:
        layer._install_packages("sid", unpacked, ["a"])
    assert error.value.line().startswith(f"no such package: {line}")
    assert error.value.status == ExitStatus.USAGE


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the host's lists have some names besides those of the image's packages."""
    own = cache.list_lines(prepare.SOURCE / "vm/packages-guest.txt")

    def have(*names: str, but: int = 0) -> None:
        monkeypatch.setattr(apt, "names", lambda _root: [*own[but:], *names])

    return have


def test_unknown_package_is_found_before_the_image_is_unpacked(
    base: Image, monkeypatch: pytest.MonkeyPatch, archive: Callable[..., None]
) -> None:
    """In the host's own lists; nothing is shown but the error."""
    archive("gdb", "strace")
    monkeypatch.setattr(layer.disk, "unpack", lambda *_: pytest.fail("it is unpacked"))
    lines: list[str] = []
    with pytest.raises(NoSuchPackage) as error:
        layer.ensure(prepare.SOURCE, base, asked(packages=("strace", "gbd=1.0")), lines.append)
    assert error.value.line() == "no such package: gbd in Debian's bookworm; did you mean gdb?"
    assert lines == []


def test_lists_that_prove_nothing_refuse_no_package(archive: Callable[..., None]) -> None:
    """Those of another suite, or of a host on which apt-get update was never run."""
    archive("gdb")
    layer._require_packages(prepare.SOURCE, apt.SUITE, ["gdb/bookworm-backports"])
    layer._require_packages(prepare.SOURCE, "sid", ["xyzzy"])
    archive("gdb", but=1)
    layer._require_packages(prepare.SOURCE, apt.SUITE, ["xyzzy"])


def test_other_failures_of_apt_stay_what_they_are(unpacked: Path, refusing) -> None:
    refusing("E: Failed to fetch http://x 404  Not Found [IP: ::1]\nE: apt download failed\n")
    with pytest.raises(SetupError, match="mmdebstrap fails") as error:
        layer._install_packages("sid", unpacked, ["a"])
    assert error.value.status == ExitStatus.SETUP


def test_packages_are_installed_in_the_unpacked_image(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From today's archives, with all that packages take for granted; mmdebstrap makes /dev."""
    seen: list[object] = []
    monkeypatch.setattr(apt, "archives", lambda suite: [f"deb new {suite}"])
    monkeypatch.setattr(apt, "debootstrap", lambda *words: seen.extend(words))
    layer._install_packages("sid", unpacked, ["gdb", "strace"])
    suite, root, names, more, archives = seen
    assert (suite, root, names, archives) == ("sid", unpacked, ["gdb", "strace"], ["deb new sid"])
    assert more == ["--variant=custom", "--skip=check/empty", "--include=?essential"]
    assert not (unpacked / "etc/apt/sources.list").exists()
    assert list((unpacked / "dev").iterdir()) == []


def test_unpacked_image_has_the_same_files(tmp_path: Path) -> None:
    """With special bits, which debugfs loses."""
    tree = tmp_path / "tree"
    modes = {"bin": 0o755, "bin/su": 0o4755, "mail": 0o2775, "tmp": 0o1777, "tmp/a b": 0o640}
    for name in ("bin", "mail", "tmp"):
        (tree / name).mkdir(parents=True)
    (tree / "bin/su").write_bytes(b"\x7fELF\0")
    (tree / "tmp/a b").touch()
    (tree / "sbin").symlink_to("bin")
    for name, mode in modes.items():
        (tree / name).chmod(mode)
    make_disk(tree, tmp_path / "root.img")
    root = tmp_path / "root"
    disk.unpack(tmp_path / "root.img", root)
    assert {name: stat.S_IMODE((root / name).stat().st_mode) for name in modes} == modes
    assert (root / "bin/su").read_bytes() == b"\x7fELF\0"
    assert os.readlink(root / "sbin") == "bin"
    assert sorted(path.name for path in root.iterdir()) == ["bin", "mail", "sbin", "tmp"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root", "root.img", "tree"]


def test_file_that_an_image_lacks_is_an_error(base: Image) -> None:
    with pytest.raises(SetupError, match="debugfs cannot read") as error:
        disk.read(base.disk, "/nowhere")
    assert "/nowhere: File not found" in error.value.console


def parsed(*words: str) -> Extras:
    """What options of a guest ask for."""
    parser = ArgumentParser()
    options.add_guest_options(parser)
    return options.extras(parser.parse_args(words))


def test_names_are_separated_by_commas_and_options_add_up() -> None:
    """A module to load must be in the image, too."""
    packages = ("--packages=strace,g++", "--packages", "linux-perf=6.1.1-1,gdb/sid")
    assert parsed(*packages) == asked(packages=("strace", "g++", "linux-perf=6.1.1-1", "gdb/sid"))
    modules = ("--kernel-modules=loop,fs/nfs/", "--kernel-modules=nvme?", "--modprobe", "null_blk")
    assert parsed(*modules) == asked("loop", "fs/nfs/", "nvme?", "null_blk")
    assert not parsed()


@pytest.mark.parametrize("text", ["", "a,,b", "Strace", "strace-", "a b", "?essential", "./a.deb"])
def test_bad_names_of_packages_are_refused(text: str) -> None:
    """apt-get would remove strace for strace-, and take a path for a file."""
    with pytest.raises(UsageError, match="is no name of a Debian package"):
        layer.package_names(text)


@pytest.mark.parametrize("text", ["", "loop,", "a/b", "/", "a*", "../", "null blk", "a.ko"])
def test_bad_names_of_modules_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no name of a kernel module"):
        layer.module_names(text)


def test_environment_asks_for_the_same(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty variables ask for nothing."""
    assert not layer.of_environment()
    extras = asked("loop", "fs/nfs/", packages=("strace", "gdb"))
    for name, value in layer.environment(extras).items():
        monkeypatch.setenv(name, value)
    assert layer.of_environment() == extras
    assert layer.environment(Extras()) == {}


def test_guest_gets_the_image_that_its_options_ask_for(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what the environment asks for."""
    found: list[object] = []
    monkeypatch.setattr(prepare.image, "ensure", lambda *_: "base")
    monkeypatch.setattr(layer, "ensure", lambda _source, *words: found.extend(words[:2]))
    monkeypatch.setattr(prepare.accel, "choose", lambda _: SimpleNamespace(new=False, accel=None))
    monkeypatch.setattr(Vm, "__init__", lambda *_: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv(layer.MODULES, "loop")
    parser = ArgumentParser()
    options.add_guest_options(parser)
    args = parser.parse_args(["--packages=strace", "--kernel-modules=fuse"])
    args.timeout = 1.0
    options.guest(args, "run")
    assert found == ["base", asked("fuse", "loop", packages=("strace",))]


def test_traced_module_is_put_into_the_image_if_the_kernel_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may as well be one that is built for the guest."""
    seen: list[Extras] = []

    def guest(args: Namespace, _name: str) -> None:
        seen.append(options.extras(args))
        raise UsageError("enough")

    monkeypatch.setattr(options, "guest", guest)
    words = [f"--output={tmp_path}", "--module=null-blk", "--module=mine", "--modprobe=loop"]
    with pytest.raises(UsageError, match="enough"):
        trace.main([*words, "--", "true"])
    assert seen == [asked("null-blk?", "mine?", "loop")]


def test_all_guests_of_a_run_get_the_image(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guests that tests boot by themselves, too: the environment has it."""
    seen: list[Extras] = []
    monkeypatch.setattr(usermodule, "root", lambda *_: prepare.SOURCE)
    monkeypatch.setattr(testrun.Runs, "all", lambda *_: seen.append(layer.of_environment()))
    monkeypatch.setenv(layer.PACKAGES, "gdb")
    words = ["--packages=strace", "--kernel-modules", "loop", "--modprobe=null_blk"]
    testrun.main([*words, "tests/vm/test_run.py"])
    assert seen == [asked("loop", "null_blk", packages=("strace", "gdb"))]


def test_guests_of_other_machines_get_the_image(
    tmp_path: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each machine builds it."""
    sent: list[dict[str, object]] = []
    near = far.FarGuest.__new__(far.FarGuest)
    near._directory, near._where = tmp_path, "other"
    monkeypatch.setattr(near, "manifest", lambda _: None, raising=False)
    monkeypatch.setattr(near, "_call", lambda _name, request, _s: sent.append(request))
    monkeypatch.setenv("KFABRIC_KERNEL", "6.12")
    monkeypatch.setenv(layer.PACKAGES, "strace")
    near.boot("guest0", None)

    monkeypatch.setenv("KFABRIC_KERNEL", "")
    monkeypatch.setenv(layer.PACKAGES, "")
    monkeypatch.setenv(layer.MODULES, "theirs")
    seen: list[object] = []

    def boot(*_: object) -> Any:
        seen.extend([os.environ["KFABRIC_KERNEL"], layer.of_environment()])

    farside.Farside(boot).do_boot(sent[0])
    assert seen == ["6.12", asked("theirs", packages=("strace",))]


def test_list_shows_each_image_and_its_layers(base: Image) -> None:
    """A layer's size is not counted twice."""
    place = base.disk.parent / "layers/1234"
    place.mkdir(parents=True)
    (place / "root.img").write_bytes(bytes(3 << 20))
    (place / layer.FACTS).write_text('{"packages": ["strace"], "modules": ["null_blk"]}')
    (place.parent / "half").mkdir()
    image, added = vm_command.listing(base.disk.parent.parent)
    assert image.endswith(f" MiB  {base.disk.parent}  {RELEASE}")
    assert int(image.split()[0]) < 3 <= int(added.split()[0])
    assert added.endswith(f" MiB  {place}  + strace null_blk")
