# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Names of images, and the contents of kernel and initrd."""

from __future__ import annotations

import lzma
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from kfabric.errors import SetupError
from kfabric.vm import apt, buildroot, cache, image, initrd, kernel
from kfabric.vm.versions import Stock, Version

VERSION = Version("stock", apt.SUITE, Stock("linux-image-amd64", apt.SUITE))

TABLE = {
    "kernel/fs/ext4/ext4.ko": ["kernel/fs/jbd2/jbd2.ko", "kernel/lib/crc16.ko"],
    "kernel/fs/jbd2/jbd2.ko": [],
    "kernel/lib/crc16.ko": [],
    "kernel/drivers/virtio/virtio.ko": ["kernel/drivers/virtio/virtio_ring.ko"],
    "kernel/drivers/virtio/virtio_ring.ko": [],
    "kernel/drivers/misc/pvpanic-pci.ko": [],
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with every input of an image."""
    for name in (*image._INPUTS, *buildroot._INPUTS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("name", image._INPUTS)
def test_each_input_changes_the_name(checkout: Path, name: str) -> None:
    before = image.image_key(checkout, VERSION)
    (checkout / name).write_text("changed")
    assert image.image_key(checkout, VERSION) != before


def test_the_name_does_not_depend_on_the_place(checkout: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name in image._INPUTS:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(name)
    assert image.image_key(copy, VERSION) == image.image_key(checkout, VERSION)


@pytest.mark.parametrize("suite", [apt.SUITE, "trixie"])
def test_each_kernel_has_an_image_of_its_own(checkout: Path, suite: str) -> None:
    other = Version("other", suite, Stock("linux-image-other", suite))
    assert image.image_key(checkout, other) != image.image_key(checkout, VERSION)


def test_a_kernel_by_another_name_has_the_same_image(checkout: Path) -> None:
    renamed = Version("other", VERSION.suite, VERSION.origin)
    assert image.image_key(checkout, renamed) == image.image_key(checkout, VERSION)


@pytest.mark.parametrize("name", buildroot._INPUTS)
def test_what_a_build_root_is_made_of_counts_for_its_images(checkout: Path, name: str) -> None:
    other = Version("other", "trixie", Stock("linux-image-amd64", "trixie"))
    before = image.image_key(checkout, other), image.image_key(checkout, VERSION)
    (checkout / name).write_text("changed")
    after = image.image_key(checkout, other), image.image_key(checkout, VERSION)
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_inputs_do_not_run_together() -> None:
    assert cache.key([b"ab", b"c"]) != cache.key([b"a", b"bc"])


def test_list_files_have_comments(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("# head\n\npython3   # why\nkmod # why\n")
    assert cache.list_lines(path) == ["python3", "kmod"]


def test_every_list_entry_has_a_reason() -> None:
    vm = Path(__file__).parents[2] / "vm"
    lists = [*vm.glob("packages-*.txt"), *vm.glob("modules-*.txt"), *vm.glob("requirements-*.txt")]
    assert lists
    for path in lists:
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith(("#", "-r ")):
                assert line.partition("#")[2].strip(), f"{path.name}: {line}"


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "image"
    with pytest.raises(KeyboardInterrupt), cache.building(target) as scratch:
        (scratch / "root.img").touch()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_build_replaces_what_a_killed_one_left(tmp_path: Path) -> None:
    target = tmp_path / "image"
    (tmp_path / "image.tmp").mkdir()
    (tmp_path / "image.tmp/half").touch()
    (tmp_path / "older.tmp").mkdir()
    with cache.building(target) as scratch:
        (scratch / "whole").touch()
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_build_replaces_a_directory_that_is_not_whole(tmp_path: Path) -> None:
    target = tmp_path / "image"
    (target / "frozen").mkdir(parents=True)
    with cache.building(target) as scratch:
        (scratch / "root.img").touch()
    assert [path.name for path in target.iterdir()] == ["root.img"]


def test_what_is_removed_is_found_no_more_or_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C leaves nothing under its name; the next build removes the rest."""
    target = tmp_path / "image"
    target.mkdir()
    (target / "root.img").touch()

    def interrupted(path: Path, **_: object) -> None:
        if path.exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cache.shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache.remove(target)
    assert not target.exists()
    with cache.building(target):
        pass
    assert list(tmp_path.iterdir()) == [target]


def test_a_lock_held_by_another_is_given_up(tmp_path: Path) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with cache.locked(tmp_path / "lock"):
            held.set()
            done.wait(60.0)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60.0)
    with pytest.raises(SetupError, match="another process"):
        cache.locked(tmp_path / "lock", deadline=0.0).__enter__()
    done.set()
    holder.join()


def test_too_little_space_is_said(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="MiB are needed"):
        cache.require_space(tmp_path, 1 << 40)


def test_modules_come_after_what_they_need() -> None:
    order = kernel.select(TABLE, ["ext4", "virtio"])
    for path, needs in TABLE.items():
        if path in order:
            assert all(order.index(need) < order.index(path) for need in needs)
    assert "kernel/drivers/misc/pvpanic-pci.ko" not in order


def test_a_module_name_may_have_either_dash() -> None:
    assert kernel.select(TABLE, ["pvpanic_pci"]) == kernel.select(TABLE, ["pvpanic-pci"])


def test_a_compressed_module_is_found_by_its_name() -> None:
    table = {"kernel/fs/ext4/ext4.ko.xz": ["kernel/lib/crc16.ko.xz"], "kernel/lib/crc16.ko.xz": []}
    assert kernel.select(table, ["ext4"]) == ["kernel/lib/crc16.ko.xz", "kernel/fs/ext4/ext4.ko.xz"]


def test_a_compressed_module_is_copied_plain(tmp_path: Path) -> None:
    packed = tmp_path / "ext4.ko.xz"
    packed.write_bytes(lzma.compress(b"\x7fELF"))
    target = tmp_path / "deep" / kernel.plain(packed.name)
    kernel.copy(packed, target)
    assert target.name == "ext4.ko"
    assert target.read_bytes() == b"\x7fELF"


def test_a_directory_selects_all_below_it() -> None:
    assert len(kernel.select(TABLE, ["fs/"])) == 3


def test_a_later_stage_does_not_load_again_what_the_first_one_did() -> None:
    stages = {"1": ["virtio"], "2": ["ext4", "virtio"]}
    order = initrd.order(TABLE, stages)
    assert order["1"] == kernel.select(TABLE, ["virtio"])
    assert order["2"] == kernel.select(TABLE, ["ext4"])


def test_stages_that_run_at_the_same_time_share_nothing() -> None:
    """Loading a module twice fails, and so would the boot."""
    with pytest.raises(SetupError, match="jbd2"):
        initrd.order(TABLE, {"1": ["virtio"], "2": ["ext4"], "3": ["jbd2"]})


def test_an_unknown_module_is_refused() -> None:
    with pytest.raises(SetupError, match="no module nonesuch"):
        kernel.select(TABLE, ["nonesuch"])


def test_a_module_that_not_every_kernel_has_may_be_missing() -> None:
    assert kernel.select(TABLE, ["nonesuch?"]) == []
    assert kernel.select(TABLE, ["ext4?"]) == kernel.select(TABLE, ["ext4"])


def test_the_kernel_is_found_after_other_xz_data() -> None:
    elf = b"\x7fELF" + bytes(100)
    bzimage = b"boot" + lzma.compress(b"other") + b"pad" + lzma.compress(elf) + b"end"
    assert kernel.uncompress(bzimage) == elf


def test_a_kernel_may_be_compressed_with_zstd() -> None:
    elf = b"\x7fELF" + bytes(100)
    packed = subprocess.run(["zstd", "-cq"], input=elf, capture_output=True, check=True).stdout
    assert kernel.uncompress(b"boot" + packed + b"size") == elf


def test_a_bzimage_without_a_kernel_is_refused() -> None:
    with pytest.raises(ValueError):
        kernel.uncompress(b"nothing" + lzma.compress(b"other"))


def test_cpio_unpacks_what_went_in(tmp_path: Path) -> None:
    archive = initrd.cpio(
        {
            "bin": (stat.S_IFDIR | 0o755, b""),
            "bin/tool": (stat.S_IFREG | 0o755, b"#!/bin/sh\n"),
            "empty": (stat.S_IFREG | 0o644, b""),
        }
    )
    argv = ["cpio", "-idm", "--quiet", "--no-absolute-filenames"]
    subprocess.run(argv, input=archive, cwd=tmp_path, check=True)
    assert (tmp_path / "bin/tool").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "empty").read_bytes() == b""


@pytest.fixture
def early(tmp_path: Path) -> Path:
    """The parts of an initrd, and next to them an init and an agent."""
    parts = tmp_path / "early"
    (parts / "modules").mkdir(parents=True)
    (parts / "busybox").write_bytes(b"box")
    (parts / "modules/stage1").write_text("a.ko\n")
    (parts / "modules/a.ko").write_bytes(b"module")
    (tmp_path / "init").write_text("one")
    (tmp_path / "harness/vm").mkdir(parents=True)
    for name in initrd._AGENT:
        (tmp_path / "harness" / name).write_text(name)
    return parts


@pytest.mark.parametrize(
    "changed", ["init", "harness/vm/agent.py", "harness/vm/errand.py", "harness/vm/wire.py"]
)
def test_new_init_or_agent_makes_a_new_initrd(early: Path, tmp_path: Path, changed: str) -> None:
    init, harness = tmp_path / "init", tmp_path / "harness"
    first = initrd.ensure(early, init, harness)
    assert initrd.ensure(early, init, harness) == first
    (tmp_path / changed).write_text("two")
    assert initrd.ensure(early, init, harness) != first
    assert b"module" in first.read_bytes()


def test_agent_is_in_the_initrd(early: Path, tmp_path: Path) -> None:
    """After its parent directories, which the kernel does not create."""
    archive = initrd.ensure(early, tmp_path / "init", tmp_path / "harness").read_bytes()
    paths = ["kfabric", "kfabric/kfabric", "kfabric/kfabric/vm", "kfabric/kfabric/vm/agent.py"]
    places = [archive.index(f"{path}\0".encode()) for path in paths]
    assert places == sorted(places)


def test_what_is_built_in_needs_no_file() -> None:
    """A stage of the initrd may be empty, but an unknown name is an error."""
    built_in = ["kernel/fs/9p/9p.ko", "kernel/drivers/char/virtio_console.ko"]
    assert kernel.select(TABLE, ["9p", "crc16", "virtio-console"], built_in) == [
        "kernel/lib/crc16.ko"
    ]
    assert initrd.order(TABLE, {"1": ["virtio"], "2": ["9p"]}, built_in)["2"] == []
    with pytest.raises(SetupError, match="nonesuch"):
        kernel.select(TABLE, ["nonesuch"], built_in)
