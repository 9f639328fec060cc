# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The guest image: Debian from mmdebstrap on ext4, with a stock kernel beside it.

Built once without mounting anything on the host, and cached by the hash of its
inputs. The kernel's version is not an input but a result: an image stays what it
is when the archive moves on, until ``kfabric vm clean``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.vm import apt, buildroot, cache, initrd, kernel, supply, tools
from harness.vm.spec import Image
from harness.vm.supply import Supply
from harness.vm.versions import Version

SPACE_MIB = 3000
SITE = "opt/kfabric/site-packages"
"""Where the guest's Python packages are."""
EARLY = "early"
"""What the initrd is made of, in the image's directory."""

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

Log = Callable[[str], None]


def image_key(source: Path, version: Version) -> str:
    """Name of the image that this checkout needs for a kernel."""
    inputs = [(source / name).read_bytes() for name in _INPUTS]
    return cache.key([*inputs, supply.key(source, version).encode()])


def directory(source: Path, version: Version) -> Path:
    """Where that image is, or will be."""
    return cache.root() / "images" / image_key(source, version)


def ensure(source: Path, version: Version, log: Log) -> Image:
    """The guest image for a kernel, built if it is not in the cache.

    :param log: called with one line for each step.
    :raises SetupError: it cannot be built.
    """
    target = directory(source, version)
    facts = target / "image.json"
    # A run whose image was removed under it may have made the directory anew.
    if not facts.exists():
        # May take long itself, and has a lock of its own.
        place = supply.of(source, version, log)
        with cache.locked(cache.root() / "images/lock"):
            if not facts.exists():
                cache.require_space(target.parent, SPACE_MIB)
                _build(source, version, place, target, log)
    early = initrd.ensure(target / EARLY, source / "vm/init", source / "harness")
    release = json.loads(facts.read_text())["release"]
    return Image(release, target / kernel.FILE, early, target / "root.img", version)


def clean() -> None:
    """Remove all images and what their modules are built in, older ones, too.

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
        _debootstrap(source, version.suite, root)
        guest_kernel = fetching.result()
        log("image: modules and headers")
        _install_kernel(source, guest_kernel, scratch, root)
        place.headers(release).install(release, root)
        log("image: Python packages")
        _install_python(source, root)
        log("image: file system")
        _make_disk(root, scratch / "root.img")
        _remember(root, release, scratch / "image.json")
        shutil.rmtree(root)
        shutil.rmtree(scratch / "kernel", ignore_errors=True)
    log(f"image: done in {time.monotonic() - began:.0f} s, {target}")


def _debootstrap(source: Path, suite: str, root: Path) -> None:
    packages = cache.list_lines(source / "vm/packages-guest.txt")
    more = ["--variant=custom", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"]
    more += [f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED]
    tools.debootstrap(suite, root, packages, more, apt.archives(suite))


def _install_kernel(source: Path, guest: kernel.Kernel, scratch: Path, root: Path) -> None:
    wanted = cache.list_lines(source / "vm/modules-guest.txt")
    kernel.install_modules(guest, root, wanted)
    stages: dict[str, list[str]] = {}
    for line in cache.list_lines(source / "vm/modules-initrd.txt"):
        name, stage = line.split()
        stages.setdefault(stage, []).append(name)
    initrd.collect(guest, root / "bin/busybox", stages, scratch / EARLY)


def _install_python(source: Path, root: Path) -> None:
    """Put the packages where every Python of the guest finds them, compiled.

    Running pytest once leaves its own (assertion-rewriting) bytecode of the
    plugins behind, which costs seconds under TCG.
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


def _make_disk(root: Path, image: Path) -> None:
    used = int(subprocess.check_output(["du", "-sxm", str(root)], text=True).split()[0])
    size = used * 5 // 4 + 256  # room for what a guest writes
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0"]
    argv += ["-d", str(root), str(image), f"{size}m"]
    tools.run(argv, "mke2fs fails", "is the disk full?")


def _remember(root: Path, release: str, path: Path) -> None:
    argv = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Package} ${Version}\n"]
    lines = subprocess.check_output(argv, text=True).split("\n")
    packages = dict(line.split(" ", 1) for line in lines if line)
    path.write_text(json.dumps({"release": release, "packages": packages}, indent=1))
