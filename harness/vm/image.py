# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The guest image: Debian from mmdebstrap on ext4, with a stock kernel beside it.

Built once without mounting anything on the host, and cached by the hash of its
inputs. The kernel's version is not an input but a result: an image stays what it
is when the archive moves on, until ``kfabric vm clean``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.errors import SetupError
from harness.vm import apt, cache, initrd, kernel
from harness.vm.spec import Image

SPACE_MIB = 3000
BUILD_SECONDS = 900.0
SITE = "opt/kfabric/site-packages"
"""Where the guest's Python packages are."""
EARLY = "early"
"""What the initrd is made of, in the image's directory."""

_INPUTS = (
    "vm/packages-guest.txt",
    "vm/requirements-guest.txt",
    "vm/modules-guest.txt",
    "vm/modules-initrd.txt",
    "harness/vm/image.py",
    "harness/vm/initrd.py",
    "harness/vm/kernel.py",
)
# mmdebstrap mounts /proc, /sys and /dev in the tree: nobody else sees that, and
# when the first process is killed, all of it is gone before the tree is removed.
_OWN_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")

Log = Callable[[str], None]


def image_key(source: Path) -> str:
    """Name of the image that this checkout needs."""
    return cache.key((source / name).read_bytes() for name in _INPUTS)


def directory(source: Path) -> Path:
    """Where that image is, or will be."""
    return cache.root() / "images" / image_key(source)


def ensure(source: Path, log: Log) -> Image:
    """The guest image, built if it is not in the cache.

    :param log: called with one line for each step.
    :raises SetupError: it cannot be built.
    """
    target = directory(source)
    if not target.exists():
        with cache.locked(cache.root() / "images/lock"):
            if not target.exists():
                cache.require_space(target.parent, SPACE_MIB)
                _build(source, target, log)
    facts = json.loads((target / "image.json").read_text())
    early = initrd.ensure(target / EARLY, source / "vm/init")
    return Image(facts["release"], target / "vmlinux", early, target / "root.img")


def clean() -> None:
    """Remove all images, this checkout's and older ones; running guests keep theirs."""
    with cache.locked(cache.root() / "images/lock"):
        for image in (cache.root() / "images").iterdir():
            if image.is_dir():
                shutil.rmtree(image)


def _build(source: Path, target: Path, log: Log) -> None:
    began = time.monotonic()
    with cache.building(target) as scratch, ThreadPoolExecutor(1) as background:
        root = scratch / "root"
        release = kernel.candidate()
        log(f"image: Debian userland (mmdebstrap) and kernel {release}")
        fetching = background.submit(kernel.fetch, release, scratch)
        _debootstrap(source, root)
        guest_kernel = fetching.result()
        log("image: modules and headers")
        _install_kernel(source, guest_kernel, scratch, root)
        log("image: Python packages")
        _install_python(source, root)
        log("image: file system")
        _make_disk(root, scratch / "root.img")
        _remember(root, release, scratch / "image.json")
        shutil.rmtree(root)
        shutil.rmtree(guest_kernel.tree)
    log(f"image: done in {time.monotonic() - began:.0f} s, {target}")


def _debootstrap(source: Path, root: Path) -> None:
    packages = cache.list_lines(source / "vm/packages-guest.txt")
    argv = [
        *_OWN_NAMESPACES,
        "mmdebstrap",
        "--verbose",
        "--mode=root",
        "--format=directory",
        "--variant=custom",
    ]
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED]
    # The result is thrown away unless it is complete: no need to sync each file.
    argv += ["--dpkgopt=force-unsafe-io", '--aptopt=Apt::Install-Recommends "false"']
    argv += [f"--aptopt={line}" for line in apt.settings()]
    argv += ["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"]
    argv += [f"--include={','.join(packages)}", apt.SUITE, str(root), "-"]
    (temporary := root.with_name("tmp")).mkdir()
    sources = "\n".join(apt.archives())
    _run(argv, "mmdebstrap fails", apt.HINT, stdin=sources, TMPDIR=str(temporary))
    shutil.rmtree(temporary)


def _install_kernel(source: Path, guest: kernel.Kernel, scratch: Path, root: Path) -> None:
    wanted = cache.list_lines(source / "vm/modules-guest.txt")
    kernel.install_modules(guest, root, wanted)
    kernel.install_headers(guest.release, root)
    guest.vmlinux.rename(scratch / "vmlinux")
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
    site = root / SITE
    wanted = source / "vm/requirements-guest.txt"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    pip += ["--target", str(site), "-r", str(wanted)]
    _run(pip, "pip cannot install the guest's packages", "check the network and pip's index")
    (root / "usr/lib/python3/dist-packages/kfabric.pth").write_text(f"/{SITE}\n")
    python = ["chroot", str(root), "python3"]
    _run([*python, "-m", "compileall", "-q", "-j0", f"/{SITE}", "/usr/lib/python3"], "compileall")
    _run([*python, "-m", "pytest", "--collect-only", "-q", "/mnt"], "pytest fails", accept=(0, 5))


def _make_disk(root: Path, image: Path) -> None:
    used = int(subprocess.check_output(["du", "-sxm", str(root)], text=True).split()[0])
    size = used * 5 // 4 + 256  # room for what a guest writes
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0"]
    argv += ["-d", str(root), str(image), f"{size}m"]
    _run(argv, "mke2fs fails", "is the disk full?")


def _remember(root: Path, release: str, path: Path) -> None:
    argv = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Package} ${Version}\n"]
    lines = subprocess.check_output(argv, text=True).split("\n")
    packages = dict(line.split(" ", 1) for line in lines if line)
    path.write_text(json.dumps({"release": release, "packages": packages}, indent=1))


def _run(
    argv: list[str],
    what: str,
    hint: str = "",
    stdin: str = "",
    accept: tuple[int, ...] = (0,),
    **environment: str,
) -> None:
    """Run a tool that dies with us; what it says is shown only if it fails."""
    try:
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", "--", *argv],
            check=False,
            input=stdin,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_SECONDS,
            env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
        )
    except FileNotFoundError:
        raise SetupError(f"{argv[0]} is not installed", "run make setup") from None
    except subprocess.TimeoutExpired:
        raise SetupError(f"{what}: not done after {BUILD_SECONDS:g} s", hint) from None
    if done.returncode not in accept:
        lines = [line[:200] for line in done.stdout.splitlines()[-20:]]
        raise SetupError(what, hint, console="\n".join(lines))
