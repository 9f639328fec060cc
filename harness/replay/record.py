# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Records commands in a guest with one CPU, from the moment when it has booted."""

import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kfabric.errors import CommandTimeout, GuestError, GuestLost
from kfabric.replay import again, material, symbols
from kfabric.replay.execution import MODULES, OUT, About, Execution
from kfabric.replay.qemu import (
    CONSOLE,
    DISK,
    FROZEN,
    LOG,
    OUTPUT,
    ROOT,
    SAVE_SECONDS,
    Hardware,
    Machine,
    Mode,
)
from kfabric.vm import argv as qemu
from kfabric.vm import frozen, programs
from kfabric.vm.errand import READY, Order
from kfabric.vm.frozen import FreezeError, Frozen
from kfabric.vm.spec import Image, VmSpec
from kfabric.vm.steps import say

GO = b"."
# The kernel may take the CPU from a thread anywhere. Free memory is zero, and so costs no space.
CMDLINE = ("preempt=full", "init_on_free=1")
_AGAIN_SECONDS = 0.1
_TRIES = 4
"""Some recordings cannot be replayed: with QEMU 10.0, one of nine."""


@dataclass(frozen=True)
class Errand:
    """What is recorded.

    Attributes:
        what: the test, or the command, for the user.
        spec: the guest; of its devices only memory counts.
        directories, left_out: of the host, as for :func:`kfabric.replay.material.make`.
        modules: directories with modules that it may load, with debug information.
        commands, env, cwd: as in :class:`kfabric.vm.errand.Order`.
    """

    what: str
    spec: VmSpec
    image: Image
    directories: Sequence[Path]
    left_out: Sequence[Path]
    modules: Sequence[Path]
    commands: Sequence[Sequence[str]]
    env: Mapping[str, str]
    cwd: Path

    @property
    def hardware(self) -> Hardware:
        """The guest's."""
        cmdline = qemu.cmdline(self.spec) + " " + " ".join(CMDLINE)
        return Hardware(self.image.kernel, self.image.initrd, cmdline, self.spec.memory_mib)


def record(errand: Errand, directory: Path, seconds: float) -> Execution:
    """Record an errand, until a recording of a failure was replayed and was the same.

    Args:
        directory: a new one, which gets the execution. Its ``out`` is the guest's, too.
        seconds: then the guest is ended, and what it did until then is the execution.

    Raises:
        SetupError: the host lacks something.
        GuestError: the guest did not boot, or QEMU failed.
    """
    saved = _ensure_frozen(errand)
    try:
        return _checked(errand, saved, directory, seconds)
    except KeyboardInterrupt:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _checked(errand: Errand, saved: Frozen, directory: Path, seconds: float) -> Execution:
    """As record()."""
    for tries_left in reversed(range(_TRIES)):
        execution = _once(errand, saved, directory, seconds)
        if execution.about.status == 0:
            break
        say("recorded; replaying it, to see that it is the same")
        try:
            _check(execution, seconds)
        except GuestError as error:
            shutil.rmtree(directory)
            if not tries_left:
                raise
            say(f"QEMU cannot replay this: {error.line()}; recording again")
        else:
            break
    return execution


def _once(errand: Errand, saved: Frozen, directory: Path, seconds: float) -> Execution:
    out = directory / OUT
    out.mkdir(parents=True)
    programs.give(errand.image.disk.parent / programs.NAME, out)
    shutil.copyfile(saved.directory / ROOT, directory / ROOT)
    places = [*errand.directories, out]
    material.make(directory / DISK, _order(errand, places), places, errand.left_out)
    _play(errand, directory, seconds)
    shutil.rmtree(out)
    status = material.results(directory / DISK, out)
    # A later build would have other addresses.
    symbols.keep(out, errand.modules, directory / MODULES)
    for name in (ROOT, DISK):
        material.snapshot(directory / name, "-d")
    about = About(
        what=errand.what,
        status=status,
        release=errand.image.release,
        qemu=qemu.version(),
        image=str(errand.image.disk),
        kernel=str(errand.hardware.kernel),
        initrd=str(errand.hardware.initrd),
        cmdline=errand.hardware.cmdline,
        memory_mib=errand.hardware.memory_mib,
    )
    execution = Execution(directory, about)
    execution.pack()
    return execution


def _check(execution: Execution, seconds: float) -> None:
    """Raise GuestError if it cannot be replayed."""
    if differ := again.replay(execution, seconds):
        raise GuestLost(f"{', '.join(differ)} would differ")


def _order(errand: Errand, directories: Sequence[Path]) -> Order:
    return {
        "name": "recorded",
        "ns": time.time_ns(),
        "seed": secrets.token_hex(32),
        "directories": list(map(str, directories)),
        "commands": [list(argv) for argv in errand.commands],
        "env": dict(errand.env),
        "cwd": str(errand.cwd),
    }


def _play(errand: Errand, directory: Path, seconds: float) -> None:
    """Run the guest to its end, or for some seconds."""
    deadline = time.monotonic() + seconds
    with Machine(errand.hardware, directory, Mode.RECORD) as machine:
        machine.send(GO)
        try:
            machine.wait(deadline)
        except CommandTimeout:
            machine.quit()


def _ensure_frozen(errand: Errand) -> Frozen:
    """The guest to go on from; made if there is none."""
    hardware = errand.hardware
    kind = [str(hardware.kernel), str(hardware.initrd), hardware.cmdline]
    name = frozen.key(["recorded", *kind, str(hardware.memory_mib), str(material.MIB)])

    def freeze(target: Frozen) -> None:
        say("no guest to record is saved: booting one, to save it")
        _freeze(errand, target.directory)

    return frozen.ensure(errand.image.disk.parent / "frozen", name, freeze)


def _freeze(errand: Errand, place: Path) -> None:
    """Boot a guest, and save it. Raises BootError, FreezeError."""
    frozen.make_disk(errand.image.disk, place / ROOT)
    material.empty(place / DISK)
    with Machine(errand.hardware, place, Mode.FREEZE) as machine:
        # It boots, and then imports.
        machine.wait_for(READY, 2 * errand.spec.deadlines.boot)
        deadline = time.monotonic() + SAVE_SECONDS
        # QEMU refuses to save it while it waits for a disk.
        while (refusal := machine.hmp(f"savevm {FROZEN}", SAVE_SECONDS)).strip():
            if time.monotonic() >= deadline:
                raise FreezeError(f"QEMU refuses to save it: {refusal.strip()}")
            time.sleep(_AGAIN_SECONDS)
        try:
            machine.quit()
        except (CommandTimeout, GuestLost) as error:
            raise FreezeError(error.what, error.hint) from None
    for name in (LOG, CONSOLE, OUTPUT):
        (place / name).unlink(missing_ok=True)
