# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The guest image: Debian from mmdebstrap on ext4, with a stock kernel next to it.

It is built without a mount on the host, and cached under the hash of its inputs. The
kernel's release is a result, not an input: an image stays as it is when the archive moves
on, until ``kfabric vm clean``.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kfabric.vm import apt, buildroot, cache, initrd, kernel, supply, tools
from kfabric.vm.cache import Log
from kfabric.vm.spec import Image
from kfabric.vm.supply import Supply
from kfabric.vm.versions import Tree, Version

SPACE_MIB = 3000
TREES_KEPT = 4
"""Images of kernels that users built; the newest ones. Each new build makes one."""
SITE = "opt/kfabric/site-packages"
"""The guest's directory of Python packages."""
EARLY = "early"
"""The initrd's parts, in the image's directory."""
DISK = "root.img"
_TREE = "tree-"

_INPUTS = (
    "vm/packages-guest.txt",
    "vm/requirements-guest.txt",
    "vm/modules-guest.txt",
    "vm/modules-initrd.txt",
    "harness/vm/headers.py",
    "harness/vm/image.py",
    "harness/vm/initrd.py",
    "harness/vm/kernel.py",
)
_EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")


def image_key(source: Path, version: Version) -> str:
    inputs = [(source / name).read_bytes() for name in _INPUTS]
    return cache.key([*inputs, supply.key(source, version).encode()])


def ensure(source: Path, version: Version, log: Log) -> Image:
    """The guest image for a kernel, built if it is not in the cache; raises SetupError."""
    origin = version.origin
    # Its image is the disk of another one, with other modules to mount.
    base = ensure(source, origin.userland, log) if isinstance(origin, Tree) else None
    name = f"{_TREE if base else ''}{image_key(source, version)}"
    target = cache.root() / "images" / name
    facts = target / "image.json"
    # The directory alone proves nothing: a run may have recreated it after vm clean.
    if not facts.exists():
        # This may take long, too, and has a lock of its own.
        place = supply.of(source, version, log)
        with cache.locked(cache.root() / "images/lock"):
            if not facts.exists():
                cache.require_space(target.parent, SPACE_MIB)
                if base:
                    _build_on(base, source, place, target, log)
                else:
                    _build(source, version, place, target, log)
    early = initrd.ensure(target / EARLY, source / "vm/init", source / "harness")
    release = json.loads(facts.read_text())["release"]
    modules = target / kernel.TREE / "lib/modules" / release if base else None
    return Image(release, target / kernel.FILE, early, target / DISK, version, modules)


def clean() -> None:
    """Remove all images and build roots, of older checkouts as well.

    Running guests keep theirs.
    """
    for place in (cache.root() / "images", buildroot.directory()):
        with cache.locked(place / "lock"):
            for made in place.iterdir():
                if made.is_dir():
                    cache.remove(made)


def _build(source: Path, version: Version, place: Supply, target: Path, log: Log) -> None:
    began = time.monotonic()
    with cache.building(target) as scratch, ThreadPoolExecutor(1) as background:
        root = scratch / "root"
        release = place.release()
        log(f"image: Debian userland ({version.suite}) and kernel {release}")
        fetching = background.submit(place.kernel, release, scratch)
        options = ["--variant=custom", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"]
        options += [f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED]
        packages = cache.list_lines(source / "vm/packages-guest.txt")
        apt.debootstrap(version.suite, root, packages, options, apt.archives(version.suite))
        guest_kernel = fetching.result()
        log("image: modules and headers")
        _install_kernel(source, guest_kernel, scratch, root)
        place.headers(release).install(release, root)
        log("image: Python packages")
        _install_python(source, root)
        log("image: file system")
        make_disk(root, scratch / DISK)
        _record_contents(root, release, scratch / "image.json")
        shutil.rmtree(root)
        shutil.rmtree(scratch / kernel.TREE, ignore_errors=True)
    log(f"image: done in {time.monotonic() - began:.0f} s, {target}")


def _build_on(base: Image, source: Path, place: Supply, target: Path, log: Log) -> None:
    """Build the image of a user's kernel: the disk of another image, which is only linked."""
    with cache.building(target) as scratch:
        release = place.release()
        log(f"image: kernel {release} with the userland of {base.version.name}")
        guest_kernel = place.kernel(release, scratch)
        known = base.disk.parent
        names = [line.split()[0] for line in cache.list_lines(source / "vm/modules-initrd.txt")]
        # What a guest needs was checked. Modules may depend on others than in Debian's kernels,
        # so none are loaded at the same time.
        stages = {"1": [f"{name.removesuffix('?')}?" for name in names], "2": [], "3": []}
        initrd.collect(guest_kernel, known / EARLY / "busybox", stages, scratch / EARLY)
        os.link(base.disk, scratch / DISK)
        facts = json.loads((known / "image.json").read_text())
        (scratch / "image.json").write_text(json.dumps({**facts, "release": release}, indent=1))
    others = [path for path in target.parent.glob(f"{_TREE}*") if path != target]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for old in others[TREES_KEPT - 1 :]:
        cache.remove(old)


def _install_kernel(source: Path, guest: kernel.Kernel, scratch: Path, root: Path) -> None:
    kernel.install_modules(guest, root, cache.list_lines(source / "vm/modules-guest.txt"))
    stages: dict[str, list[str]] = {}
    for line in cache.list_lines(source / "vm/modules-initrd.txt"):
        name, stage = line.split()
        stages.setdefault(stage, []).append(name)
    initrd.collect(guest, root / "bin/busybox", stages, scratch / EARLY)


def _install_python(source: Path, root: Path) -> None:
    """Install the packages for every Python of the guest, compiled.

    One pytest run stores assertion-rewritten bytecode of the plugins, which would cost each
    guest seconds under TCG.
    """
    python = ["chroot", str(root), "python3"]
    asking = [*python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = subprocess.check_output(asking, text=True).strip()
    wanted = source / "vm/requirements-guest.txt"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    pip += ["--python-version", version, "--target", str(root / SITE), "-r", str(wanted)]
    tools.run(pip, "pip cannot install the guest's packages", "check the network and pip's index")
    (root / "usr/lib/python3/dist-packages/kfabric.pth").write_text(f"/{SITE}\n")
    compiling = [*python, "-m", "compileall", "-q", "-j0", f"/{SITE}", "/usr/lib/python3"]
    tools.run(compiling, "compileall")
    testing = [*python, "-m", "pytest", "--collect-only", "-q", "/mnt"]
    tools.run(testing, "pytest fails", accept=(0, 5))


def make_disk(root: Path, image: Path) -> None:
    """Make a file system with the files of a directory; raises SetupError."""
    used = int(subprocess.check_output(["du", "-sxm", str(root)], text=True).split()[0])
    size = used * 5 // 4 + 256  # leaves room for the guest's own files
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0"]
    argv += ["-d", str(root), str(image), f"{size}m"]
    tools.run(argv, "mke2fs fails", "is the disk full?")


def _record_contents(root: Path, release: str, path: Path) -> None:
    argv = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Package} ${Version}\n"]
    lines = subprocess.check_output(argv, text=True).split("\n")
    packages = dict(line.split(" ", 1) for line in lines if line)
    path.write_text(json.dumps({"release": release, "packages": packages}, indent=1))
