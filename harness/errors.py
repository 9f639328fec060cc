# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Exit statuses and exceptions of the harness, all in one place.

Every way in which a run can end has its own number, so that a broken machine is
never mistaken for a failed test and a failed test never for a broken machine.
"""

from __future__ import annotations

import enum
import sys
from typing import ClassVar


class ExitStatus(enum.IntEnum):
    """Exit status of ``kfabric`` (and of the guest's part of ``make demo``)."""

    OK = 0
    TEST_FAILED = 1
    USAGE = 2
    FAULT_FOUND = 3
    """The verdict found a lost, spurious, late or shared wake-up."""
    NOT_VERIFIED = 4
    """The probes lost events, so that there is no verdict."""

    SETUP = 70
    """The host lacks something: root, space, packages, headers."""
    BUILD = 71
    """A kernel module does not build."""
    MODULE_LOAD = 72
    """A kernel module does not load in the guest."""
    BOOT = 73
    """The guest did not reach its first command in time."""
    PANIC = 74
    """The guest kernel panicked (an oops counts as one)."""
    HANG = 75
    """The guest runs but gives no sign of life."""
    LOST = 76
    """QEMU ended without a panic and without being asked to."""
    TIMEOUT = 77
    """A command in the guest passed its deadline; the guest itself lives."""
    SPLAT = 78
    """The guest's log has a kernel warning that nothing else reported."""

    INTERRUPTED = 130


class KfabricError(Exception):
    """An end that is not a test result.

    :param what: what happened, one line.
    :param hint: what to do about it, one line.
    :param console: the last lines of the guest's console, or of a build log.
    """

    status: ClassVar[ExitStatus] = ExitStatus.SETUP
    label: ClassVar[str] = "error"

    def __init__(self, what: str, hint: str = "", console: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.console = console

    def line(self) -> str:
        """What happened and what to do, as the one line that a user sees."""
        tail = f"; {self.hint}" if self.hint else ""
        return f"{self.label}: {self.what}{tail}"


class SetupError(KfabricError):
    """The host cannot run guests: root, space, packages, network, headers."""

    status = ExitStatus.SETUP
    label = "set-up failed"


class BuildError(KfabricError):
    """A kernel module does not build against the guest's headers."""

    status = ExitStatus.BUILD
    label = "module build failed"


class GuestError(KfabricError):
    """Base of everything that ends a guest or a command in it."""

    label = "guest failed"


class ModuleLoadError(GuestError):
    """insmod failed in the guest."""

    status = ExitStatus.MODULE_LOAD
    label = "module does not load"


class BootError(GuestError):
    """The guest's agent did not report within the boot deadline."""

    status = ExitStatus.BOOT
    label = "guest did not boot"


class GuestPanic(GuestError):
    """The guest kernel panicked."""

    status = ExitStatus.PANIC
    label = "guest kernel panic"


class GuestHang(GuestError):
    """The guest's heartbeat stopped while QEMU still ran."""

    status = ExitStatus.HANG
    label = "guest hangs"


class GuestLost(GuestError):
    """QEMU went away without a panic and without being asked to."""

    status = ExitStatus.LOST
    label = "guest lost"


class CommandTimeout(GuestError):
    """A command in the guest passed its deadline and was killed."""

    status = ExitStatus.TIMEOUT
    label = "command timed out"


class GuestSplat(GuestError):
    """The guest's log holds a kernel warning although the run looked good."""

    status = ExitStatus.SPLAT
    label = "kernel splat in the guest's log"


def report(error: KfabricError) -> int:
    """Show a failure, its console first and its one line last."""
    if error.console:
        print(error.console.rstrip(), file=sys.stderr)
    print(f"kfabric: {error.line()}", file=sys.stderr)
    return error.status
