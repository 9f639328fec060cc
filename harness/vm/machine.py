# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A disposable QEMU guest: boots it, runs commands in it, and reports how it ended.

    with Vm(spec, image, accel, directory, source) as vm:
        done = vm.run(["uname", "-r"], timeout=10)

Leaving the block ends QEMU. Every wait has a deadline. If the guest ends early, the call
that was waiting raises the matching :class:`~kfabric.errors.GuestError`.
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
from typing import Self

from kfabric import names, root, splats
from kfabric.errors import (
    BootError,
    CommandTimeout,
    GuestError,
    GuestHang,
    GuestLost,
    GuestPanic,
    GuestSplat,
    KfabricError,
    hung,
    starved,
)
from kfabric.vm import argv as qemu
from kfabric.vm import bytecode, cache, frozen, programs, sourcelines, vmcore
from kfabric.vm.argv import Disk
from kfabric.vm.client import AgentClient, RemoteJob, StreamEnd
from kfabric.vm.frozen import FreezeError, Frozen
from kfabric.vm.qmp import QmpLink
from kfabric.vm.spec import Accel, Image, VmSpec
from kfabric.vm.steps import say
from kfabric.vm.watchdog import Watchdog
from kfabric.vm.wire import Kind, Start

# The kernel kills QEMU when the *thread* that started it ends, so one thread that lives as
# long as the process starts them all.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="qemu-spawner")

# Longer than a booting kernel is ever silent, even on a busy host.
_STALL_SECONDS = 40.0
QMP_SECONDS = 10.0
SAVE_SECONDS = 120.0
POLL_SECONDS = 0.05
_ERRORS_KEPT = 4000
_FIRST_CONSOLE = "console.first.log"
_LEFT = ("console.log", _FIRST_CONSOLE, "qemu.log", "registers.txt")
_FROZEN = "frozen"


class EarlyBootError(BootError):
    """The guest's kernel fell silent, or QEMU aborted, before our init was started."""


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
        return self.out.decode(errors="replace")


class Command:
    """A command that runs in the guest; made by :meth:`Vm.popen`.

    Args:
        console: how much the console had printed before the command began.
    """

    def __init__(self, vm: Vm, job: RemoteJob, timeout: float | None, console: int = 0) -> None:
        self._vm = vm
        self._console = console
        self._job = job
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self.errors = b""
        """The end of standard error, as far as :meth:`lines` has read it."""
        self.send = job.send
        self.close_stdin = job.close_stdin
        self.signal = job.signal
        self.resize = job.resize

    @property
    def rc(self) -> int | None:
        """Exit status, None while it runs."""
        return self._job.status

    @property
    def exit_status(self) -> int:
        """Exit status as a shell's: 128+n for signal n. To be read after the end."""
        assert self.rc is not None
        return self.rc if self.rc >= 0 else 128 - self.rc

    def console_tail(self) -> str:
        """The last lines of the console since the command began."""
        return self._vm.console_tail(self._console)

    def output(self) -> Iterator[tuple[bool, bytes]]:
        """The same as :meth:`stream`; True: standard output."""
        return ((kind is Kind.STDOUT, data) for kind, data in self.stream())

    def stream(self) -> Iterator[tuple[Kind, bytes]]:
        """Yield (Kind.STDOUT or Kind.STDERR, bytes) as they come, to the end.

        Raises:
            CommandTimeout: popen's deadline passed; the command is killed.
            GuestError: the guest ended first.
        """
        try:
            yield from self._job.frames(self._deadline)
        except TimeoutError:
            self._job.signal(signal.SIGKILL)
            what = f"{' '.join(self._job.argv)}: not done after {self._timeout:g} s"
            raise CommandTimeout(what, starved(), self.console_tail()) from None
        except StreamEnd:
            raise self._vm.cause() from None

    def lines(self) -> Iterator[str]:
        """Yield complete lines of standard output; keeps the end of standard error."""
        rest = b""
        for kind, data in self.stream():
            if kind is Kind.STDERR:
                self.errors = (self.errors + data)[-_ERRORS_KEPT:]
            else:
                *complete, rest = (rest + data).split(b"\n")
                for line in complete:
                    yield line.decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")

    def wait(self) -> Completed:
        output = {Kind.STDOUT: bytearray(), Kind.STDERR: bytearray()}
        for kind, data in self.stream():
            output[kind] += data
        assert self._job.status is not None
        out, err = map(bytes, output.values())
        return Completed(self._job.argv, self._job.status, out, err)


class Vm:
    """A guest; a context manager that starts and ends it.

    Args:
        directory: gets ``console.log`` and ``out/`` (writable for the guest, at the same
            path); made if missing, kept afterwards.
        source: the checkout; read-only in the guest, at the same path.
    """

    def __init__(
        self, spec: VmSpec, image: Image, accel: Accel, directory: Path, source: Path
    ) -> None:
        self.spec = spec.on(image.version)
        self.image = image
        self._accel = accel
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

    @property
    def accel(self) -> Accel:
        """What runs it: plugins and counted instructions are TCG's."""
        return Accel.TCG if self.spec.plugin or self.spec.icount else self._accel

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Boot, or thaw a frozen guest of the same kind, until commands can run.

        A guest that does not get as far as our init for a reason that may be QEMU's is booted once
        more, and a line says so. ``console.first.log`` has the first console. With TCG there are
        two such reasons: before QEMU 8.1, in one boot of some hundreds, a CPU loops on a breakpoint
        which the kernel has removed; QEMU 10.0 may abort while the kernel moves the registers of
        PCI devices.

        Raises:
            SetupError: a path cannot be passed to the guest, or another guest uses the
                directory.
            BootError: the guest ended, or was not ready in ``spec.deadlines.boot`` seconds.
        """
        for path in (self._source, self.out, *self.spec.shares, *self.spec.live):
            cache.require_plain(path)
        bytecode.packages(self._source, self.image)
        # A second run at the same time would remove the files that the first one writes.
        self._claim.enter_context(cache.locked(self.directory / "lock", deadline=0.0))
        self._claim.callback(programs.take, self.out, self._programs)
        try:
            self._clear_directory()
            began = time.monotonic()
            if not (self._can_freeze() and self._thaw()):
                self._boot(Disk(self.image.disk))
                self._begin()
            self.boot_seconds = time.monotonic() - began
        except BaseException:
            self.close()
            raise

    def _can_freeze(self) -> bool:
        """Whether a guest that was saved for others would do: it has no arguments of its own."""
        return not (self.spec.qemu or self.spec.icount)

    def _thaw(self) -> bool:
        """Resume from a frozen guest of this kind; False if that is not possible."""
        found = self._ensure_frozen()
        if found is None:
            return False
        try:
            shutil.copyfile(found.console, self.console_path)
            if self.splats():
                raise BootError("its kernel complained before it was saved")
            with found.state.open("rb") as state:
                self._launch(Disk(found.disk, "qcow2"), state.fileno())
            self._begin()
        except (BootError, OSError):
            found.discard()
            self._verdict = None
            self._clear_directory()
            return False
        return True

    def _ensure_frozen(self) -> Frozen | None:
        """The frozen guest of this kind, made if there is none; None if it cannot be made.

        Freezing only saves time: without it the guest boots, and a line prints the reason. A
        BootError of the guest to freeze passes, because this guest would not boot either.
        """
        kind = qemu.kind(self.spec, self.image, self.accel)
        try:
            name = frozen.key([*kind, *(tag for tag, _ in qemu.shares(self.spec))])
            return frozen.ensure(self.image.disk.parent / _FROZEN, name, self._freeze)
        except BootError:
            raise
        except (KfabricError, OSError, subprocess.SubprocessError) as error:
            why = error.line() if isinstance(error, KfabricError) else str(error)
            what = f"{self.spec.name} boots, since it cannot be saved for later guests"
            print(f"kfabric: {what}: {why}", file=sys.stderr, flush=True)
            return None

    def _freeze(self, target: Frozen) -> None:
        """Boot another guest like this one, and save it; raises BootError or FreezeError."""
        say("no guest of this kind is saved: booting one, to save it")
        other = Vm(self.spec, self.image, self.accel, target.directory, self._source)
        # self.spec has the kernel's requirements already. A frozen guest needs neither.
        other.spec = replace(self.spec, vmcore=False, plugin=None)
        other.out.mkdir()
        frozen.make_disk(self.image.disk, target.disk)
        try:
            other._boot(Disk(target.disk, "qcow2", keep=True))
            other._prepare()
            other._save(target.state)
        finally:
            other.close()

    def _prepare(self) -> None:
        """Run the imports of a test process in the guest; raises FreezeError."""
        self._agent.prepare(frozen.PREPARATION)
        try:
            self._wait_reply(time.monotonic() + self.spec.deadlines.boot)
        except BootError as error:
            what = f"its Python imports did not end: {error.what}"
            raise FreezeError(what, error.hint, error.console) from None

    def _boot(self, disk: Disk) -> None:
        """Start the kernel and wait for the agent; an early failure gets a second chance."""
        began = time.monotonic()
        try:
            with self._closing_on_failure():
                self._launch(disk)
                self._wait_hello(began + self.spec.deadlines.boot)
        except EarlyBootError as error:
            first = self.directory / _FIRST_CONSOLE
            if first.exists():
                raise
            say(f"{self.spec.name} did not boot, and is booted once more: {error.what}")
            # QEMU may have aborted before it made one.
            self.console_path.touch()
            self.console_path.rename(first)
            self._verdict = None
            self._boot(disk)

    def _begin(self) -> None:
        with self._closing_on_failure():
            mounts = qemu.mounts(self.spec, self._source, self.out)
            mounts += qemu.kernel_mounts(self.image)
            self._agent.begin(self.spec.name, mounts, root.python_path(self._source))
            self._wait_reply(time.monotonic() + self.spec.deadlines.boot)
            self._watchdog.arm()
            if self.spec.vmcore:
                self._pause_on_panic()

    def _pause_on_panic(self) -> None:
        """Have QEMU pause a guest that panics, frozen before or not, and read its vmcoreinfo."""
        if self._qmp.execute("set-action", deadline=QMP_SECONDS, panic="pause") is None:
            raise BootError("QEMU cannot pause a guest that panics")
        info = self.run(["cat", vmcore.VMCOREINFO], timeout=self.spec.deadlines.boot)
        self._dump.info = vmcore.Region.parse(info.text)

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        """End QEMU if the guest does not start, and keep the reason."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, BootError):
                self._verdict = error
            self._stack.close()
            raise

    def _save(self, target: Path) -> None:
        """Write memory and devices to a file, which ends the guest; raises FreezeError.

        The guest runs until then: if it was stopped first, it would be stopped after the thaw.
        """
        limit = {"max-bandwidth": 1 << 40}
        self._qmp.execute("migrate-set-parameters", deadline=QMP_SECONDS, **limit)
        # The file appears once it is complete.
        uri = f"exec:cat >{target}.part && mv {target}.part {target}"
        if self._qmp.execute("migrate", deadline=QMP_SECONDS, uri=uri) is None:
            raise FreezeError("QEMU refuses to save it", console=self.console_tail())
        deadline = time.monotonic() + SAVE_SECONDS
        while not target.exists():
            if time.monotonic() >= deadline or not self.alive:
                raise FreezeError("QEMU does not save it", starved(), self.console_tail())
            time.sleep(POLL_SECONDS)

    def run(
        self,
        argv: Sequence[str],
        timeout: float | None = 60.0,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        stdin: bytes = b"",
    ) -> Completed:
        """Run a command to its end, for at most ``timeout`` seconds.

        Raises:
            CommandTimeout: it was not done in time, and was killed.
            GuestError: the guest ended first.
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

        Args:
            pty: (rows, columns) of a terminal for it, instead of pipes.
            port: virtio-serial port to use as its stdin and stdout; :meth:`open_stream` has
                the host's end.
        """
        rows, cols = pty or (24, 80)
        own = {names.OUT: str(self.out), **programs.environment(self.out), **self.spec.env}
        if self.modules:
            own[names.MODULES] = str(self.modules)
        start: Start = {
            "argv": list(argv),
            "env": {**own, **(env or {})},
            "cwd": cwd,
            "pty": pty is not None,
            "rows": rows,
            "cols": cols,
            "port": port,
        }
        console = self.console_size()
        return Command(self, self._agent.start(start), timeout, console)

    def open_stream(self, name: str) -> socket.socket:
        """The host's end of a virtio-serial port, a connected stream socket.

        Closing it is an end of file in the guest.
        """
        return self._streams[name]

    @property
    def here(self) -> str:
        """The directory for commands of the user."""
        return str(self.spec.here or self._source)

    @property
    def alive(self) -> bool:
        return self._qemu.poll() is None

    @property
    def modules(self) -> Path | None:
        """Directory of the kernel modules, same path on host and guest."""
        if self.spec.variant is None:
            return None
        return self._source / "build/kmod" / self.image.builds / self.spec.variant.value

    @property
    def _programs(self) -> Path:
        """The compiled probes for the image's kernel."""
        return self.image.disk.parent / programs.NAME

    def console_size(self) -> int:
        """How many bytes the console has printed so far."""
        try:
            return self.console_path.stat().st_size
        except FileNotFoundError:
            return 0

    def console_text(self, since: int = 0) -> str:
        """The console's output, without its first ``since`` bytes."""
        try:
            with self.console_path.open(errors="replace") as file:
                file.seek(since)
                return file.read()
        except FileNotFoundError:
            return ""

    def console_tail(self, since: int = 0) -> str:
        return self.with_lines(splats.tail(self.console_text(since)))

    def splats(self) -> list[splats.Splat]:
        """The kernel's reports about itself so far."""
        found = splats.splats(self.console_text())
        return [replace(splat, text=self.with_lines(splat.text)) for splat in found]

    def with_lines(self, text: str) -> str:
        """A part of the kernel log, with lines of source for the frames of the user's modules."""
        built = self.spec.env.get(names.MODULE_DIR)
        return sourcelines.add(text, Path(built)) if built else text

    def require_no_splat(self) -> None:
        """Raise GuestSplat if the kernel has reported an error."""
        for splat in self.splats():
            raise GuestSplat(splat.title, console=splat.text)

    def cause(self) -> GuestError:
        """Why the guest ended, once a stream to it has ended; waits for QEMU's end."""
        rc = self._wait_qemu()
        self._watchdog.join()
        self._dump.wait()
        self._qmp.close()
        return self._verdict or self._watchdog.verdict or self._autopsy(rc)

    def plug(self, up: bool) -> None:
        """Plug or unplug the cable of ``spec.wire``; raises GuestLost if QEMU fails."""
        if self._qmp.execute("set_link", deadline=QMP_SECONDS, name=qemu.NET, up=up) is None:
            raise GuestLost("QEMU does not set the link", starved(), self.console_tail())

    def kill(self) -> None:
        """End QEMU at once; a call that waits for the guest raises GuestLost."""
        self._qemu.kill()

    def close(self) -> None:
        """End QEMU and free everything. May be called again."""
        self._stack.close()
        self._claim.close()

    def _clear_directory(self) -> None:
        """Remove the files of an earlier guest, which could be mistaken for this one's."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        programs.give(self._programs, self.out)
        for name in _LEFT:
            (self.directory / name).unlink(missing_ok=True)
        vmcore.remove(self.directory / vmcore.NAME)

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
        places = [str(path) for path in (self.modules, self.spec.env.get(names.MODULE_DIR)) if path]
        about = vmcore.About(self.image.release, places)
        self._dump = vmcore.Dump(self.directory, self.spec.memory_mib, about, self._wait_qemu)
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
        # This callback runs first: everything else ends by itself once QEMU has ended.
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
                # A terminal's Ctrl-C must not reach QEMU, which we end ourselves.
                start_new_session=True,
            )

    def _wait_hello(self, deadline: float) -> None:
        """Wait for the agent while the kernel makes progress."""
        stall = _STALL_SECONDS * self.image.version.slow
        while time.monotonic() + stall < deadline:
            before = self.console_text()
            if self._replied(stall):
                return
            text = self.console_text()
            if text == before and not splats.init_began(text):
                what = f"the kernel was silent for {stall:g} s"
                raise EarlyBootError(what, starved(), self.console_tail())
        self._wait_reply(deadline)

    def _wait_reply(self, deadline: float) -> None:
        """Wait for the agent's reply to a request; raises BootError."""
        if not self._replied(max(0.0, deadline - time.monotonic())):
            what = f"no sign of life after {self.spec.deadlines.boot:g} s"
            raise BootError(what, starved(), self.console_tail())

    def _replied(self, seconds: float) -> bool:
        """Whether the agent replies in time; raises BootError if the guest has ended."""
        try:
            self._agent.wait_reply(seconds)
        except TimeoutError:
            return False
        except StreamEnd:
            end = self.cause()
            what = f"{end.label}: {end.what}"
            kind = EarlyBootError if self._aborted_early() else BootError
            raise kind(what, end.hint, end.console) from None
        return True

    def _aborted_early(self) -> bool:
        """Whether QEMU has ended itself before our init was started."""
        aborted = self._qemu.returncode == -signal.SIGABRT
        return aborted and not splats.init_began(self.console_text())

    def _on_silence(self) -> GuestError:
        """Called by the watchdog: save the registers, then kill QEMU."""
        if self._dump.wait():
            return self._autopsy(0)
        state = self._qmp.execute("query-status", deadline=2.0)
        if state:
            self.console_path.with_name("registers.txt").write_text(self._registers())
        self._qemu.kill()
        seconds = f"{self.spec.deadlines.silence:g}"
        detail = "" if state else ", QEMU does not answer either"
        tail = self.console_tail()
        return GuestHang(f"no heartbeat for {seconds} s{detail}", hung(tail), tail)

    def _registers(self) -> str:
        """Each CPU's registers and, from its instruction pointer on, the memory."""
        return "\n".join(
            self._qmp.hmp(line, deadline=2.0, cpu=cpu)
            for cpu in range(self.spec.cpus)
            for line in ("info registers", "x/8xb $pc")
        )

    def _autopsy(self, rc: int) -> GuestError:
        text = self.console_text()
        title = splats.panic_title(text)
        if title or self._qmp.panicked:
            report = self.with_lines(splats.excerpt(text))
            console = "\n".join(filter(None, (report, self._dump.outcome)))
            hint = starved() if splats.is_of_time(title) else ""
            return GuestPanic(title or "see the console", hint, console)
        errors = self.console_path.with_name("qemu.log").read_text(errors="replace").strip()
        what = f"QEMU ended with status {rc}" + (f": {errors.splitlines()[-1]}" if errors else "")
        return GuestLost(what, starved(), splats.excerpt(text))

    def _wait_qemu(self) -> int:
        """Wait for a QEMU that is about to end; its exit status."""
        try:
            return self._qemu.wait(self.spec.deadlines.quit)
        except subprocess.TimeoutExpired:
            self._qemu.kill()
            return self._qemu.wait()

    def _end_qemu(self) -> None:
        """Kill QEMU. None of the guest's writes are kept, so there is no shutdown."""
        self._qemu.kill()
        self._qemu.wait()
