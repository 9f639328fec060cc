# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""QEMU for guests that are recorded and replayed: the command line, and the process.

QEMU records one virtual CPU, serial lines and disks. Its clock counts instructions, a nanosecond
each, and goes on while the guest is idle.
"""

import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO, Self

from kfabric.errors import BootError, CommandTimeout, GuestLost, starved
from kfabric.replay.counter import Counter
from kfabric.vm import argv as qemu
from kfabric.vm.argv import quote
from kfabric.vm.qmp import QmpLink
from kfabric.vm.spec import Accel
from kfabric.vm.tools import END_WITH_US

FROZEN = "frozen"
"""The snapshot of a guest that has booted."""
BEGIN = "begin"
"""The snapshot in which an execution begins."""
ROOT, DISK = "root.qcow2", "disk.qcow2"
"""The guest's disks, which have the snapshots: its root, and what it needs of the host."""
LOG = "log.bin"
CONSOLE, OUTPUT = "console.log", "output.log"
ERRORS = "qemu.log"
START_SECONDS = 60.0
QMP_SECONDS = 60.0
"""QEMU does not answer while it loads or saves a guest."""
POLL_SECONDS = 0.05
LOOKS = 600
LEAST_TICKS = 100
"""A replay never idles. Without it, QEMU needs less for the questions."""
SAVE_SECONDS = 120.0


class Mode(Enum):
    """What a guest is started for."""

    FREEZE = "to be saved once it has booted"
    RECORD = "to go on from there, and be recorded"
    REPLAY = "to do the same again"


@dataclass(frozen=True)
class Hardware:
    """What the frozen guest, the recorded one and the replayed one have in common.

    Attributes:
        cmdline: the kernel's parameters.
    """

    kernel: Path
    initrd: Path
    cmdline: str
    memory_mib: int


@dataclass(frozen=True)
class Ends:
    """QEMU's ends of what connects it with the harness.

    Attributes:
        line: the path of the guest's line; ``.in`` and ``.out`` are added to it. A replay has none:
            what came in is in its log.
        qmp: descriptor.
        debugger: the path at which a replay waits for gdb.
    """

    line: Path
    qmp: int
    debugger: Path


def argv(hardware: Hardware, place: Path, mode: Mode, ends: Ends) -> list[str]:
    """The command line; ``place`` has disks and log, and gets console and output."""
    # A snapshot can only be recorded from if it was recorded itself.
    rr = "replay" if mode is Mode.REPLAY else "record"
    begin = "" if mode is Mode.FREEZE else f",rrsnapshot={BEGIN}"
    icount = f"shift=0,rr={rr},rrfile={quote(place / LOG)}{begin}"
    line = f"pipe,path={quote(ends.line)}"
    if mode is Mode.REPLAY:
        line = f"file,path={quote(place / OUTPUT)}"
    return [
        "qemu-system-x86_64",
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *("-M", "q35", "-accel", "tcg,thread=single", "-cpu", qemu.CPU[Accel.TCG]),
        *("-m", str(hardware.memory_mib), "-smp", "1", "-icount", icount),
        *("-no-reboot", "-action", "panic=none", "-device", "pvpanic-pci", "-net", "none"),
        *("-kernel", str(hardware.kernel), "-initrd", str(hardware.initrd)),
        *("-append", hardware.cmdline),
        *_disk("root", place / ROOT),
        *_disk("disk", place / DISK),
        *qemu.console(place / CONSOLE),
        *("-chardev", f"{line},id=line", "-serial", "chardev:line"),
        *qemu.monitor(ends.qmp),
        *(["-loadvm", FROZEN] if mode is Mode.RECORD else []),
        *(_replay(ends.debugger) if mode is Mode.REPLAY else []),
    ]


def _replay(path: Path) -> list[str]:
    """A socket for gdb, and a guest that waits for a word to begin, and stays at its end."""
    chardev = f"socket,path={quote(path)},server=on,wait=off,id=gdb"
    return ["-chardev", chardev, "-gdb", "chardev:gdb", "-S", "-no-shutdown"]


def _disk(name: str, path: Path) -> list[str]:
    """A disk whose requests are recorded."""
    drive = f"file={quote(path)},format=qcow2,if=none,id={name}-file,cache=unsafe"
    return [
        *("-drive", drive),
        *("-drive", f"driver=blkreplay,if=none,image={name}-file,id={name}"),
        *("-device", f"virtio-blk-pci,drive={name},ioeventfd=off"),
    ]


def open_line(path: Path, output: Path) -> BinaryIO:
    """Make the line of a guest; what is written to it comes in.

    What goes out is written to a file, which takes each byte at once. If a pipe or a socket were
    full, the guest would wait for us, and QEMU does not record when that ends.
    """
    os.mkfifo(f"{path}.in")
    output.touch()
    os.symlink(output.absolute(), f"{path}.out")
    return open(f"{path}.in", "r+b", buffering=0)


class _Pulse:
    """Whether a process computes. It counts looks, not seconds: a busy host may stop both."""

    def __init__(self, pid: int) -> None:
        self._stat = Path(f"/proc/{pid}/stat")
        self._looks = 0
        self._used = 0

    def stopped(self) -> bool:
        """Look; whether it has used next to no CPU time for many looks."""
        self._looks += 1
        if self._looks % LOOKS:
            return False
        before, self._used = self._used, self._ticks()
        return self._used - before < LEAST_TICKS

    def _ticks(self) -> int:
        """User and system time, in clock ticks (proc(5))."""
        words = self._stat.read_text().rpartition(")")[2].split()
        return int(words[11]) + int(words[12])


class Machine:
    """A running QEMU; a context manager that ends it.

    Args:
        place: as that of :func:`argv`.
        plugin: further arguments.
    """

    def __init__(
        self, hardware: Hardware, place: Path, mode: Mode, plugin: Sequence[str] = ()
    ) -> None:
        self._place = place
        self._stack = ExitStack()
        monitor, its = socket.socketpair()
        # The path of a socket must be short.
        short = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kfabric-")))
        self.debugger = short / "gdb"
        """The socket for gdb."""
        self._line = self._stack.enter_context(open_line(short / "line", place / OUTPUT))
        ends = Ends(short / "line", its.fileno(), self.debugger)
        words = [*argv(hardware, place, mode, ends), *plugin]
        with (place / ERRORS).open("wb") as errors, its:
            self._process = subprocess.Popen(
                [*END_WITH_US, *words],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=[its.fileno()],
                start_new_session=True,
            )
        self._qmp = QmpLink(monitor)
        self._stack.callback(self._qmp.close)
        self._stack.callback(self._process.wait)
        self._stack.callback(self._process.kill)

    def __enter__(self) -> Self:
        """Wait until QEMU takes commands; raises GuestLost."""
        deadline = time.monotonic() + START_SECONDS
        while self._qmp.execute("query-status", QMP_SECONDS) is None:
            if self._process.poll() is not None or time.monotonic() >= deadline:
                self._stack.close()
                raise GuestLost(f"it does not start; {self.reason()}", starved())
            time.sleep(POLL_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def finish(self, deadline: float) -> None:
        """Replay a guest to its end. Raises CommandTimeout, GuestLost."""
        for _ in self._going(deadline):
            pass

    def stop_after(self, counter: Counter, deadline: float) -> bool:
        """Replay a guest until the counter has come near, and stop it there, or soon after.

        Returns:
            Whether it came so far before its end.

        Raises as :meth:`finish`.
        """
        for _ in self._going(deadline):
            if counter.calls() >= counter.near:
                self._execute("stop")
                counter.stopped()
                return True
        return False

    @contextmanager
    def kept_awake(self) -> Iterator[None]:
        """While somebody else replays the guest, ask QEMU for its state again and again.

        Its main loop can sleep while the CPU waits for it to go on with the execution: on a busy
        host dozens of times in a replay. Each question wakes it.
        """
        done = threading.Event()

        def ask() -> None:
            while not done.wait(POLL_SECONDS) and self._qmp.execute("query-status", QMP_SECONDS):
                pass

        thread = threading.Thread(target=ask, name="awake")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _going(self, deadline: float) -> Iterator[None]:
        """Looks at a replayed guest, until its end; they keep it awake, see :meth:`kept_awake`.

        Raises CommandTimeout, GuestLost.
        """
        self._execute("cont")
        pulse = _Pulse(self._process.pid)
        while self._process.poll() is None:
            if pulse.stopped():
                raise GuestLost("the replay stands still")
            answer: Any = self._execute("query-status")
            if answer["status"] in ("shutdown", "guest-panicked"):
                return
            if time.monotonic() >= deadline:
                raise CommandTimeout("the replay has not come to its end in time", starved())
            yield
            time.sleep(POLL_SECONDS)
        if self._process.returncode:
            raise GuestLost(self.reason(), starved(), self._console())

    def _execute(self, command: str, **arguments: object) -> object:
        answer = self._qmp.execute(command, QMP_SECONDS, **arguments)
        if answer is None:
            raise GuestLost(f"no answer to {command}; {self.reason()}", starved())
        return answer

    def hmp(self, command: str, deadline: float = QMP_SECONDS) -> str:
        """Run a command of QEMU's monitor; its text."""
        return self._qmp.hmp(command, deadline)

    def send(self, data: bytes) -> None:
        """Write to the guest's line; a few bytes, since QEMU loses more of them."""
        self._line.write(data)

    def wait_for(self, text: bytes, seconds: float) -> None:
        """Wait until the guest has written this to its line; raises BootError."""
        deadline = time.monotonic() + seconds
        output = self._place / OUTPUT
        while text not in output.read_bytes():
            if self._process.poll() is not None or time.monotonic() >= deadline:
                raise BootError(self.reason(), starved(), self._console())
            time.sleep(POLL_SECONDS)

    def wait(self, deadline: float) -> None:
        """Wait until the guest, and so QEMU, ends; raises CommandTimeout, or GuestLost."""
        try:
            status = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            what = "the guest has not ended in time"
            raise CommandTimeout(what, starved(), self._console()) from None
        if status:
            raise GuestLost(self.reason(), starved(), self._console())

    def quit(self) -> None:
        """End QEMU so that its files are complete; raises as :meth:`wait`."""
        self.hmp("quit")
        self.wait(time.monotonic() + QMP_SECONDS)

    def reason(self) -> str:
        """QEMU's own last words."""
        words = (self._place / ERRORS).read_text(errors="replace").strip().splitlines()
        state = "QEMU runs" if self._process.poll() is None else "QEMU ended"
        return f"{state}: {words[-1]}" if words else state

    def _console(self) -> str:
        return (self._place / CONSOLE).read_text(errors="replace")[-2000:]
