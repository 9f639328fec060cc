# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Agent and client on one socket pair: a command's output arrives complete.

The agent runs here as a process of the host, since nothing but its ports needs a
guest. It is killed at the end of each test.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import pytest

from kfabric.terminal import streams
from kfabric.vm import client
from kfabric.vm.agent import MODULE, Prepared, prepared_code
from kfabric.vm.client import AgentClient, RemoteJob, StreamEnd
from kfabric.vm.wire import Kind, Start, pack

SECONDS = 20.0
"""Only ends a test that hangs."""
SERVE = (
    "import sys; from kfabric.vm.agent import Agent, Port; Agent(Port(int(sys.argv[1]))).serve()"
)


@pytest.fixture
def agent() -> Iterator[AgentClient]:
    """A client whose agent has sent HELLO."""
    with served() as client:
        yield client


@contextlib.contextmanager
def served(console: IO[bytes] | None = None) -> Iterator[AgentClient]:
    """An agent, and the client to which it has sent HELLO."""
    ours, theirs = socket.socketpair()
    source = Path(__file__).parents[2]
    argv = [sys.executable, "-c", SERVE, str(theirs.fileno())]
    fds = [theirs.fileno()]
    with subprocess.Popen(argv, cwd=source, pass_fds=fds, stderr=console) as process:
        theirs.close()
        client = AgentClient(ours)
        try:
            assert client.wait_reply(SECONDS) is Kind.HELLO
            yield client
        finally:
            process.kill()
            client.close()


def start(agent: AgentClient, *argv: str, pty: bool = False, cwd: str = "/") -> RemoteJob:
    """Start a command."""
    request: Start = {
        "argv": list(argv),
        "env": {"KF_TEST": "value"},
        "cwd": cwd,
        "pty": pty,
        "rows": 30,
        "cols": 100,
        "port": "",
    }
    return agent.start(request)


def finish(job: RemoteJob) -> tuple[int | None, bytes, bytes]:
    """Exit status, standard output and standard error."""
    parts = {Kind.STDOUT: b"", Kind.STDERR: b""}
    for kind, data in job.frames(time.monotonic() + SECONDS):
        parts[kind] += data
    return job.status, parts[Kind.STDOUT], parts[Kind.STDERR]


def test_output_and_status_come_back_apart(agent: AgentClient) -> None:
    job = start(agent, "sh", "-c", "echo out; echo err >&2; exit 7")
    job.close_stdin()
    assert finish(job) == (7, b"out\n", b"err\n")


def test_a_signal_is_a_negative_status(agent: AgentClient) -> None:
    assert finish(start(agent, "sh", "-c", "kill -TERM $$"))[0] == -signal.SIGTERM


def test_a_command_that_cannot_run_is_127(agent: AgentClient) -> None:
    status, _, err = finish(start(agent, "/no/such/command"))
    assert status == 127
    assert b"/no/such/command: No such file" in err


def test_environment_and_directory_are_the_requested_ones(agent: AgentClient) -> None:
    job = start(agent, "sh", "-c", "echo $KF_TEST; pwd", cwd="/usr")
    assert finish(job)[1] == b"value\n/usr\n"


def test_input_longer_than_a_pipe_arrives_whole(agent: AgentClient) -> None:
    data = bytes(range(256)) * 4096
    job = start(agent, "cat")
    job.send(data)
    job.close_stdin()
    assert finish(job) == (0, data, b"")


def test_standard_input_is_passed_on_to_its_end(
    agent: AgentClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the agent takes at once."""
    data = bytes(range(256)) * 4096
    (tmp_path / "input").write_bytes(data)
    job = start(agent, "cat")
    with (tmp_path / "input").open() as source:
        monkeypatch.setattr(sys, "stdin", source)
        streams.feed(job.send, job.close_stdin)
        assert finish(job) == (0, data, b"")


@pytest.mark.parametrize("closed", [False, True])
def test_without_standard_input_a_command_reads_an_end_of_file(
    closed: bool, agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python has none if descriptor 0 was closed; a program may have closed it later."""
    source = open("/dev/null")
    source.close()
    monkeypatch.setattr(sys, "stdin", source if closed else None)
    job = start(agent, "cat")
    streams.feed(job.send, job.close_stdin)
    assert finish(job) == (0, b"", b"")


def test_terminal_is_not_read(agent: AgentClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command reads an end of file, although the terminal has a line."""
    host, terminal = os.openpty()
    with open(host, "wb", buffering=0) as keys, open(terminal) as source:
        keys.write(b"a line\n")
        monkeypatch.setattr(sys, "stdin", source)
        job = start(agent, "cat")
        streams.feed(job.send, job.close_stdin)
        assert finish(job) == (0, b"", b"")


def test_signal_does_not_wait_for_input_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's time limit ends it although its input is stuck."""
    monkeypatch.setattr(client, "SIGNAL_SECONDS", 0.01)
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stuck = AgentClient(ours)
    job = start(stuck, "sleep", "1000")
    sender = threading.Thread(target=job.send, args=[bytes(1 << 20)])
    killer = threading.Thread(target=job.signal, args=[signal.SIGKILL])
    sender.start()
    try:
        # The sender holds it from its first frame on, which is longer than the buffer.
        while not stuck._sending.locked():
            time.sleep(0)
        killer.start()
        killer.join(SECONDS)
        assert not killer.is_alive() and sender.is_alive()
    finally:
        theirs.close()
        sender.join(SECONDS)
        killer.join(SECONDS)
        stuck.close()


def test_unread_input_of_one_job_does_not_stop_another(agent: AgentClient) -> None:
    stuck = start(agent, "sleep", "1000")
    stuck.send(bytes(1 << 20))
    assert finish(start(agent, "echo", "on"))[1] == b"on\n"
    stuck.signal(signal.SIGKILL)
    assert finish(stuck)[0] == -signal.SIGKILL


def test_all_output_comes_before_the_exit(agent: AgentClient) -> None:
    status, out, _ = finish(start(agent, "sh", "-c", "yes | head -c 3000000"))
    assert (status, len(out)) == (0, 3000000)


def test_a_background_process_does_not_hold_up_the_exit(agent: AgentClient) -> None:
    """It holds the pipes open; only the end of the command itself counts."""
    job = start(agent, "sh", "-c", "sleep 1000 & echo $!")
    status, out, _ = finish(job)
    assert status == 0
    assert finish(start(agent, "kill", out.decode().strip()))[0] == 0


def test_jobs_run_at_the_same_time(agent: AgentClient) -> None:
    """The first one ends only because the second one runs."""
    first = start(agent, "sh", "-c", "read line; echo got $line")
    second = start(agent, "echo", "hello")
    first.send(finish(second)[1])
    assert finish(first)[1] == b"got hello\n"


def test_a_signal_reaches_the_whole_group(agent: AgentClient) -> None:
    job = start(agent, "sh", "-c", "sleep 1000 | sleep 1000")
    job.signal(signal.SIGTERM)
    assert finish(job)[0] == -signal.SIGTERM


def test_a_terminal_has_the_requested_size(agent: AgentClient) -> None:
    status, out, _ = finish(start(agent, "stty", "size", pty=True))
    assert (status, out.strip()) == (0, b"30 100")


def test_a_terminal_takes_input(agent: AgentClient) -> None:
    job = start(agent, "sh", "-c", "read line; exit $line", pty=True)
    job.send(b"5\n")
    assert finish(job)[0] == 5


def test_a_deadline_ends_the_wait_and_not_the_job(agent: AgentClient) -> None:
    job = start(agent, "sh", "-c", "read line; exit 3")
    with pytest.raises(TimeoutError):
        list(job.frames(time.monotonic()))
    job.send(b"\n")
    assert finish(job)[0] == 3


class SlowSocket:
    """A socket on which sending blocks until the test continues it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.sending = threading.Event()
        self.go = threading.Event()

    def sendall(self, data: bytes) -> None:
        self.sending.set()
        assert self.go.wait(SECONDS)
        self._sock.sendall(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def test_what_arrives_is_read_while_a_send_is_stuck() -> None:
    """The guest reads nothing before it has written its own output."""
    ours, theirs = socket.socketpair()
    slow = SlowSocket(ours)
    client = AgentClient(cast(socket.socket, slow))
    slow.go.set()
    job = start(client, "true")
    slow.go.clear()
    slow.sending.clear()
    sender = threading.Thread(target=job.send, args=(b"input",))
    sender.start()
    assert slow.sending.wait(SECONDS)
    theirs.sendall(pack(Kind.EXIT, 1, status=0))
    try:
        assert finish(job)[0] == 0
    finally:
        slow.go.set()
        sender.join()
        client.close()
        theirs.close()


def test_the_end_of_the_stream_ends_every_wait(agent: AgentClient) -> None:
    job = start(agent, "sleep", "1000")
    agent.close()
    for later in (job, start(agent, "true")):
        with pytest.raises(StreamEnd):
            finish(later)


def test_a_python_that_cannot_be_prepared_reports_why(tmp_path: Path) -> None:
    """On the console, because the agent ends."""
    console = tmp_path / "console"
    with console.open("wb") as file, served(file) as agent:
        agent.prepare("raise ValueError('no bread')")
        with pytest.raises(StreamEnd):
            agent.wait_reply(SECONDS)
    assert "ValueError: no bread" in console.read_text()


def run(python: Prepared, code: str) -> str:
    """What a prepared Python prints when it becomes a command."""
    output, stdout = os.pipe()
    env = {"PYTHONPATH": "", "PATH": os.environ["PATH"]}
    python.become(code, "/", env, [stdout, stdout, stdout])
    os.close(stdout)
    with open(output, encoding="utf-8") as file:
        return file.read()


def prepared(code: str, wanted: str) -> str:
    """What a Python that was prepared by some code prints of an expression."""
    return run(Prepared(code), f"print({wanted}, flush=True)")


def test_each_command_gets_a_python_that_was_prepared() -> None:
    """In a session of its own, so that a signal to one command ends no other one."""
    python = Prepared("bread = 1")
    seen = []
    for _ in range(3):
        assert python.waits()
        seen.append(run(python, "import os; print(bread, os.getpid(), os.getsid(0))").split())
    assert [words[0] for words in seen] == ["1", "1", "1"]
    assert all(pid == session for _, pid, session in seen)
    assert len({pid for _, pid, _ in seen}) == 3


def test_no_command_waits_for_a_python_that_was_killed() -> None:
    """It is run as if none had been prepared."""
    python = Prepared("")
    os.kill(python._pid, signal.SIGKILL)
    os.waitpid(python._pid, 0)
    python._pid = 0
    assert not python.waits()


@pytest.mark.parametrize(
    ("argv", "port", "pty", "taken"),
    [
        (["python3", "-m", "kfabric.guest.usermodule", "-u"], "", False, True),
        (["python3", "-m", "kfabric.guest.usermodule"], "", True, False),
        (["python3", "-m", "pytest"], "", False, False),
        (["python3", "-m"], "", False, False),
        (["python3", "-u", "-c", "1"], "xdist", False, True),
        (["python3", "-u", "-c", "1"], "", False, False),
        (["true"], "", False, False),
    ],
)
def test_commands_of_the_harness_are_run_by_a_prepared_python(
    argv: list[str], port: str, pty: bool, taken: bool
) -> None:
    """Those of a user find a Python without modules that they have not imported."""
    assert bool(prepared_code({"argv": argv, "port": port, "pty": pty})) is taken


def test_prepared_python_runs_a_module_as_python_does(tmp_path: Path) -> None:
    """With its arguments, as __main__, and with its status."""
    (tmp_path / "bread.py").write_text("import sys; print(__name__, sys.argv); sys.exit(3)")
    code = MODULE.format(words=["bread", "-u"])
    assert run(Prepared(f"import sys; sys.path.append({str(tmp_path)!r})"), code) == (
        f"__main__ ['{tmp_path}/bread.py', '-u']\n"
    )


def test_python_that_was_prepared_draws_new_random_numbers() -> None:
    """It was saved with its seed, and guests start from copies of it."""
    expected = random.Random(7).random()
    drawn = prepared("import random; random.seed(7)", "random.random()")
    assert 0 <= float(drawn) < 1
    assert float(drawn) != expected


def test_only_generators_that_are_imported_get_a_new_seed() -> None:
    """An import takes time. A session that has numpy's gets that one seeded as well."""
    generator = "types.SimpleNamespace(seed=lambda: calls.append(1))"
    code = f"import sys, types; calls = []; sys.modules['numpy.random'] = {generator}"
    assert prepared(code, "calls") == "[1]\n"
    assert prepared("", "'numpy.random' in sys.modules") == "False\n"
