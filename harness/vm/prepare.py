# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Prepares everything that a guest needs on a bare host: image, modules, accelerator.

    with prepare.vm(VmSpec(variant=Variant.TEST)) as vm:
        vm.run(["uname", "-r"])

Each step is skipped if its result exists.
"""

import os
import platform
from pathlib import Path

from kfabric.errors import SetupError
from kfabric.terminal.slow import Running
from kfabric.vm import accel, cache, image, kbuild, layer, tools, versions
from kfabric.vm.cache import Log
from kfabric.vm.machine import Vm
from kfabric.vm.source import SOURCE as SOURCE
from kfabric.vm.spec import Accel, Extras, Image, VmSpec
from kfabric.vm.steps import say as say
from kfabric.vm.versions import Version

PROGRAMS = (
    "gcc",
    "make",
    "depmod",
    "mke2fs",
    "mmdebstrap",
    "qemu-img",
    "qemu-system-x86_64",
    "zstd",
)
"""Of packages of vm/packages-host.txt; each build and each guest needs some of them."""

SPACE_MIB = 200
"""For the modules; the image has a check of its own."""


def version(kernel: str = "") -> Version:
    """The kernel of that name; see :meth:`kfabric.vm.versions.Versions.find`."""
    return versions.load(SOURCE).find(kernel)


def guest_image(log: Log = say, kernel: str = "", extras: Extras = Extras()) -> Image:  # noqa: B008
    """The guest image of a kernel, built if needed; empty: the default.

    It also has the additions that the environment asks for.

    Raises:
        UsageError: there is no kernel, package or module of that name.
        NoKernelTree: there is no kernel in that directory.
        SetupError: guests cannot run on this host.
    """
    chosen = version(kernel)
    extras |= layer.of_environment()
    if platform.machine() != "x86_64":
        raise SetupError(f"the host is {platform.machine()}", "an x86-64 host is needed")
    if os.geteuid() != 0:
        raise SetupError("not root", "run it as root, e.g. with sudo")
    tools.require(PROGRAMS)
    for place in (SOURCE, cache.root()):
        cache.require_plain(place)
    cache.make(cache.root())
    cache.require_space(SOURCE / "build", SPACE_MIB)
    with Running("the build of the image", log):
        return layer.ensure(SOURCE, image.ensure(SOURCE, chosen, log), extras, log)


def vm(spec: VmSpec, directory: Path | None = None, log: Log = say) -> Vm:
    """A guest that is ready to start; builds image and modules if needed.

    Its console and files go to ``directory``, or ``build/vm/<name>``. Raises KfabricError.
    """
    guest, accelerator = image_and_accel(spec, log)
    return Vm(spec, guest, accelerator, directory or SOURCE / "build/vm" / spec.name, SOURCE)


def image_and_accel(spec: VmSpec, log: Log = say) -> tuple[Image, Accel]:
    """Build a guest's image and modules if needed, and choose its accelerator."""
    guest = guest_image(log, spec.kernel, spec.extras)
    if spec.variant is not None:
        kbuild.ensure(SOURCE, guest, spec.variant, log, others=not spec.core)
    choice = accel.choose(guest)
    if choice.new:
        log(choice.line())
    return guest, choice.accel
