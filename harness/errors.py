# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Exit statuses and exceptions of the harness, and words for their lines.

Every way in which a run can end has its own number, so that a broken machine and a failed
test are never confused.
"""

import enum
import os
import sys
from collections.abc import Iterable
from typing import ClassVar


class ExitStatus(enum.IntEnum):
    """Exit status of ``kfabric`` (and of the guest's part of ``make demo``)."""

    OK = 0
    TEST_FAILED = 1
    USAGE = 2
    """The command line is wrong, or a thing that it names does not exist."""
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
    """The guest runs but its heartbeat has stopped."""
    LOST = 76
    """QEMU ended without a panic and without being asked to."""
    TIMEOUT = 77
    """A command in the guest passed its deadline; the guest itself lives."""
    SPLAT = 78
    """The guest's log has a kernel warning that nothing else reported."""

    INTERRUPTED = 130


class KfabricError(Exception):
    """An end that is not a test result.

    Args:
        what: what happened, one line.
        hint: how to fix it, one line.
        console: the last lines of the guest's console, or of a build log.
    """

    status: ClassVar[ExitStatus] = ExitStatus.SETUP
    label: ClassVar[str] = "error"

    def __init__(self, what: str, hint: str = "", console: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.console = console

    def __init_subclass__(cls, status: ExitStatus | None = None, label: str = "") -> None:
        """Set the class attributes from keywords of the class statement."""
        cls.status, cls.label = status or cls.status, label or cls.label

    def line(self) -> str:
        """The error and its hint, as the one line that a user sees."""
        tail = f"; {self.hint}" if self.hint else ""
        return " ".join(f"{self.label}: {self.what}{tail}".splitlines())


class UsageError(KfabricError, status=ExitStatus.USAGE, label="wrong usage"):
    """The command line is wrong, or a thing that it names does not exist."""


class SetupError(KfabricError, label="set-up failed"):
    """The host cannot run guests: root, space, packages, network, headers."""


class BuildError(KfabricError, status=ExitStatus.BUILD, label="module build failed"):
    """A kernel module does not build against the guest's headers."""


class GuestError(KfabricError, label="guest failed"):
    """Base of all errors that end a guest or a command in it."""


class ModuleLoadError(GuestError, status=ExitStatus.MODULE_LOAD, label="module does not load"):
    """insmod failed in the guest."""


class BootError(GuestError, status=ExitStatus.BOOT, label="guest did not boot"):
    """The guest's agent did not report within the boot deadline."""


class GuestPanic(GuestError, status=ExitStatus.PANIC, label="guest kernel panic"):
    """The guest kernel panicked."""


class GuestHang(GuestError, status=ExitStatus.HANG, label="guest hangs"):
    """The guest's heartbeat stopped while QEMU still ran."""


class GuestLost(GuestError, status=ExitStatus.LOST, label="guest lost"):
    """QEMU ended without a panic and without being asked to."""


class CommandTimeout(GuestError, status=ExitStatus.TIMEOUT, label="command timed out"):
    """A command in the guest passed its deadline and was killed."""


class GuestSplat(GuestError, status=ExitStatus.SPLAT, label="kernel splat in the guest's log"):
    """The guest's log has a kernel warning although the run succeeded."""


def starved() -> str:
    """The hint of an error that a busy host may have caused; empty if the host is not busy."""
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    if load <= cpus:
        return ""
    return f"the host's load was {load:.1f} on {cpus} CPUs: the guest may have been starved"


def hung(console: str) -> str:
    """The hint of a guest's hang: a CPU in its handler of breakpoints, else a busy host.

    Args:
        console: the guest's last lines, in which its kernel may have said where its CPUs are.
    """
    if "asm_exc_int3" in console:
        return 'a CPU takes breakpoints: see "A guest that stands still" in docs/guests.md'
    return starved()


def needs_checkout(command: str) -> UsageError:
    """The error of a command that works on kfabric itself, which an installed tool lacks."""
    return UsageError(f"{command} needs a checkout of kfabric", "this is an installed tool")


def report(error: KfabricError) -> int:
    """Print a failure, its console first and its one line last; its exit status."""
    if error.console:
        print(error.console.rstrip(), file=sys.stderr)
    print(f"kfabric: {error.line()}", file=sys.stderr)
    return error.status


def counted(count: int, noun: str) -> str:
    """A count with its noun: ``1 test``, ``2 tests``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def near(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """The hint of an error for a name that does not exist.

    Args:
        name: as it was given.
        names: those that exist.
        otherwise: the hint if none of them is similar; default: all of them.
    """
    import difflib  # only errors need it

    known = list(names)
    found = difflib.get_close_matches(name, known, 1)
    return f"did you mean {found[0]}?" if found else otherwise or f"there are {', '.join(known)}"
