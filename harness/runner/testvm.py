# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Boots guests for tests, all of one run from the same image and modules."""

import threading
from dataclasses import replace
from pathlib import Path

from kfabric.guest.modules import OURS
from kfabric.steer.guests import steered, under_test
from kfabric.vm import asked, prepare, usermodule
from kfabric.vm.machine import Vm
from kfabric.vm.spec import Accel, Deadlines, Image, Variant, VmSpec
from kfabric.vm.usermodule import UserModule

_lock = threading.Lock()
_made: list[tuple[Image, Accel]] = []
_with_module: dict[UserModule, VmSpec] = {}


def boot(
    name: str,
    directory: Path,
    deadlines: Deadlines = Deadlines(),  # noqa: B008
    wire: tuple[Path, Path] | None = None,
    qemu: tuple[str, ...] = (),
    tested: UserModule | None = None,
    vmcore: bool = False,
) -> Vm:
    """Boot a guest with the test-option build of the modules, if its tests need them.

    May be called from several threads. Image and modules are made once, even if the sources
    change later: a guest that replaces a crashed one must not differ from it.

    Args:
        directory: gets the guest's console and files.
        wire: sockets of its end and of the other end of an Ethernet.
        tested: the user's module, which is also built and loaded.

    Raises:
        KfabricError: a build fails, or the guest does not boot.
    """
    with _lock:
        spec = asked.of_environment(VmSpec(variant=None if tested else Variant.TEST))
        if not _made:
            _made.append(prepare.image_and_accel(spec))
        image, accelerator = _made[0]
        if tested and tested not in _with_module:
            _with_module[tested] = usermodule.with_module(spec, image, tested, prepare.say)
        spec = _with_module[tested] if tested else spec
    spec = replace(spec, name=name, deadlines=deadlines, wire=wire, qemu=qemu, vmcore=vmcore)
    spec = steered(spec, under_test(spec, tested) if tested else OURS)
    guest = Vm(spec, image, accelerator, directory, prepare.SOURCE)
    guest.start()
    if tested:
        try:
            usermodule.load(guest, tested)
        except BaseException:
            guest.close()
            raise
    return guest
