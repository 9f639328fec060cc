# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Images with more in them: the Debian packages and kernel modules that a user asks for.

    kfabric run --packages strace --kernel-modules null_blk -- CMD

A layer has a root file system of its own: that of an image, unpacked, with the additions. Kernel
and initrd stay those of the image. A layer is cached beside its image, under the hash of the
additions, as ``layers/<hash>``. Whatever the image has already makes no difference.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from kfabric.errors import SetupError, UsageError, near
from kfabric.vm import apt, cache, disk, image, kernel, supply
from kfabric.vm.cache import Log
from kfabric.vm.kernel import Kernel
from kfabric.vm.spec import Extras, Image

PACKAGES = "KFABRIC_PACKAGES"
MODULES = "KFABRIC_KERNEL_MODULES"
"""Environment of the host: what each guest's image has besides what its options add."""
DIRECTORY = "layers"
FACTS = "layer.json"

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]*[a-z0-9.+](=[A-Za-z0-9.+:~-]+|/[A-Za-z-]+)?")
_MODULE = re.compile(r"([A-Za-z0-9_-]+|([A-Za-z0-9_][A-Za-z0-9_.-]*/)+)\??")
# A package may rely on these without depending on them, but the image has few of them.
_ESSENTIAL = "?essential"
_UNKNOWN = re.compile(
    r"^E: (?:Unable to locate package (?P<name>\S+)"
    r"|(?P<why>Package .* has no installation candidate|.* for .* was not found))$",
    re.MULTILINE,
)
"""apt's messages about a name."""
_KEPT = "kernel"
_EVERY = ("modules.order", "modules.builtin")
"""Files with the paths of all modules of a kernel, whether an image has them or not."""


class NoSuchPackage(UsageError, label="no such package"):
    """The guest's Debian has no package of that name."""


class NoSuchModule(UsageError, label="no such kernel module"):
    """The guest's kernel has no module of that name."""


def package_names(text: str) -> list[str]:
    """A type: names of packages, as apt-get accepts them. Raises UsageError."""
    return _split(text, _PACKAGE, "a Debian package")


def module_names(text: str) -> list[str]:
    """A type: modules, as a line of vm/modules-guest.txt names them. Raises UsageError."""
    return _split(text, _MODULE, "a kernel module")


def _split(text: str, pattern: re.Pattern[str], what: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if not pattern.fullmatch(name):
            raise UsageError(f"{name!r} is no name of {what}", "names are separated by commas")
    return names


def of_environment() -> Extras:
    """What the environment asks for. Raises UsageError."""
    packages, modules = (os.environ.get(name, "") for name in (PACKAGES, MODULES))
    return Extras(
        tuple(package_names(packages)) if packages else (),
        tuple(module_names(modules)) if modules else (),
    )


def environment(extras: Extras) -> dict[str, str]:
    """The environment that asks for them."""
    wanted = {PACKAGES: extras.packages, MODULES: extras.modules}
    return {name: ",".join(words) for name, words in wanted.items() if words}


def ensure(source: Path, base: Image, extras: Extras, log: Log) -> Image:
    """The image with these additions, built if it is not in the cache.

    Raises:
        NoSuchPackage, NoSuchModule: there is none of that name.
        SetupError: the layer cannot be built.
    """
    wanted = lacking(base, extras)
    if not wanted:
        return base
    target = base.disk.parent / DIRECTORY / key(wanted)
    # The directory alone proves nothing, as for an image.
    if not (target / FACTS).exists():
        with cache.locked(cache.root() / "images/lock"):
            if not (target / FACTS).exists():
                cache.require_space(target.parent, image.SPACE_MIB)
                _build(source, base, wanted, target, log)
    return replace(base, disk=target / base.disk.name)


def key(wanted: Extras) -> str:
    """A name for the layer among those of the same image."""
    words = (*wanted.packages, "", *wanted.modules)
    return cache.key([Path(__file__).read_bytes(), *(word.encode() for word in words)])


def lacking(base: Image, extras: Extras) -> Extras:
    """The additions that an image does not have, sorted; raises NoSuchModule."""
    packages, modules = set(extras.packages), set(extras.modules)
    if packages:
        facts = json.loads((base.disk.parent / "image.json").read_text())
        packages -= set(facts["packages"])
    if modules:
        modules = _lacking_modules(base, modules)
    return Extras(tuple(sorted(packages)), tuple(sorted(modules)))


def _lacking_modules(base: Image, wanted: Iterable[str]) -> set[str]:
    """Those of which image and initrd lack files; the image lists all modules of its kernel."""
    lists = ("modules.order", "modules.dep", "modules.builtin")
    every, own, built_in = (_read(base, name).splitlines() for name in lists)
    table: dict[str, list[str]] = {path: [] for path in every}
    present = {kernel.plain(line.partition(":")[0]).name for line in own}
    present.update(path.name for path in (base.disk.parent / image.EARLY / "modules").glob("*.ko"))
    found = set()
    for name in wanted:
        try:
            files = kernel.select(table, [name], built_in)
        except SetupError:
            stems = sorted({kernel.plain(path).stem.replace("-", "_") for path in every})
            hint = near(name, stems, f"it has {len(stems)}, and none with a similar name")
            raise NoSuchModule(f"{name} in kernel {base.release}", hint) from None
        if not present.issuperset(kernel.plain(path).name for path in files):
            found.add(_canonical(name))
    return found


def unknown(base: Image, names: Iterable[str]) -> list[str]:
    """Those of some modules' names that an image's kernel has neither as a file nor built in."""
    paths = (path for name in _EVERY for path in _read(base, name).splitlines())
    known = {_canonical(kernel.plain(path).stem) for path in paths}
    return [name for name in names if _canonical(name) not in known]


def _read(base: Image, name: str) -> str:
    """A list in the directory of the kernel's modules; a kernel that the user built has its own."""
    if base.modules:
        return (base.modules / name).read_text()
    return disk.read(base.disk, f"/usr/lib/modules/{base.release}/{name}")


def _canonical(name: str) -> str:
    """The same for all spellings of a name."""
    name = name.removesuffix("?")
    return name if name.endswith("/") else name.replace("-", "_")


def _build(source: Path, base: Image, wanted: Extras, target: Path, log: Log) -> None:
    began = time.monotonic()
    if wanted.packages:
        _require_packages(source, base.version.suite, wanted.packages)
    log(f"image layer: {wanted} for the image of {base.release}")
    full = _kernel(source, base, log) if wanted.modules else None
    with cache.building(target) as scratch:
        root = scratch / "root"
        log("image layer: unpacking the image")
        disk.unpack(base.disk, root)
        if wanted.packages:
            log("image layer: packages")
            _install_packages(base.version.suite, root, wanted.packages)
        if full:
            kernel.install_modules(full, root, list(wanted.modules))
        log("image layer: file system")
        image.make_disk(root, scratch / base.disk.name)
        (scratch / FACTS).write_text(json.dumps(asdict(wanted)))
        shutil.rmtree(root)
    log(f"image layer: done in {time.monotonic() - began:.0f} s, {target}")


def _kernel(source: Path, base: Image, log: Log) -> Kernel:
    """An image's kernel with all its modules; Debian's package is kept unpacked."""
    kept = base.disk.parent / _KEPT
    tree = kept / "tree"
    if not tree.exists():
        log(f"image layer: all modules of {base.release}")
        with cache.building(kept) as scratch:
            try:
                found = supply.of(source, base.version, log).kernel(base.release, scratch)
            except (SetupError, StopIteration):
                what = f"the modules of {base.release} are not to be had any more"
                hint = "run apt-get update, then 'kfabric vm clean' to take a newer kernel"
                raise SetupError(what, hint) from None
            (scratch / kernel.FILE).unlink()
            if found.tree.is_relative_to(scratch):
                found.tree.rename(scratch / tree.name)
            else:
                (scratch / tree.name).symlink_to(found.tree)
    return Kernel(base.release, tree, base.kernel)


def _require_packages(source: Path, suite: str, packages: Sequence[str]) -> None:
    """Raise NoSuchPackage for a name that the host's own lists do not have.

    They prove nothing if they are of another suite, or if they lack the image's own packages.
    apt then finds a wrong name itself, after the image was unpacked.
    """
    if suite != apt.SUITE:
        return
    known = apt.names(Path("/"))
    if not set(known).issuperset(cache.list_lines(source / "vm/packages-guest.txt")):
        return
    for name in (re.split("[=/]", word)[0] for word in packages):
        if name not in known:
            raise _no_such_package(name, suite, known)


def _install_packages(suite: str, root: Path, packages: Sequence[str]) -> None:
    """Install packages in an unpacked image, with the settings that it was made with."""
    # mmdebstrap makes these, but not if they exist.
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    for node in (root / "dev").iterdir():
        shutil.rmtree(node) if node.is_dir() and not node.is_symlink() else node.unlink()
    options = ["--variant=custom", "--skip=check/empty", f"--include={_ESSENTIAL}"]
    try:
        apt.debootstrap(suite, root, packages, options, apt.archives(suite))
    except SetupError as error:
        unknown = _UNKNOWN.search(error.console)
        if unknown and unknown["why"]:
            raise NoSuchPackage(f"{unknown['why']} in Debian's {suite}") from None
        if unknown:
            raise _no_such_package(unknown["name"], suite, apt.names(root)) from None
        raise


def _no_such_package(name: str, suite: str, known: Sequence[str]) -> NoSuchPackage:
    """The error, with a name like it among those that there are."""
    longer = sorted((other for other in known if name in other.split("-")), key=len)
    otherwise = f"it has {len(known)}, and none with a similar name"
    hint = f"did you mean {longer[0]}?" if longer else near(name, known, otherwise)
    return NoSuchPackage(f"{name} in Debian's {suite}", hint)
