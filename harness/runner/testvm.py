# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The guests that tests run in: all of one run from the same image and modules."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from harness.vm import accel, kbuild, prepare, ulp
from harness.vm.machine import Vm
from harness.vm.spec import Accel, Deadlines, Image, Variant, VmSpec

_lock = threading.Lock()
_made: list[tuple[Image, Accel]] = []
_dressed: dict[ulp.Ulp, VmSpec] = {}


def boot(
    name: str,
    directory: Path,
    deadlines: Deadlines = Deadlines(),  # noqa: B008
    qemu: tuple[str, ...] = (),
    tested: ulp.Ulp | None = None,
    vmcore: bool = False,
) -> Vm:
    """Boot a guest with the test-option build of the modules.

    May be called from several threads; all but the first use what it has made,
    even if the sources have changed since: a guest that replaces a crashed one
    must not differ from it.

    :param directory: for what the guest leaves.
    :param qemu: more arguments for QEMU.
    :param tested: somebody's module, which is built and loaded, too.
    :param vmcore: a panic leaves the guest's memory.
    :raises KfabricError: something cannot be made, or the guest does not boot.
    """
    with _lock:
        if not _made:
            image = prepare.guest_image()
            kbuild.ensure(prepare.SOURCE, image, Variant.TEST, prepare.say)
            choice = accel.choose(image)
            prepare.say(choice.line())
            _made.append((image, choice.accel))
        image, accelerator = _made[0]
        spec = VmSpec(variant=Variant.TEST)
        if tested and tested not in _dressed:
            _dressed[tested] = ulp.with_ulp(spec, image, tested, prepare.say)
        spec = _dressed[tested] if tested else spec
    spec = replace(spec, name=name, deadlines=deadlines, qemu=qemu, vmcore=vmcore)
    guest = Vm(spec, image, accelerator, directory, prepare.SOURCE)
    guest.start()
    if tested:
        _load(guest, tested)
    return guest


def _load(guest: Vm, tested: ulp.Ulp) -> None:
    try:
        ulp.load(guest, tested)
    except BaseException:
        guest.close()
        raise
