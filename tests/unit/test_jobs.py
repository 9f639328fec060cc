# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests that serve jobs: one for many jobs, a new one when it is closed, an error each end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.errors import GuestHang, GuestLost, GuestPanic
from harness.vm.jobs import JobGuest, ServerEnded
from harness.vm.machine import Vm


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

    def console_tail(self) -> str:
        """Its last line."""
        return "the tail"

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
