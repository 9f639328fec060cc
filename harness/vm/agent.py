# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The agent: PID 1 of the guest, which runs commands for the host and sends a heartbeat.

``vm/init`` starts it from the initrd, before any host directory is mounted: until the host's
BEGIN, all guests of a kind are alike and can be frozen. Each import costs boot time under
TCG, so there are few. The agent never exits: the end of PID 1 panics the kernel, which tells
the host that the agent failed.
"""

import contextlib
import fcntl
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import IO, Any

from kfabric.vm.wire import CHUNK, Decoder, Frame, Kind, encode, pack

PORTS = "/dev/virtio-ports/"
BEAT_SECONDS = 1.0
# Of <linux/random.h>: use what was written to /dev/urandom from now on.
RNDRESEEDCRNG = 0x5207
PREPARED = """
import json, os, socket, sys
exec(sys.argv[1])
sys.argv[1:] = []
orders = socket.socket(fileno=0)
while True:
    orders.send(str(os.getpid()).encode())
    order, files, _, _ = socket.recv_fds(orders, 1 << 20, 3)
    if not order:
        sys.exit()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        break
    if os.fork():
        os._exit(0)
    os.setsid()
    for file in files:
        os.close(file)
orders.close()
for number, file in enumerate(files):
    os.dup2(file, number)
    os.close(file)
order = json.loads(order)
os.chdir(order["cwd"])
os.environ.update(order["env"])
sys.path[1:1] = os.environ["PYTHONPATH"].split(":")
sys.stdin = open(0, closefd=False)
for name in {"random", "numpy.random"} & {*sys.modules}:
    sys.modules[name].seed()
exec(order["code"])
"""
"""A Python that runs a later command's imports in advance, and then becomes that command.

Before that it leaves an heir, a child of PID 1, which becomes the next command, and so on. Guests
that start from one saved guest have copies of it. So its random numbers get a new seed. The seed
of its hashes cannot be changed.
"""
PYTHON = ["python3", "-u", "-c"]
MODULE = """
import runpy, sys
sys.argv[:] = {words}
sys.stdout = open(1, "w", closefd=False)
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""What ``python3 -m`` does."""
OURS = "kfabric."
STDIN_LIMIT = 4 << 20
"""Unread input of one job above which the agent stops reading from the host."""


class Port:
    """The agent's stream to the host; a virtio-serial port opens only once."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def send(self, data: bytes) -> None:
        """Write all of it; blocks while the host does not read."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view) :]


def _open_port(name: str) -> int:
    return os.open(PORTS + name, os.O_RDWR | os.O_CLOEXEC)


Started = tuple[int, int, dict[int, Kind]]
"""A started command: its pid, stdin and outputs."""
Spawn = Callable[[dict[str, Any], dict[str, str]], Started]
"""Starts a command, given its START frame and environment."""


class Job:
    """One command: its process and the pipes that are still open."""

    def __init__(self, number: int, pid: int) -> None:
        self.number = number
        self.pid = pid
        self.outputs: set[int] = set()
        self.stdin = -1
        self.terminal = -1
        self.pending = bytearray()
        self.stdin_closing = False
        self.status: int | None = None


def _popen(argv: list[str], stdio: int, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        stdin=stdio,
        stdout=stdio,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
        **options,
    )


def _spawn_pipes(start: dict[str, Any], env: dict[str, str]) -> Started:
    proc = _popen(start["argv"], subprocess.PIPE, env=env, cwd=start["cwd"])
    stdin, stdout, stderr = (_detach(f) for f in (proc.stdin, proc.stdout, proc.stderr))
    return _disown(proc), stdin, {stdout: Kind.STDOUT, stderr: Kind.STDERR}


def _spawn_port(start: dict[str, Any], env: dict[str, str]) -> Started:
    """Start a command whose stdin and stdout are a virtio-serial port."""
    port = _open_port(start["port"])
    try:
        proc = _popen(start["argv"], port, env=env, cwd=start["cwd"])
    finally:
        os.close(port)
    stderr = _detach(proc.stderr)
    return _disown(proc), -1, {stderr: Kind.STDERR}


class Prepared:
    """Pythons that have run ``code`` and wait for their commands, one after the other."""

    def __init__(self, code: str) -> None:
        import socket  # only a guest that is saved needs it

        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._first = subprocess.Popen(
                [*PYTHON, PREPARED, code],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        self._pid = 0
        if not self.waits():
            assert self._first.stderr is not None
            errors = self._first.stderr.read().decode()
            raise RuntimeError(f"a Python cannot be prepared:\n{errors}")
        _disown(self._first)

    def waits(self) -> bool:
        """Whether there is one; the last one may have just begun to be."""
        self._pid = self._pid or int(self._orders.recv(32) or 0)
        return self._pid > 0

    def become(self, code: str, cwd: str, env: dict[str, str], files: list[int]) -> int:
        """Run a command's code in the one that waits.

        Args:
            files: its standard input, output and error.

        Returns:
            Its pid. The first one is a child of this process, the others are of PID 1.
        """
        import socket

        order = json.dumps({"env": env, "cwd": cwd, "code": code}).encode()
        socket.send_fds(self._orders, [order], files)
        pid, self._pid = self._pid, 0
        return pid


def prepared_code(start: dict[str, Any]) -> str:
    """The code of a command that a prepared Python may become; empty: of no other one."""
    argv = start["argv"]
    if start["port"] and argv[: len(PYTHON)] == PYTHON:
        return str(argv[len(PYTHON)])
    ours = "".join(argv[2:3]).startswith(OURS)
    if argv[:2] == ["python3", "-m"] and ours and not start["pty"]:
        return MODULE.format(words=argv[2:])
    return ""


def _spawn_prepared(prepared: Prepared, start: dict[str, Any], env: dict[str, str]) -> Started:
    """Have a prepared Python become a command, with a port or with pipes."""
    errors, stderr = os.pipe()
    if start["port"]:
        stdin, outputs = -1, {errors: Kind.STDERR}
        port = _open_port(start["port"])
        files = [port, port, stderr]
    else:
        (theirs, stdin), (output, stdout) = os.pipe(), os.pipe()
        outputs = {output: Kind.STDOUT, errors: Kind.STDERR}
        files = [theirs, stdout, stderr]
    try:
        pid = prepared.become(prepared_code(start), start["cwd"], env, files)
    finally:
        for file in {*files}:
            os.close(file)
    return pid, stdin, outputs


def _spawn_terminal(start: dict[str, Any], env: dict[str, str]) -> Started:
    import pty  # only an interactive shell needs it

    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(start["cwd"])
            os.execvpe(start["argv"][0], start["argv"], env)
        except OSError as err:
            os.write(2, f"{start['argv'][0]}: {err.strerror}\r\n".encode())
        os._exit(127)
    os.set_inheritable(terminal, False)
    _resize(terminal, start["rows"], start["cols"])
    return pid, terminal, {terminal: Kind.STDOUT}


def _detach(stream: IO[bytes] | None) -> int:
    """Take a pipe's descriptor out of its file object."""
    assert stream is not None
    fd = os.dup(stream.fileno())
    stream.close()
    return fd


def _disown(proc: subprocess.Popen[bytes]) -> int:
    """Keep ``subprocess`` from waiting for a process that the agent reaps."""
    proc.returncode = 0
    return proc.pid


def _resize(terminal: int, rows: int, cols: int) -> None:
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


class Agent:
    """Serves the host's frames until the host is gone."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._jobs: dict[int, Job] = {}
        self._selector = selectors.DefaultSelector()
        self._decoder = Decoder()
        # Readable when a child has ended.
        children, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._selector.register(port.fd, selectors.EVENT_READ, self._from_host)
        self._selector.register(children, selectors.EVENT_READ, self._reap)
        self._reading = True
        self._prepared: Prepared | None = None

    def serve(self) -> None:
        with open("/proc/uptime", encoding="ascii") as file:
            uptime = float(file.read().split()[0])
        facts = {"kernel": os.uname().release, "python": sys.version.split()[0]}
        self._port.send(pack(Kind.HELLO, 0, uptime=uptime, **facts))
        while True:
            for key, _ in self._selector.select():
                # An earlier handler of this round may have closed it.
                now = self._selector.get_map().get(key.fd)
                if now is not None and now.data == key.data:
                    key.data(key.fd)

    def _from_host(self, fd: int) -> None:
        data = os.read(fd, CHUNK)
        if not data:
            power_off()  # the host is gone
        for frame in self._decoder.feed(data):
            self._handle(frame)

    def _handle(self, frame: Frame) -> None:
        if frame.kind is Kind.START:
            self._start(frame.job, frame.json())
        elif frame.kind is Kind.BEGIN:
            _begin(frame.json())
            self._port.send(encode(Frame(Kind.READY, 0)))
        elif frame.kind is Kind.PREPARE:
            self._prepared = Prepared(frame.json()["code"])
            self._port.send(encode(Frame(Kind.READY, 0)))
        elif job := self._jobs.get(frame.job):
            self._to_job(job, frame)

    def _to_job(self, job: Job, frame: Frame) -> None:
        if frame.kind is Kind.STDIN and job.stdin >= 0:
            job.pending += frame.payload
            job.stdin_closing = job.stdin_closing or not frame.payload
            self._flush_stdin(job)
        elif frame.kind is Kind.SIGNAL and job.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, frame.json()["signal"])
        elif frame.kind is Kind.RESIZE and job.terminal >= 0:
            size = frame.json()
            _resize(job.terminal, size["rows"], size["cols"])

    def _start(self, number: int, start: dict[str, Any]) -> None:
        spawn: Spawn = _spawn_pipes
        if start["pty"]:
            spawn = _spawn_terminal
        elif self._prepared and prepared_code(start) and self._prepared.waits():
            spawn = partial(_spawn_prepared, self._prepared)
        elif start["port"]:
            spawn = _spawn_port
        try:
            pid, stdin, outputs = spawn(start, {**os.environ, **start["env"]})
        except OSError as err:
            text = f"{start['argv'][0]}: {err.strerror}\n"
            self._port.send(encode(Frame(Kind.STDERR, number, text.encode())))
            self._port.send(pack(Kind.EXIT, number, status=127))
            return
        job = self._jobs[number] = Job(number, pid)
        job.stdin = stdin
        job.terminal = stdin if start["pty"] else -1
        if stdin >= 0:
            os.set_blocking(stdin, False)
        for fd, kind in outputs.items():
            job.outputs.add(fd)
            self._selector.register(fd, selectors.EVENT_READ, partial(self._forward, job, kind))

    def _forward(self, job: Job, kind: Kind, fd: int) -> None:
        """Send a job's output to the host; a terminal may also take input now."""
        if fd == job.stdin and job.pending:
            self._flush_stdin(job)
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:  # EIO: the last process on a terminal is gone
            data = b""
        if data:
            self._port.send(encode(Frame(kind, job.number, data)))
        else:
            self._drop(job, fd)

    def _drop(self, job: Job, fd: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)
        job.outputs.discard(fd)
        if fd == job.terminal:
            job.stdin = job.terminal = -1

    def _flush_stdin(self, job: Job, _fd: int = -1) -> None:
        """Write as much as the pipe takes; it is called again for the rest."""
        try:
            while job.pending:
                del job.pending[: os.write(job.stdin, job.pending)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            job.pending.clear()
            job.stdin_closing = True
        self._want_write(job, bool(job.pending))
        if not job.pending and job.stdin_closing and job.terminal < 0:
            os.close(job.stdin)
            job.stdin = -1
        self._throttle()

    def _want_write(self, job: Job, wanted: bool) -> None:
        """Watch a full pipe until it takes more; a terminal is always watched."""
        registered = job.stdin in self._selector.get_map()
        if job.terminal >= 0:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
            self._selector.modify(job.stdin, events, partial(self._forward, job, Kind.STDOUT))
        elif wanted and not registered:
            flush = partial(self._flush_stdin, job)
            self._selector.register(job.stdin, selectors.EVENT_WRITE, flush)
        elif not wanted and registered:
            self._selector.unregister(job.stdin)

    def _throttle(self) -> None:
        """Stop reading from the host while a job does not read its input."""
        want = all(len(job.pending) < STDIN_LIMIT for job in self._jobs.values())
        if want and not self._reading:
            self._selector.register(self._port.fd, selectors.EVENT_READ, self._from_host)
        elif self._reading and not want:
            self._selector.unregister(self._port.fd)
        self._reading = want

    def _reap(self, fd: int) -> None:
        """Collect every dead child, including orphans."""
        os.read(fd, CHUNK)
        by_pid = {job.pid: job for job in self._jobs.values()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if job := by_pid.get(pid):
                job.status = os.waitstatus_to_exitcode(status)
                self._finish(job)

    def _finish(self, job: Job) -> None:
        """Report the exit of a process, after all of its output.

        A surviving child may hold the pipes open. Data that is in them now is forwarded,
        then the job ends.
        """
        for fd in list(job.outputs):
            os.set_blocking(fd, False)
            forward = self._selector.get_key(fd).data
            while fd in job.outputs and select.select([fd], [], [], 0)[0]:
                forward(fd)
        del self._jobs[job.number]
        for fd in list(job.outputs):
            self._drop(job, fd)
        if job.stdin >= 0:
            self._want_write(job, False)
            os.close(job.stdin)
        self._throttle()
        self._port.send(pack(Kind.EXIT, job.number, status=job.status))


def become(name: str, ns: int, seed: str) -> None:
    """Set a guest's name, wall clock and random numbers; all of its kind had the same."""
    time.clock_settime_ns(time.CLOCK_REALTIME, ns)
    # The kernel refuses a new seed until it has a first one.
    os.getrandom(1)
    with open("/dev/urandom", "wb") as file:
        file.write(bytes.fromhex(seed))
        file.flush()
        fcntl.ioctl(file, RNDRESEEDCRNG)
    with open("/proc/sys/kernel/hostname", "w", encoding="ascii") as file:
        file.write(name)


def _begin(begin: dict[str, Any]) -> None:
    """Set what differs between guests of a kind; an error ends the agent, and so the guest."""
    become(begin["name"], begin["ns"], begin["seed"])
    for tag, path, options in begin["mounts"]:
        os.makedirs(path, exist_ok=True)
        how = f"trans=virtio,version=9p2000.L,msize=262144,{options}"
        subprocess.run(["mount", "-t", "9p", "-o", how, tag, path], check=True)
    os.environ["PYTHONPATH"] = begin["pythonpath"]


def _beat() -> None:
    """Write one byte a second; the host takes its absence for a hang."""
    fd = _open_port("kfabric.heartbeat")
    while True:
        os.write(fd, b".")
        time.sleep(BEAT_SECONDS)


def power_off() -> None:
    """End the guest at once: none of its data is kept."""
    with open("/proc/sysrq-trigger", "w", encoding="ascii") as file:
        file.write("o")
    while True:
        signal.pause()


def main() -> None:
    """Serve the host; called by the guest's init."""
    threading.Thread(target=_beat, daemon=True).start()
    Agent(Port(_open_port("kfabric.agent"))).serve()
