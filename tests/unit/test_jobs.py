# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests that serve jobs: one for many jobs, a new one when it is closed, an error each end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfabric.errors import GuestHang, GuestLost, GuestPanic
from kfabric.vm.jobs import JobGuest, ProgramFailed, ServerEnded, events
from kfabric.vm.machine import Vm


class FakeVm:
    """A guest whose server answers each job with its events; a job may be an exception."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.started = self.closed = False
        self.image = SimpleNamespace(version=SimpleNamespace(slow=2.0))
        self._jobs: list[Any] = []
        self._killed = threading.Event()

    def start(self) -> None:
        """Note it."""
        self.started = True

    def popen(self, *_: Any, **__: Any) -> Any:
        """The server."""
        return SimpleNamespace(
            lines=self._answers,
            send=lambda data: self._jobs.append(json.loads(data)),
            errors=b"Traceback\nOSError: no link\n",
            console_tail=lambda: "the tail",
            rc=1,
        )

    def _answers(self) -> Iterator[str]:
        while True:
            job = self._jobs.pop(0)
            match job.get("how"):
                case "panic":
                    raise GuestPanic("Oops", console="the end")
                case "end":
                    return
                case "silence":
                    assert self._killed.wait(30.0)
                    raise GuestLost("QEMU ended", console="quiet")
            yield json.dumps({"event": "report", "of": job["n"], "by": self.name})
            yield json.dumps({"event": "end"})

    def console_text(self) -> str:
        """What it said."""
        return f"console of {self.name}"

    def kill(self) -> None:
        """End it."""
        self._killed.set()

    def close(self) -> None:
        """Note it."""
        self.closed = True


@pytest.fixture
def made() -> list[FakeVm]:
    """The guests that were booted."""
    return []


@pytest.fixture
def guest(made: list[FakeVm]) -> JobGuest:
    """A place for guests whose servers may be silent for a moment only."""

    def boot(name: str) -> Vm:
        made.append(FakeVm(name))
        return cast(Vm, made[-1])

    return JobGuest("place", ["server"], 0.01, boot)


def test_one_guest_serves_many_jobs(guest: JobGuest, made: list[FakeVm]) -> None:
    """Each gets its own events up to its end."""
    with guest:
        for n in range(3):
            events = list(guest.do({"n": n}))
            assert events == [{"event": "report", "of": n, "by": "place.0"}, {"event": "end"}]
        assert len(made) == 1 and made[0].started and not made[0].closed
    assert made[0].closed


def test_closed_guest_is_followed_by_another(guest: JobGuest, made: list[FakeVm]) -> None:
    """What the last one said can still be read."""
    list(guest.do({"n": 0}))
    guest.close()
    guest.close()
    assert made[0].closed and guest.console() == "console of place.0"
    assert next(guest.do({"n": 1}))["by"] == "place.1"
    assert guest.console() == "console of place.1"


def test_end_of_the_guest_is_raised(guest: JobGuest) -> None:
    """As the kind of end that it was."""
    with pytest.raises(GuestPanic, match="Oops"):
        list(guest.do({"how": "panic"}))


def test_end_of_the_server_has_a_reason(guest: JobGuest) -> None:
    """The last line of its standard error; all of it is below the console."""
    with pytest.raises(ServerEnded, match="no link") as caught:
        list(guest.do({"how": "end"}))
    assert caught.value.console == "the tail\nTraceback\nOSError: no link"


def test_silent_server_is_a_hang(guest: JobGuest) -> None:
    """The guest is killed, and the error does not speak of that; patience knows slow kernels."""
    with pytest.raises(GuestHang, match=r"printed nothing for 0\.02 s") as caught:
        list(guest.do({"how": "silence"}))
    assert caught.value.console == "quiet"


@pytest.mark.parametrize("when", ["before", "while it boots"])
def test_unwanted_guest_is_closed(guest: JobGuest, made: list[FakeVm], when: str) -> None:
    """Ctrl-C ends a run from another thread: no other guest serves what is left."""
    if when == "before":
        guest.end()
    else:
        boot = guest._boot

        def end_meanwhile(name: str) -> Vm:
            guest.end()
            return boot(name)

        guest._boot = end_meanwhile
    with pytest.raises(GuestLost, match="wanted"):
        list(guest.do({"n": 0}))
    assert [vm.closed for vm in made] == ([] if when == "before" else [True])


class Program:
    """A guest with one program, which prints lines and ends."""

    def __init__(self, *lines: str, rc: int = 0, errors: bytes = b"") -> None:
        self.read = b""
        self._command = SimpleNamespace(
            send=self._send,
            close_stdin=lambda: None,
            lines=lambda: iter(lines),
            rc=rc,
            errors=errors,
            console_tail=lambda: "the tail",
        )

    def _send(self, data: bytes) -> None:
        self.read += data

    def popen(self, argv: list[str], **_: Any) -> Any:
        """The program."""
        assert argv[:2] == ["python3", "-m"]
        return self._command


def test_programs_events_come_and_other_lines_do_not() -> None:
    """A library may print, too."""
    vm = Program('{"n": 1}', "a warning", '{"n": 2}')
    assert list(events(cast(Vm, vm), ["m"], 1.0, "plan")) == [{"n": 1}, {"n": 2}]
    assert vm.read == b"plan"


@pytest.mark.parametrize(
    ("errors", "what"), [(b"Traceback\nOSError: no link\n", "OSError: no link"), (b"", "a warning")]
)
def test_failed_programs_last_line_is_the_error(errors: bytes, what: str) -> None:
    """After the events that it printed before; all of it is shown above the error."""
    found = events(cast(Vm, Program('{"n": 1}', "a warning", rc=1, errors=errors)), ["m"], 1.0)
    assert next(found) == {"n": 1}
    with pytest.raises(ProgramFailed) as caught:
        list(found)
    assert caught.value.what == what
    assert caught.value.console.endswith("the tail") and "a warning" in caught.value.console


def test_program_without_a_word_has_its_status() -> None:
    with pytest.raises(ProgramFailed, match="exit status 3"):
        list(events(cast(Vm, Program(rc=3)), ["m"], 1.0))
