# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""From a bare host to a guest: everything that has to exist first.

    vm = setup.vm(VmSpec(variant=Variant.TEST))
    with vm:
        vm.run(["uname", "-r"])

Each step is skipped when its result is there already.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from harness.errors import SetupError
from harness.vm import accel, cache, image, kbuild, versions
from harness.vm.machine import Vm
from harness.vm.spec import Image, VmSpec

SOURCE = Path(__file__).resolve().parents[2]
"""The checkout."""

SPACE_MIB = 200
"""For the modules; the image has a check of its own."""

Log = Callable[[str], None]


def say(line: str) -> None:
    """Show a step to the user, on standard error."""
    print(f"kfabric: {line}", file=sys.stderr, flush=True)


def check_host() -> None:
    """Refuse hosts on which nothing will work.

    :raises SetupError: with the one reason.
    """
    if platform.machine() != "x86_64":
        raise SetupError(f"the host is {platform.machine()}", "an x86-64 host is needed")
    if os.geteuid() != 0:
        raise SetupError("not root", "run it as root, e.g. with sudo")
    cache.require_space(SOURCE / "build", SPACE_MIB)


def guest_image(log: Log = say, kernel: str = "") -> Image:
    """The guest image, built if needed.

    :param kernel: its name in vm/versions.toml; empty: the one that is meant by default.
    :raises UnknownKernel: there is none of that name.
    """
    version = versions.load(SOURCE).find(kernel)
    check_host()
    return image.ensure(SOURCE, version, log)


def vm(spec: VmSpec, directory: Path | None = None, log: Log = say) -> Vm:
    """A guest that is ready to start; makes image and modules if needed.

    :param directory: for its console and files; default ``build/vm/<name>``.
    :raises KfabricError: something cannot be made.
    """
    guest = guest_image(log, spec.kernel)
    if spec.variant is not None:
        kbuild.ensure(SOURCE, guest, spec.variant, log)
    choice = accel.choose(guest)
    log(choice.line())
    place = directory or SOURCE / "build/vm" / spec.name
    return Vm(spec, guest, choice.accel, place, SOURCE)
