# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests on other machines: data through the connection, and the end of it.

The other machine is a process here, its guest another; tests/vm has an sshd and a kernel.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import execnet
import pytest

from kfabric.errors import BootError, ExitStatus, GuestLost, GuestPanic, SetupError
from kfabric.root import python_path
from kfabric.runner import far, farside
from kfabric.runner.far import FarError, FarGuest

ROOT = Path(__file__).parents[2]
FAKE = f"""
import sys; sys.path[:0] = {python_path(ROOT).split(os.pathsep)!r}
from kfabric.runner import farside
from tests.unit.support import fake_guest
farside.serve(channel, fake_guest.boot)
"""
SECONDS = 20.0


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarGuest]:
    """A guest on the other machine, not booted."""
    monkeypatch.setattr(farside, "SAME", ("harness",))
    popen = execnet.XSpec(f"popen//python={sys.executable}")
    guest = FarGuest(popen, tmp_path / "guest", FAKE)
    yield guest
    guest.close()


@pytest.fixture
def booted(guest: FarGuest, monkeypatch: pytest.MonkeyPatch) -> FarGuest:
    """The same after it has booted. The machines are not compared."""
    monkeypatch.setattr(FarGuest, "manifest", lambda self, tested: None)
    guest.boot("guest0.0", None)
    return guest


def work(guest: FarGuest, source: str) -> far.FarCommand:
    """Run Python on the guest's port."""
    return guest.popen(["python3", "-c", source], cwd="/", port="port")


def rest(stream: socket.socket) -> bytes:
    """All remaining data."""
    stream.settimeout(SECONDS)
    parts = iter(lambda: stream.recv(1 << 16), b"")
    return b"".join(parts)


def test_bytes_go_both_ways_and_the_last_ones_arrive(booted: FarGuest) -> None:
    """The command's end arrives after all of its output."""
    stream = booted.open_stream("port")
    command = work(booted, "import sys; print(sys.stdin.readline() * 20000, end=''); sys.exit(3)")
    stream.sendall(b"a line\n")
    assert command.wait().rc == 3
    booted.close()
    assert rest(stream) == b"a line\n" * 20000


def test_panic_there_is_a_panic_here(booted: FarGuest) -> None:
    """With the kernel's reason, and its console."""
    line = "[    9.0] Kernel panic - not syncing: far away\\n"
    kill = "os.kill(os.getpid(), 9)"
    booted.open_stream("port")
    command = work(
        booted, f"import os; open(os.environ['FAKE_CONSOLE'], 'a').write('{line}'); {kill}"
    )
    with pytest.raises(GuestPanic, match="far away") as panic:
        command.wait()
    assert "Kernel panic" in panic.value.console
    assert "far away" in booted.console_tail()


def test_killed_guest_is_lost(booted: FarGuest) -> None:
    booted.open_stream("port")
    command = work(booted, "import sys; sys.stdin.read()")
    booted.kill()
    with pytest.raises(GuestLost):
        command.wait()


def test_lost_connection_ends_what_waits_for_the_guest(booted: FarGuest) -> None:
    """And later calls do not wait either."""
    booted.open_stream("port")
    command = work(booted, "import os, signal; os.kill(os.getppid(), signal.SIGKILL)")
    with pytest.raises(GuestLost, match=r"connection to .* has ended"):
        command.wait()
    with pytest.raises(GuestLost):
        booted.run(["true"], timeout=1.0)
    with pytest.raises(GuestLost):
        booted.splats()
    assert booted.console_text() == ""


def test_console_is_kept_on_this_machine(booted: FarGuest, tmp_path: Path) -> None:
    """Here both are the same machine, so the other one's is moved away first."""
    booted.run(["hello"], timeout=1.0)
    text = booted.console_text()
    assert text == "ran hello\n"
    booted._directory = tmp_path / "here"
    booted.close()
    assert (tmp_path / "here/console.log").read_text() == text


def test_lines_of_source_are_found_there(booted: FarGuest) -> None:
    """Where the module was built."""
    assert booted.with_lines("f+0x1/0x2 [mine]") == "f+0x1/0x2 [mine] (mine.c:7)"


def test_machines_must_have_the_same_files(guest: FarGuest, monkeypatch) -> None:
    """Otherwise different versions of a test could run."""
    theirs = {"/k/tests/test_a.py": "0", "/k/tests/test_b.py": "0"}
    monkeypatch.setattr(FarGuest, "manifest", lambda self, tested: theirs)
    with pytest.raises(SetupError, match=r"files differ between the machines: ") as error:
        guest.boot("guest0.0", None)
    assert "copy the checkout" in error.value.hint


def test_manifest_has_what_is_written_and_not_what_is_made(tmp_path: Path) -> None:
    for name in ("a.py", ".hidden", "build/x", "__pycache__/a.pyc", "d/b.c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = farside.manifest([tmp_path])
    assert sorted(found) == [f"{tmp_path}/a.py", f"{tmp_path}/d/b.c"]


def test_failed_boot_names_the_machine(guest: FarGuest, monkeypatch) -> None:
    monkeypatch.setattr(FarGuest, "manifest", lambda self, tested: None)
    with pytest.raises(BootError, match=r"popen.*: no sign of life") as error:
        guest.boot("never", None)
    assert error.value.console == "the last words of init"


def test_machine_without_such_a_python_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no Python answers"):
        FarGuest(execnet.XSpec("popen//python=false"), tmp_path)


def test_one_specification_may_mean_several_guests() -> None:
    """As for pytest-xdist; the same Python is meant unless another one is named."""
    found = far.expand(["2*ssh=root@a.example -p 22//ssh_config=/c", "ssh=b//python=/usr/bin/p"])
    assert [far.host(spec) for spec in found] == ["a.example", "a.example", "b"]
    assert [spec.python for spec in found] == [sys.executable, sys.executable, "/usr/bin/p"]
    assert found[0].ssh_config == "/c"


@pytest.mark.parametrize("text", ["popen", "3*popen", "socket=a:1", "x*ssh=a"])
def test_only_ssh_is_understood(text: str) -> None:
    with pytest.raises(FarError):
        far.expand([text])


SHIM = """#!/bin/sh
# What the other machine's sshd would do with the last argument.
for command; do :; done
exec sh -c "$command"
"""
CUSTOMIZE = """
import sys
if "kfabric" not in sys.modules:
    from kfabric.runner import testvm
    from tests.unit.support import fake_guest
    testvm.boot = lambda name, directory, tested=None: fake_guest.boot(name, directory, tested)
"""
TOYS = """
import os, signal

def test_a(): pass

def test_b():
    with open(os.environ["FAKE_CONSOLE"], "a") as console:
        console.write("[    9.0] Kernel panic - not syncing: Fatal exception\\n")
    os.kill(os.getpid(), signal.SIGKILL)

def test_c(): pass
"""


@pytest.fixture
def through_shim(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Run the toys with guests that a fake ssh connects to."""
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path}/custom{os.pathsep}{python_path(ROOT)}")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PATH", str(pytester.path), prepend=os.pathsep)
    shim = pytester.path / "ssh"
    shim.write_text(SHIM)
    shim.chmod(0o755)
    (pytester.path / "custom").mkdir()
    (pytester.path / "custom/sitecustomize.py").write_text(CUSTOMIZE)
    pytester.makepyfile(test_toy=TOYS)

    def run(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            *(
                "-p",
                "kfabric.runner.plugin",
                "-p",
                "tests.unit.support.fake_guest",
                "--kfabric-dir=guests",
            ),
            *arguments,
            timeout=90,
        )

    return run


def test_tests_of_one_run_go_to_both_machines(through_shim) -> None:
    """A panic there fails its test, and a new guest is booted there for the others."""
    result = through_shim("--kfabric-vms=1", "--kfabric-tx=ssh=root@other")
    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == ExitStatus.TEST_FAILED
    result.stdout.fnmatch_lines(["*guest kernel panic: Fatal exception*"])


def test_no_guest_of_this_machine_is_needed(through_shim) -> None:
    """The guest's name includes the machine."""
    result = through_shim("--kfabric-tx=2*ssh=root@other")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.re_match_lines([r".*guest[01]@other\.0: guest kernel panic: Fatal exception"])


def test_machine_that_cannot_be_reached_ends_the_run_with_one_line(through_shim) -> None:
    result = through_shim("--kfabric-tx=ssh=other//python=/nowhere/python")
    assert result.ret == ExitStatus.SETUP
    text = result.stdout.str() + result.stderr.str()
    assert "set-up failed: other: no Python answers" in text
    assert "INTERNALERROR" not in text
