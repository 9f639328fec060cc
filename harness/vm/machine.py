# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""One disposable guest: start it, run commands in it, learn how it ended.

    with Vm(spec, image, accel, directory, source) as vm:
        done = vm.run(["uname", "-r"], timeout=10)

Leaving the block ends QEMU. Every wait has a deadline; whatever ends the guest
early is raised, as a :class:`~harness.errors.GuestError` of the right kind, by
the call that was waiting for the guest.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from harness import names, splats
from harness.errors import (
    BootError,
    CommandTimeout,
    GuestError,
    GuestHang,
    GuestLost,
    GuestPanic,
    KfabricError,
)
from harness.vm import argv as qemu
from harness.vm import bytecode, cache, frozen, vmcore
from harness.vm.argv import Disk
from harness.vm.client import AgentClient, RemoteJob, StreamEnd
from harness.vm.frozen import FreezeError, Frozen
from harness.vm.qmp import QmpLink
from harness.vm.spec import Accel, Image, VmSpec
from harness.vm.watchdog import Watchdog
from harness.vm.wire import Kind, Start

# QEMU asks to be killed when the *thread* that started it ends, so one thread
# that lives as long as the process starts them all.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="qemu-spawner")

# Longer than a booting kernel is ever silent, on a busy host as well.
_STALL_SECONDS = 40.0
QMP_SECONDS = 10.0
SAVE_SECONDS = 120.0
POLL_SECONDS = 0.05
_ERRORS = 4000
_STALLED_CONSOLE = "console.stalled.log"
_LEFT = ("console.log", _STALLED_CONSOLE, "qemu.log", "registers.txt")
_FROZEN = "frozen"


class BootStall(BootError):
    """The guest's kernel fell silent before it started our init."""


@dataclass(frozen=True)
class Completed:
    """A command that ran to its end in the guest."""

    argv: list[str]
    rc: int
    """Exit status; negative: the signal that killed it."""
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.out.decode(errors="replace")


class Command:
    """A command that runs in the guest; made by :meth:`Vm.popen`."""

    def __init__(self, vm: Vm, job: RemoteJob, timeout: float | None) -> None:
        self._vm = vm
        self._job = job
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self.errors = b""
        """The end of standard error, as far as :meth:`lines` has seen it."""
        self.send = job.send
        self.close_stdin = job.close_stdin
        self.signal = job.signal
        self.resize = job.resize

    @property
    def rc(self) -> int | None:
        """Exit status, None while it runs."""
        return self._job.status

    def stream(self) -> Iterator[tuple[Kind, bytes]]:
        """Yield (Kind.STDOUT or Kind.STDERR, bytes) as they come, to the end.

        :raises CommandTimeout: the deadline given to popen passed; it is killed.
        :raises GuestError: the guest ended first.
        """
        try:
            yield from self._job.frames(self._deadline)
        except TimeoutError:
            self._job.signal(signal.SIGKILL)
            what = f"{' '.join(self._job.argv)}: not done after {self._timeout:g} s"
            raise CommandTimeout(what, console=self._vm.console_tail()) from None
        except StreamEnd:
            raise self._vm.cause() from None

    def lines(self) -> Iterator[str]:
        """Yield complete lines of standard output; of standard error the end is kept."""
        rest = b""
        for kind, data in self.stream():
            if kind is Kind.STDERR:
                self.errors = (self.errors + data)[-_ERRORS:]
            else:
                *complete, rest = (rest + data).split(b"\n")
                for line in complete:
                    yield line.decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")

    def wait(self) -> Completed:
        """Collect all output until the command ends."""
        parts: dict[Kind, list[bytes]] = {Kind.STDOUT: [], Kind.STDERR: []}
        for kind, data in self.stream():
            parts[kind].append(data)
        out, err = (b"".join(parts[k]) for k in (Kind.STDOUT, Kind.STDERR))
        assert self._job.status is not None
        return Completed(self._job.argv, self._job.status, out, err)


class Vm:
    """A guest; a context manager that starts and ends it.

    :param image: from :func:`harness.vm.image.ensure`.
    :param accel: from :func:`harness.vm.accel.choose`.
    :param directory: gets ``console.log`` and ``out/`` (writable for the guest,
        at the same path); made if missing, kept afterwards.
    :param source: the checkout; read-only in the guest, at the same path.
    """

    def __init__(
        self, spec: VmSpec, image: Image, accel: Accel, directory: Path, source: Path
    ) -> None:
        self.spec = spec.on(image.version)
        self.image = image
        self.accel = accel
        self.directory = directory
        self.out = directory / "out"
        self.console_path = directory / "console.log"
        self.boot_seconds = 0.0
        """From the start of QEMU until the agent took commands."""
        self._source = source
        self._stack = ExitStack()
        self._claim = ExitStack()
        self._streams: dict[str, socket.socket] = {}
        self._verdict: GuestError | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Boot, and wait until commands can run.

        A kernel that stalls before it has started our init gets a second chance:
        under QEMU 7.2's TCG about one boot in some hundreds does, in a CPU that
        loops on a breakpoint which the kernel has taken back already. The first
        console is kept as ``console.stalled.log``.

        A guest of a kind that has booted before goes on from there.

        :raises SetupError: a path cannot be passed to the guest, or another guest has
            the directory.
        :raises BootError: not within ``spec.deadlines.boot`` seconds, or the guest
            ended before.
        """
        for path in (self._source, self.out, *self.spec.shares):
            cache.require_plain(path)
        bytecode.packages(self._source, self.image)
        # Of two runs at a time the second would take away what the first one writes to.
        self._claim.enter_context(cache.locked(self.directory / "lock", deadline=0.0))
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self._clear_directory()
        began = time.monotonic()
        if not (self._can_freeze() and self._thaw()):
            self._boot(Disk(self.image.disk))
            self._begin()
        self.boot_seconds = time.monotonic() - began

    def _can_freeze(self) -> bool:
        """Whether there may be another one like this: nothing is connected to this one alone."""
        return not (self.spec.qemu or self.spec.icount)

    def _thaw(self) -> bool:
        """Start as a frozen guest of this kind; False: there is none, or it does not thaw."""
        found = self._ensure_frozen()
        if found is None:
            return False
        disk = Disk(found.disk, "qcow2")
        try:
            shutil.copyfile(found.console, self.console_path)
            if self.splats():
                raise BootError("its kernel complained before it was frozen")
            with found.state.open("rb") as state:
                self._launch(disk, state.fileno())
            self._begin()
        except (BootError, OSError):
            found.discard()
            self._verdict = None
            self._clear_directory()
            return False
        return True

    def _ensure_frozen(self) -> Frozen | None:
        """The frozen guest of this kind, made if there is none; None: it cannot be made.

        It only saves time: without one the guest boots, and a line says why.

        :raises BootError: its kernel does not boot. This one's would not either, after as
            long a wait again.
        """
        kind = qemu.kind(self.spec, self.image, self.accel)
        try:
            name = frozen.key([*kind, *(tag for tag, _ in qemu.shares(self.spec))])
            return frozen.ensure(self.image.disk.parent / _FROZEN, name, self._freeze)
        except BootError:
            raise
        except (KfabricError, OSError, subprocess.SubprocessError) as error:
            why = error.line() if isinstance(error, KfabricError) else str(error)
            line = f"kfabric: {self.spec.name} boots, since it cannot be frozen: {why}"
            print(line, file=sys.stderr, flush=True)
            return None

    def _freeze(self, target: Frozen) -> None:
        """Boot another one like this, and keep what it has come to.

        :raises BootError: its kernel does not boot.
        :raises FreezeError: it does, and what follows fails.
        """
        other = Vm(self.spec, self.image, self.accel, target.directory, self._source)
        # Which has what this kernel needs already. What it left would not be kept.
        other.spec = replace(self.spec, vmcore=False)
        other.out.mkdir()
        frozen.make_disk(self.image.disk, target.disk)
        try:
            other._boot(Disk(target.disk, "qcow2", keep=True))
            other._prepare()
            other._save(target.state)
        finally:
            other.close()

    def _prepare(self) -> None:
        """Have it do what tests would begin with. Raises FreezeError."""
        self._agent.prepare(frozen.PREPARATION)
        try:
            self._wait_word(time.monotonic() + self.spec.deadlines.boot)
        except BootError as error:
            raise FreezeError(f"it is not prepared: {error.what}", console=error.console) from None

    def _boot(self, disk: Disk) -> None:
        """Start the kernel and wait for the agent; a kernel that stalls is started again."""
        try:
            self._start_kernel(disk)
        except BootStall:
            self.console_path.rename(self.directory / _STALLED_CONSOLE)
            self._verdict = None
            self._start_kernel(disk)

    def _start_kernel(self, disk: Disk) -> None:
        began = time.monotonic()
        with self._closing_on_failure():
            self._launch(disk)
            self._wait_hello(began + self.spec.deadlines.boot)

    def _begin(self) -> None:
        """Make it this guest: name, time, and the host's directories."""
        with self._closing_on_failure():
            mounts = qemu.mounts(self.spec, self._source, self.out)
            self._agent.begin(self.spec.name, mounts, str(self._source))
            self._wait_word(time.monotonic() + self.spec.deadlines.boot)
            self._watchdog.arm()
            if self.spec.vmcore:
                self._expect_panic()

    def _expect_panic(self) -> None:
        """Have it stand still when it panics, and know what its memory is read by.

        Any guest can be asked for that, also one that was frozen.
        """
        if self._qmp.execute("set-action", deadline=QMP_SECONDS, panic="pause") is None:
            raise BootError("QEMU cannot be told to pause a guest that panics")
        told = self.run(["cat", vmcore.PLACE], timeout=self.spec.deadlines.boot)
        self._dump.info = vmcore.Place.read(told.text)

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        """Leave nothing behind, and say why the guest does not start."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, BootError):
                self._verdict = error
            self._stack.close()
            raise

    def _save(self, target: Path) -> None:
        """Write memory and devices to a file; the guest does not run afterwards.

        It runs until then: one that is stopped first would be stopped when it is thawed.

        :raises FreezeError: QEMU does not do it.
        """
        limit = {"max-bandwidth": 1 << 40}
        self._qmp.execute("migrate-set-parameters", deadline=QMP_SECONDS, **limit)
        # The file is there when all of it is.
        uri = f"exec:cat >{target}.part && mv {target}.part {target}"
        if self._qmp.execute("migrate", deadline=QMP_SECONDS, uri=uri) is None:
            raise FreezeError("QEMU refuses to save it", console=self.console_tail())
        deadline = time.monotonic() + SAVE_SECONDS
        while not target.exists():
            if time.monotonic() >= deadline or not self.alive:
                raise FreezeError("QEMU does not save it", console=self.console_tail())
            time.sleep(POLL_SECONDS)

    def run(
        self,
        argv: Sequence[str],
        timeout: float | None = 60.0,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        stdin: bytes = b"",
    ) -> Completed:
        """Run a command to its end.

        :param timeout: seconds; None: as long as the guest lives.
        :param stdin: all of its standard input.
        :raises CommandTimeout: it was not done in time, and was killed.
        :raises GuestError: the guest ended first.
        """
        command = self.popen(argv, timeout=timeout, env=env, cwd=cwd)
        if stdin:
            command.send(stdin)
        command.close_stdin()
        return command.wait()

    def popen(
        self,
        argv: Sequence[str],
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        pty: tuple[int, int] | None = None,
        port: str = "",
    ) -> Command:
        """Start a command; its output is read from the result.

        :param pty: (rows, columns) of a terminal for it, instead of pipes.
        :param port: name of the virtio-serial port to use as its stdin and
            stdout; the host's end is :meth:`open_stream`.
        """
        rows, cols = pty or (24, 80)
        start: Start = {
            "argv": list(argv),
            "env": {**self._environment(), **(env or {})},
            "cwd": cwd,
            "pty": pty is not None,
            "rows": rows,
            "cols": cols,
            "port": port,
        }
        return Command(self, self._agent.start(start), timeout)

    def open_stream(self, name: str = "kfabric.xdist") -> socket.socket:
        """The host's end of a virtio-serial port, a connected stream socket.

        The guest sees its end of file once it is closed.
        """
        return self._streams[name]

    @property
    def alive(self) -> bool:
        """Whether QEMU runs."""
        return self._qemu.poll() is None

    @property
    def modules(self) -> Path | None:
        """Directory of the kernel modules, same path on host and guest."""
        if self.spec.variant is None:
            return None
        return self._source / "build/kmod" / self.image.release / self.spec.variant.value

    def console_text(self) -> str:
        """All that the guest's console has said."""
        try:
            return self.console_path.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def console_tail(self) -> str:
        """The last lines of the console."""
        return splats.tail(self.console_text())

    def splats(self) -> list[splats.Splat]:
        """The kernel's reports about itself so far."""
        return splats.splats(self.console_text())

    def cause(self) -> GuestError:
        """Why the guest is gone; waits until QEMU has ended.

        To be called once a stream to the guest has ended.
        """
        try:
            rc = self._qemu.wait(self.spec.deadlines.quit)
        except subprocess.TimeoutExpired:
            self._qemu.kill()
            rc = self._qemu.wait()
        self._watchdog.join()
        self._dump.wait()
        self._qmp.close()
        return self._verdict or self._watchdog.verdict or self._autopsy(rc)

    def set_link(self, name: str, up: bool) -> None:
        """Plug the cable of a network device in or out.

        :param name: QEMU's id of the device's other end (``-netdev ...,id=``).
        :raises GuestLost: QEMU does not do it.
        """
        if self._qmp.execute("set_link", deadline=QMP_SECONDS, name=name, up=up) is None:
            raise GuestLost(f"QEMU does not set the link {name}", console=self.console_tail())

    def kill(self) -> None:
        """End QEMU at once; what waits for the guest gets GuestLost."""
        self._qemu.kill()

    def close(self) -> None:
        """End QEMU and free everything. May be called again."""
        self._stack.close()
        self._claim.close()

    def _environment(self) -> dict[str, str]:
        env = {names.OUT: str(self.out), **self.spec.env}
        if self.modules:
            env[names.MODULES] = str(self.modules)
        return env

    def _clear_directory(self) -> None:
        """Remove what an earlier guest left; its files would be taken for ours."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        for name in _LEFT:
            (self.directory / name).unlink(missing_ok=True)
        vmcore.remove(self.directory / vmcore.NAME)

    def _make_dump(self) -> vmcore.Dump:
        places = [str(path) for path in (self.modules, self.spec.env.get(names.ULP)) if path]
        about = vmcore.About(self.image.release, places)
        return vmcore.Dump(self.directory, self.spec.memory_mib, about, self._end_in_order)

    def _launch(self, disk: Disk, thaw: int | None = None) -> None:
        pairs = {name: socket.socketpair() for name in (*qemu.PORTS, "qmp")}
        for host, _ in pairs.values():
            self._stack.callback(host.close)
        fds = {name: guest.fileno() for name, (_, guest) in pairs.items()}
        try:
            self._qemu = _SPAWNER.submit(self._spawn, fds, disk, thaw).result()
        finally:
            for _, guest in pairs.values():
                guest.close()
        self._stack.callback(self._end_qemu)
        self._dump = self._make_dump()
        on_panic = self._dump.begin if self.spec.vmcore else None
        self._qmp = QmpLink(pairs["qmp"][0], on_panic)
        self._stack.callback(self._qmp.close)
        self._stack.callback(self._dump.wait)
        self._watchdog = Watchdog(
            pairs["kfabric.heartbeat"][0], self._on_silence, self.spec.deadlines.silence
        )
        self._agent = AgentClient(pairs["kfabric.agent"][0])
        self._stack.callback(self._agent.close)
        self._streams = {"kfabric.xdist": pairs["kfabric.xdist"][0]}
        # Runs first: everything else ends by itself once QEMU has.
        self._stack.callback(self._end_qemu)

    def _spawn(self, fds: dict[str, int], disk: Disk, thaw: int | None) -> subprocess.Popen[bytes]:
        wiring = qemu.Wiring(
            qmp=fds.pop("qmp"),
            ports=fds,
            console=self.console_path,
            source=self._source,
            out=self.out,
            disk=disk,
            thaw=thaw,
        )
        argv = qemu.argv(self.spec, self.image, self.accel, wiring)
        log = self.console_path.with_name("qemu.log")
        with log.open("wb") as errors:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *argv],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=[wiring.qmp, *wiring.ports.values(), *([thaw] if thaw else [])],
                # A terminal's Ctrl-C is for us; we end QEMU in order.
                start_new_session=True,
            )

    def _wait_hello(self, deadline: float) -> None:
        """Wait for the agent for as long as the kernel goes on booting."""
        stall = _STALL_SECONDS * self.image.version.slow
        while time.monotonic() + stall < deadline:
            before = self.console_text()
            if self._said_a_word(stall):
                return
            text = self.console_text()
            if text == before and not splats.init_began(text):
                what = f"the kernel was silent for {stall:g} s"
                raise BootStall(what, console=self.console_tail())
        self._wait_word(deadline)

    def _wait_word(self, deadline: float) -> None:
        """Wait until the agent has done what it was asked for. Raises BootError."""
        if not self._said_a_word(max(0.0, deadline - time.monotonic())):
            what = f"no sign of life after {self.spec.deadlines.boot:g} s"
            raise BootError(what, console=self.console_tail())

    def _said_a_word(self, seconds: float) -> bool:
        """Wait for the agent's word. Raises BootError if the guest has ended."""
        try:
            self._agent.wait_word(seconds)
        except TimeoutError:
            return False
        except StreamEnd:
            end = self.cause()
            raise BootError(f"{end.label}: {end.what}", console=end.console) from None
        return True

    def _on_silence(self) -> GuestError:
        """Called by the watchdog: keep what QEMU knows, then kill it."""
        if self._dump.wait():
            return self._autopsy(0)
        state = self._qmp.execute("query-status", deadline=2.0)
        registers = self._qmp.hmp("info registers -a", deadline=2.0) if state else ""
        if registers:
            self.console_path.with_name("registers.txt").write_text(registers)
        self._qemu.kill()
        seconds = f"{self.spec.deadlines.silence:g}"
        detail = "" if state else ", QEMU does not answer either"
        return GuestHang(f"no heartbeat for {seconds} s{detail}", console=self.console_tail())

    def _autopsy(self, rc: int) -> GuestError:
        text = self.console_text()
        title = splats.panic_title(text)
        if title or self._qmp.panicked:
            told = "\n".join(filter(None, (splats.excerpt(text), self._dump.outcome)))
            return GuestPanic(title or "see the console", console=told)
        errors = self.console_path.with_name("qemu.log").read_text(errors="replace").strip()
        what = f"QEMU ended with status {rc}" + (f": {errors.splitlines()[-1]}" if errors else "")
        return GuestLost(what, console=splats.excerpt(text))

    def _end_in_order(self) -> None:
        """Let a guest that is about to end do so."""
        try:
            self._qemu.wait(self.spec.deadlines.quit)
        except subprocess.TimeoutExpired:
            self._qemu.kill()

    def _end_qemu(self) -> None:
        """Nothing that the guest wrote is kept, so there is nothing to shut down."""
        self._qemu.kill()
        self._qemu.wait()
