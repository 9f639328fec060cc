# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A Debian userland of another suite than the host's, to build modules in.

The build tools in such a kernel's headers do not start on the host, whose C library is too
old. Nothing of the suite is installed on the host: mmdebstrap makes the userland as a
directory in the cache, and builds enter it with chroot. The kernel itself, of the same
release as the headers, is stored next to it.
"""

import shutil
import subprocess
import time
from pathlib import Path

from kfabric.errors import SetupError
from kfabric.vm import apt, cache
from kfabric.vm.cache import Log
from kfabric.vm.headers import Headers
from kfabric.vm.kernel import Kernel, unpack
from kfabric.vm.versions import Stock, Version

SPACE_MIB = 3000
_INPUTS = ("vm/packages-build.txt", "harness/vm/buildroot.py")
# Runs while mmdebstrap's apt still knows the suite. Only packages with the kernel's own
# version are needed: newer kernels are split into several.
_DOWNLOAD = """
cd "$1" && mkdir {place} && cd {place} && export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
release=$(apt-cache {preference} depends {package} |
	sed -n 's/^ *Depends: linux-image-//p')
names=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts \
	--no-breaks --no-replaces --no-enhances linux-image-$release linux-headers-$release |
	grep '^linux-.*-'"${{release%-*}}" | grep -v unsigned | sort -u)
apt-get download -q -o APT::Sandbox::User=root $names && echo $release >release
"""
_PLACE = "packages"
_INSIDE = ("linux-headers-", "linux-kbuild-", "linux-base-")
"""Packages that belong in the userland; all others are the kernel."""


class BuildRoot:
    """A build root as a :class:`kfabric.vm.supply.Supply`; its key is part of the image's.

    Its directory has ``root``, ``kernel`` and ``release``.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def release(self) -> str:
        return (self._directory / "release").read_text().strip()

    def kernel(self, release: str, scratch: Path) -> Kernel:
        return Kernel.of(self._directory / "kernel", release, scratch)

    def headers(self, release: str) -> Headers:
        return Headers(Path(f"/usr/src/linux-headers-{release}"), self._directory / "root")


def key(source: Path, version: Version) -> str:
    parts = [(source / name).read_bytes() for name in _INPUTS]
    return cache.key([*parts, version.suite.encode(), repr(version.origin).encode()])


def ensure(source: Path, version: Version, log: Log) -> BuildRoot:
    """The build root of a kernel, made if it is not in the cache; raises SetupError."""
    target = directory() / key(source, version)
    if not target.exists():
        with cache.locked(directory() / "lock"):
            if not target.exists():
                cache.require_space(target.parent, SPACE_MIB)
                _make(source, version, target, log)
    return BuildRoot(target)


def directory() -> Path:
    return cache.root() / "buildroots"


def _make(source: Path, version: Version, target: Path, log: Log) -> None:
    began = time.monotonic()
    log(f"build root: compiler and headers for {version.name} ({version.suite})")
    assert isinstance(version.origin, Stock)
    archive = version.origin.archive
    archives, preference = apt.archives(version.suite), ""
    if archive != version.suite:
        archives += apt.archives(archive)
        preference = f"-o APT::Default-Release={archive}"
    script = _DOWNLOAD.format(place=_PLACE, preference=preference, package=version.origin.package)
    options = ["--variant=essential", f"--customize-hook={script}"]
    packages = cache.list_lines(source / "vm/packages-build.txt")
    with cache.building(target) as scratch:
        apt.debootstrap(version.suite, scratch / "root", packages, options, archives)
        _unpack(scratch)
    log(f"build root: done in {time.monotonic() - began:.0f} s, {target}")


def _unpack(scratch: Path) -> None:
    """Extract the kernel's packages; their installation scripts need a real machine."""
    place = scratch / "root" / _PLACE
    (place / "release").rename(scratch / "release")
    for package in sorted(place.glob("*.deb")):
        if package.name.startswith(_INSIDE):
            unpack(package, scratch / "root")
        if not package.name.startswith(_INSIDE[:2]):
            unpack(package, scratch / "kernel")
    shutil.rmtree(place)
    release = (scratch / "release").read_text().strip()
    if not (scratch / f"root/usr/src/linux-headers-{release}/Module.symvers").exists():
        raise SetupError(f"Debian's packages of {release} have no headers")
    if not (scratch / "kernel/lib").exists():
        (scratch / "kernel/lib").symlink_to("usr/lib")
    subprocess.run(["depmod", "-b", scratch / "kernel", release], check=True)
