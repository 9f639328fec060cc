# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`--kdir` in a guest: Debian's own kernel, laid out as make would have left it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus, SetupError
from kfabric.vm import cache, kernel, kerneltree, prepare
from tests.vm.commands import kfabric

SECONDS = 600.0


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kernel's package as a built tree: enough to boot it, too little to build modules."""
    place = tmp_path_factory.mktemp("kdir")
    release = prepare.guest_image().release
    try:
        unpacked = kernel.fetch(release, place)
    except SetupError as error:
        pytest.skip(f"no package of the guests' kernel: {error.what}")
    tree = place / "built"
    (unpacked.modules / "kernel").rename(tree)
    boot = unpacked.tree / "boot"
    for name, file in {
        kerneltree.CONFIG: boot / f"config-{release}",
        kerneltree.BZIMAGE: boot / f"vmlinuz-{release}",
        "modules.builtin": unpacked.modules / "modules.builtin",
        "modules.builtin.modinfo": unpacked.modules / "modules.builtin.modinfo",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, tree / name)
    names = (unpacked.modules / "modules.order").read_text().split()
    (tree / "modules.order").write_text("".join(f"{n.removeprefix('kernel/')}\n" for n in names))
    (tree / "include/config").mkdir(parents=True)
    (tree / "include/config/kernel.release").write_text(f"{release}\n")
    for name in ("vmlinux", "Module.symvers"):
        (tree / name).touch()
    yield tree
    cache.remove(prepare.guest_image(kernel=str(tree)).disk.parent)


def test_guest_boots_the_kernel_of_a_tree_and_has_all_its_modules(tree: Path) -> None:
    """Also one that the guest's image does not have."""
    script = "uname -r; modprobe null_blk nr_devices=1 && ls /sys/module/null_blk/initstate"
    words = ["run", "--kdir", str(tree), "--", "sh", "-c", script]
    done = kfabric(*words, seconds=SECONDS)
    expected = f"{kerneltree.release(tree)}\n/sys/module/null_blk/initstate\n"
    assert (done.returncode, done.stdout) == (ExitStatus.OK, expected), done.stderr
    assert "with the userland of" in done.stderr
