# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What is done to processes and to the machine while messages flow; one by one, or at random."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from guest_support import LIMIT, Child
from traffic_support import GONE, SIDES, Stream, Worker

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest import topology
from kfabric.guest.waiting import Deadline, wait_until

SECOND_CPU = Path("/sys/devices/system/cpu/cpu1/online")
#: Modules that messages over an RDMA link keep busy.
BUSY = ("kfabric", "kfi_verbs", "kfabric_dev")
#: Of a group that a process without much in it fits into, and nothing more.
GROUP_BYTES = 24 << 20
#: Entries of the queues with which memory is taken.
ENTRIES = 4096


@contextlib.contextmanager
def small_group(limit: str = "memory.max", size: int = GROUP_BYTES) -> Iterator[Path]:
    """Have a control group with little memory; nobody may be in it at the end."""
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["mount", "-t", "cgroup2", "none", root], check=True, timeout=LIMIT)
        try:
            Path(root, "cgroup.subtree_control").write_text("+memory")
            path = Path(root, "small")
            path.mkdir(exist_ok=True)
            (path / limit).write_text(str(size))
            yield path
            wait_until(lambda: not (path / "cgroup.procs").read_text(), "an empty group", LIMIT)
            path.rmdir()
        finally:
            subprocess.run(["umount", "--lazy", root], check=True, timeout=LIMIT)


def take_all(group: Path) -> Callable[[Callable[[str], None]], int]:
    """Work for a child: all the memory of a group, in objects of as many clients as it takes."""

    def work(report: Callable[[str], None]) -> int:
        (group / "cgroup.procs").write_text("0")
        with contextlib.ExitStack() as stack:
            while True:
                with contextlib.suppress(OSError):
                    _take(stack)

    return work


def _take(stack: contextlib.ExitStack) -> None:
    """Open what one client may have."""
    device = stack.enter_context(kp.Device())
    info = device.getinfo(provider="mock")[0]
    domain = stack.enter_context(stack.enter_context(device.fabric(info)).domain(info))
    while True:
        stack.enter_context(domain.cq(ENTRIES))


class Mob:
    """Processes with messages under way, and all that can be done to them and around them.

    Behind each deed, all processes but those that it has ended must go on.

    Attributes:
        deeds: how often each was done.
        errors: how often each error was reported, by the name of its errno.
        messages: that have arrived with processes that could still tell.
    """

    def __init__(
        self,
        in_child: Callable[..., Child],
        device: kp.Device,
        link: topology.RdmaLink,
        group: Path,
        rng: random.Random,
    ) -> None:
        """Start a process for each type of endpoints."""
        self._in_child = in_child
        self._device = device
        self._link = link
        self._group = group
        self._rng = rng
        self.deeds: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.messages = 0
        self._workers = [self._start(kind) for kind in sorted(SIDES)]

    def _start(self, kind: str) -> Worker:
        return Worker(self._in_child, kind, self._link.address)

    def rage(self, limit: Deadline) -> None:
        """Do everything once in any order, and then anything until the time is over."""
        names = [name.removeprefix("do_") for name in dir(self) if name.startswith("do_")]
        self._rng.shuffle(names)
        while names or not limit.expired:
            name = names.pop() if names else self._rng.choice(list(self.deeds))
            getattr(self, f"do_{name}")(self._rng.choice(self._workers))
            self.deeds[name] += 1
            for worker in self._workers:
                worker.goes_on()

    def end(self) -> None:
        """All that was sent has arrived, once."""
        self.messages += sum(worker.end() for worker in self._workers)

    def _replace(self, worker: Worker, status: int) -> None:
        assert worker.gone() == status
        self._workers[self._workers.index(worker)] = self._start(worker.kind)

    def do_kill(self, worker: Worker) -> None:
        """It is killed, and another one takes its place."""
        worker.child.kill(signal.SIGKILL)
        self._replace(worker, -signal.SIGKILL)

    def do_exec(self, worker: Worker) -> None:
        """It becomes another program."""
        worker.say("exec")
        self._replace(worker, 0)

    def do_stop(self, worker: Worker) -> None:
        """It stands still for a moment."""
        worker.stop()
        worker.child.kill(signal.SIGCONT)

    def do_fork(self, worker: Worker) -> None:
        """A copy of it comes and goes."""
        worker.tell("fork")

    def do_dup(self, worker: Worker) -> None:
        """A copy of its descriptor takes the place of the first."""
        worker.tell("dup")

    def do_cpu(self, worker: Worker) -> None:
        """A CPU goes, or comes back."""
        SECOND_CPU.write_text("1" if SECOND_CPU.read_text().strip() == "0" else "0")

    def do_memory(self, worker: Worker) -> None:
        """A group runs out of memory; who took it all is killed for that."""
        child = self._in_child(take_all(self._group))
        while not child.ended:
            worker.goes_on()
        assert child.wait() == -signal.SIGKILL

    def do_unload(self, worker: Worker) -> None:
        """Somebody wants to unload the modules."""
        for name in BUSY:
            with pytest.raises(guest_modules.ModuleInUse):
                guest_modules.remove(name)

    def do_lose(self, worker: Worker) -> None:
        """A device that others use is removed."""
        with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
            streams = [
                Stream(*sides(self._device, link.address, stack)) for sides in SIDES.values()
            ]
            for stream in streams:
                stream.goes_on()
            topology.delete_link(link.name)
            for stream in streams:
                for errors in stream.broken():
                    assert errors == [GONE]
                    self.errors.update(errors)
                self.messages += stream.got
