# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`--kdir`: a kernel tree that the user has built, made up of small files."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kfabric import cli
from kfabric.errors import ExitStatus
from kfabric.runner import testrun
from kfabric.vm import argv as qemu
from kfabric.vm import cache, image, kbuild, kerneltree, options, prepare, usermodule, versions
from kfabric.vm.headers import Headers
from kfabric.vm.kerneltree import NoKernelTree
from kfabric.vm.spec import Accel, Image, Variant, VmSpec
from kfabric.vm.supply import UserTree

ALL = ("CONFIG_X86_64", *kerneltree.NEEDED, *kerneltree.TRACING, *kerneltree.KFABRIC)
RELEASE = "6.9.0+"
MODULES = {"fs/ext4/ext4": "ext4", "kernel/rcu/torture": "torture"}


def configure(tree: Path, *without: str, more: str = "") -> None:
    """Write the configuration, without some options."""
    lines = [f"{name}=y\n" if name not in without else f"# {name} is not set\n" for name in ALL]
    (tree / ".config").write_text("".join(lines) + more)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A built kernel with two modules, which are objects of the host's compiler."""
    tree = tmp_path / "linux"
    texts = {"include/config/kernel.release": f"{RELEASE}\n", kerneltree.BZIMAGE: "bzImage"}
    texts |= {"vmlinux": "", "Module.symvers": "", "Makefile": ""}
    texts |= {"modules.builtin": "kernel/drivers/virtio/virtio_pci.ko\n"}
    texts |= {"modules.order": "".join(f"{name}.o\n" for name in MODULES)}
    for name, text in texts.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    for name in MODULES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        gcc = ["gcc", "-g", "-x", "c", "-c", "-o", f"{tree / name}.ko", "-"]
        subprocess.run(gcc, input="int one;", text=True, check=True, timeout=60)
    configure(tree)
    return tree


def refused(tree: Path) -> str:
    """The line of the error."""
    with pytest.raises(NoKernelTree) as caught:
        kerneltree.check(tree)
    assert caught.value.status == ExitStatus.USAGE
    line = caught.value.line()
    assert line.startswith("no kernel to boot: ") and "\n" not in line
    return line


def test_built_tree_is_a_kernel(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option, and by the variable that names a kernel."""
    known = versions.load(prepare.SOURCE)
    found = known.find(str(tree))
    assert found.origin == versions.Tree(tree, known.kernels[known.default])
    assert (found.suite, found.memory_mib) == (known.kernels[known.default].suite, 0)
    monkeypatch.setenv(versions.ENVIRONMENT, str(tree))
    assert known.find() == found


def test_what_is_no_built_kernel_is_refused(tree: Path) -> None:
    assert "nowhere is no directory; --kdir takes" in refused(tree / "nowhere")
    assert f"{tree}/Makefile is no directory" in refused(tree / "Makefile")
    assert f"{tree}/fs has no .config; --kdir takes the directory in which" in refused(tree / "fs")


@pytest.mark.parametrize(
    "name",
    [kerneltree.BZIMAGE, "vmlinux", "Module.symvers", "modules.order", "fs/ext4/ext4.ko"],
)
def test_missing_file_of_a_build_is_named(tree: Path, name: str) -> None:
    (tree / name).unlink()
    assert refused(tree).endswith(f"{tree} is not built: {name} is not there; run make in it")


def test_kernel_of_another_architecture_is_refused(tree: Path) -> None:
    configure(tree, "CONFIG_X86_64")
    assert f"{tree} is not configured for x86-64" in refused(tree)


def test_options_that_guests_need_are_named_in_one_line(tree: Path) -> None:
    configure(tree, "CONFIG_9P_FS", "CONFIG_VIRTIO_PCI")
    line = refused(tree)
    assert f"{tree} lacks CONFIG_VIRTIO_PCI, CONFIG_9P_FS; set them and build it again" in line


def test_kernel_that_loads_only_signed_modules_is_refused(tree: Path) -> None:
    configure(tree, more="CONFIG_MODULE_SIG_FORCE=y\n")
    assert f"{tree} has CONFIG_MODULE_SIG_FORCE" in refused(tree)


def test_unreadable_tree_is_one_line(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(kerneltree.os, "access", lambda *_: False)
        assert f"{tree}/arch/x86/boot/bzImage cannot be read" in refused(tree)

    def denied(path: Path, *_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", denied)
    assert f"{tree}/.config cannot be read: Permission denied" in refused(tree)


def test_path_that_kbuild_cannot_handle_is_refused(tree: Path) -> None:
    place = tree.rename(tree.with_name("my linux"))
    assert f"kbuild cannot handle a character in {place}" in refused(place)


def test_list_of_what_a_guest_needs_has_a_reason_for_each_option() -> None:
    text = (prepare.SOURCE / "vm/kernels/guest.config").read_text()
    for name in ALL[1:]:
        assert f"\n{name}=" in text, name


def test_checking_kernel_gets_memory_and_time(tree: Path) -> None:
    """As much as our own debug kernel."""
    debug = versions.load(prepare.SOURCE).find("debug")
    configure(tree, more="CONFIG_KASAN=y\n")
    found = versions.load(prepare.SOURCE).find(str(tree))
    assert (found.memory_mib, found.slow) == (debug.memory_mib, debug.slow)


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / kerneltree.BZIMAGE).write_text("new"),
        lambda tree: (tree / ".config").write_text("new"),
        lambda tree: os.utime(tree / "kernel/rcu/torture.ko", ns=(1, 1)),
    ],
)
def test_new_build_of_a_part_is_another_kernel(
    tree: Path, change: Callable[[Path], object]
) -> None:
    """Of the kernel, or of one module; without a build it stays the same."""
    before = kerneltree.identity(tree)
    assert kerneltree.identity(tree) == before
    change(tree)
    assert kerneltree.identity(tree) != before


@pytest.mark.parametrize("suffix", ["o", "ko"])
def test_modules_are_linked_where_modprobe_looks_for_them(
    tree: Path, tmp_path: Path, suffix: str
) -> None:
    """Whichever suffix modules.order has. Nothing is written into the tree."""
    (tree / "modules.order").write_text("".join(f"{name}.{suffix}\n" for name in MODULES))
    before = sorted(tree.rglob("*"))
    kerneltree.link_modules(tree, tmp_path / "root")
    place = tmp_path / "root/lib/modules" / RELEASE
    for name in MODULES:
        assert (place / f"kernel/{name}.ko").readlink() == tree / f"{name}.ko"
    assert "kernel/fs/ext4/ext4.ko:" in (place / "modules.dep").read_text()
    assert (place / "modules.order").read_text().split()[0] == "kernel/fs/ext4/ext4.ko"
    assert (place / "build").readlink() == (place / "source").readlink() == tree
    assert sorted(tree.rglob("*")) == before


def test_source_of_a_build_outside_of_it_is_seen_by_guests(tree: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    version = versions.load(prepare.SOURCE).find(str(tree))
    assert VmSpec().on(version).shares == (tree,)
    (tree / "source").symlink_to(source)
    assert VmSpec().on(version).shares == (tree, source)


@pytest.fixture
def make_image(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], tuple[Image, list[str]]]:
    """Make the image of the tree's kernel, above an image that is there; also the lines shown."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "require_space", lambda *_: None)
    known = versions.load(prepare.SOURCE)
    base = cache.root() / "images" / image.image_key(prepare.SOURCE, known.kernels[known.default])
    (base / image.EARLY / "modules").mkdir(parents=True)
    for name, text in {
        f"{image.EARLY}/busybox": "box",
        image.DISK: "disk",
        "image.json": '{"release": "6.1.0-1-amd64", "packages": {"bash": "5"}}',
    }.items():
        (base / name).write_text(text)

    def make() -> tuple[Image, list[str]]:
        lines: list[str] = []
        return image.ensure(prepare.SOURCE, known.find(str(tree)), lines.append), lines

    return make


def test_image_has_the_trees_kernel_and_the_userland_of_another(make_image, tree: Path) -> None:
    """The disk is not copied; the initrd has the few modules, without debug information."""
    made, lines = make_image()
    place = made.disk.parent
    assert (made.release, made.kernel.read_text()) == (RELEASE, "bzImage")
    assert made.disk.stat().st_nlink == 2 and made.disk.read_text() == "disk"
    assert (place / image.EARLY / "modules/stage1").read_text() == "ext4.ko\n"
    assert (place / image.EARLY / "modules/stage2").read_text() == ""
    early = place / image.EARLY / "modules/ext4.ko"
    assert not early.is_symlink()
    assert early.stat().st_size < (tree / "fs/ext4/ext4.ko").stat().st_size
    assert made.modules is not None
    assert (made.modules / "kernel/kernel/rcu/torture.ko").exists()
    assert len(lines) == 1 and RELEASE in lines[0]


def test_image_is_made_again_only_after_a_build(make_image, tree: Path) -> None:
    """Few of them are kept."""
    first, _ = make_image()
    again, lines = make_image()
    assert (again, lines) == (first, [])
    for number in range(image.TREES_KEPT + 2):
        os.utime(tree / "fs/ext4/ext4.ko", ns=(number, number))
        last, _ = make_image()
    assert not first.disk.exists()
    images = list(last.disk.parent.parent.glob("tree-*"))
    assert last.disk.parent in images and len(images) == image.TREES_KEPT


def test_guests_mount_the_trees_modules(tree: Path) -> None:
    """Where the kernel's release says, as nothing of them is on the disk."""
    version = versions.load(prepare.SOURCE).find(str(tree))
    made = Image(RELEASE, Path("/k"), Path("/i"), Path("/d"), version, Path("/cache/modules"))
    place = f"/lib/modules/{RELEASE}"
    assert qemu.kernel_mounts(made) == [("modules", place, "ro,cache=loose")]
    wiring = qemu.Wiring(3, {}, Path("/c"), Path("/s"), Path("/o"), qemu.Disk(made.disk))
    words = qemu.argv(VmSpec().on(version), made, Accel.TCG, wiring)
    assert any(word.startswith("local,id=modules,path=/cache/modules,") for word in words)
    assert any(f"path={tree},security_model=none,readonly=on" in word for word in words)


def test_modules_for_two_trees_are_built_apart(tree: Path) -> None:
    """Their release may be the same; those of one tree are built again after it was."""
    known = versions.load(prepare.SOURCE)
    nowhere = Path("/nowhere")
    other = versions.Tree(nowhere, known.kernels[known.default])
    first, second = (
        Image(RELEASE, nowhere, nowhere, nowhere, version)
        for version in (
            known.find(str(tree)),
            versions.Version("/nowhere", "bookworm", other),
        )
    )
    places = {kbuild.directory(nowhere, one.builds, Variant.TEST) for one in (first, second)}
    assert len(places) == 2
    before = kbuild.kernel_key(first)
    os.utime(tree / "Module.symvers", ns=(1, 1))
    assert kbuild.kernel_key(first) != before


def test_warning_with_a_users_kernel_is_no_error(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be of the kernel's own headers, or of a compiler that we do not know."""
    (tmp_path / "checkout/kmod").mkdir(parents=True)
    (tmp_path / "checkout/kmod/Kbuild").touch()
    commands: list[list[str]] = []

    def make(argv: list[str], *_: object) -> str:
        commands.append(argv)
        return "include/linux/odd.h:1: warning: odd\n"

    monkeypatch.setattr(kbuild, "make", make)
    monkeypatch.setattr(kbuild, "collect", lambda *_: None)
    version = versions.load(prepare.SOURCE).find(str(tree))
    made = Image(RELEASE, tree, tree, tree, version)
    kbuild.ensure(tmp_path / "checkout", made, Variant.TEST, lambda line: None)
    (argv,) = commands
    assert argv[argv.index("-C") + 1] == str(tree)
    assert kbuild.STRICT not in argv


def test_kernel_without_rdma_cannot_have_our_modules_and_has_the_users(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tree, "CONFIG_RDMA_RXE")
    version = versions.load(prepare.SOURCE).find(str(tree))
    made = Image(RELEASE, tree, tree, tree, version)
    with pytest.raises(NoKernelTree, match="lacks CONFIG_RDMA_RXE, without which kfabric's mod"):
        kbuild.ensure(tmp_path, made, Variant.TEST, lambda line: None)
    (tmp_path / "order").write_text("mine\n")
    (tmp_path / "mine.ko").touch()
    monkeypatch.setattr(usermodule.userbuild, "ensure", lambda *_: tmp_path)
    tested = usermodule.UserModule(tmp_path, tmp_path)
    spec = usermodule.with_module(VmSpec(), made, tested, lambda line: None)
    assert spec.variant is None
    words = usermodule.userbuild.make_argv(Headers(tree), tmp_path, Variant.TEST, None)
    assert not any("KBUILD_EXTRA_SYMBOLS" in word for word in words)


def test_kernel_that_clang_compiled_gets_modules_of_clang(tree: Path) -> None:
    assert UserTree(tree).headers(RELEASE).command(["make"], tree) == ["make"]
    configure(tree, more="CONFIG_CC_IS_CLANG=y\n")
    assert UserTree(tree).headers(RELEASE).command(["make"], tree) == ["env", "LLVM=1", "make"]


def test_tracing_names_the_options_that_it_lacks(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tree, "CONFIG_BPF_SYSCALL", "CONFIG_DEBUG_INFO_BTF")
    monkeypatch.setattr(prepare.os, "geteuid", lambda: 1)  # so that no guest boots
    status = cli.main(["trace", "--kdir", str(tree), "--", "true"])
    text = f"{tree} lacks CONFIG_BPF_SYSCALL, CONFIG_DEBUG_INFO_BTF, without which nothing can be"
    assert status == ExitStatus.USAGE
    assert text in capsys.readouterr().err


def test_name_and_directory_of_a_kernel_exclude_each_other(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each sets the kernel."""
    parser = argparse.ArgumentParser()
    options.add_kernel_option(parser)
    assert parser.parse_args(["--kdir", str(tree)]).kernel == str(tree)
    for command, other in (("run", "--kernel=6.1"), ("test", "--kernel=6.1"), ("test", "--matrix")):
        with pytest.raises(SystemExit):
            cli.main([command, other, "--kdir", str(tree), "--", "true"])
        option = other.partition("=")[0]
        assert f"--kdir: not allowed with argument {option}" in capsys.readouterr().err


def test_reports_of_a_users_kernel_are_not_written_into_its_tree() -> None:
    part = testrun.Part("guest", ("x",), 1)
    argv = part.argv([], "/home/me/linux")
    assert argv[argv.index("--kfabric-dir") + 1] == str(testrun.REPORTS / "home-me-linux")
    assert part.report("/home/me/linux") == testrun.REPORTS / "guest-home-me-linux.xml"


def test_option_of_a_found_failure_boots_the_same_kernel() -> None:
    assert options.kernel_option("/home/me/linux") == "--kdir /home/me/linux"
    assert options.kernel_option("6.1") == "--kernel 6.1"
