# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Violence under load: whatever is done to a process or to the machine while messages flow,
none is lost or doubled, nothing hangs, nothing is left, and errors arrive as errors.

Each message has a number that both of its ends look at; see traffic_support.py.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from guest_support import LIMIT, Call, Child
from traffic_support import GONE, SIDES, Stream, Worker
from verbs_support import counts, wait_for_counts
from violence_support import BUSY, SECOND_CPU, small_group, take_all

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest import topology

InChild = Callable[..., Child]
InThread = Callable[[Callable[[], object]], Call[object]]

TIMES = 3


# A machine that is busy with other things takes seconds to bring a CPU up.
pytestmark = [pytest.mark.usefixtures("modules"), pytest.mark.timeout(180)]


@pytest.fixture(params=sorted(SIDES))
def worker(
    request: pytest.FixtureRequest,
    modules: guest_modules.Modules,
    verbs: topology.RdmaLink,
    in_child: InChild,
) -> Worker:
    """A process with messages going to and fro, by endpoints of either type."""
    return Worker(in_child, request.param, verbs.address)


def test_stopped_process_goes_on_where_it_was(worker: Worker) -> None:
    """W5, Q3: SIGSTOP and SIGCONT at random moments: what came meanwhile is there, once."""
    for _ in range(TIMES):
        worker.stop()
        worker.child.kill(signal.SIGCONT)
        worker.goes_on()
    worker.end()


@pytest.mark.parametrize("word", ["fork", "dup"])
def test_copies_of_a_descriptor_come_and_go(worker: Worker, word: str) -> None:
    """O4: copies that are closed under load take nothing along while one is left.

    fork: of the whole process, which ends. dup: one takes the place of the descriptor
    itself, with threads in calls on it.
    """
    for _ in range(TIMES):
        worker.tell(word)
        worker.goes_on()
    worker.end()


def test_exec_ends_everything(verbs: topology.RdmaLink, in_child: InChild) -> None:
    """O4: a process becomes another program with messages under way: nothing of it stays."""
    before = counts(verbs)
    for kind in sorted(SIDES):
        worker = Worker(in_child, kind, verbs.address)
        worker.say("exec")
        assert worker.gone() == 0
    wait_for_counts(verbs, before)


def test_messages_survive_a_cpu_that_goes(
    verbs: topology.RdmaLink, in_child: InChild, second_cpu: Path
) -> None:
    """W2, W10: a CPU is taken out and put back under load, again and again."""
    workers = [Worker(in_child, kind, verbs.address) for kind in sorted(SIDES)]
    for _ in range(TIMES):
        for online in ("0", "1"):
            second_cpu.write_text(online)
            for worker in workers:
                worker.goes_on()
    for worker in workers:
        worker.end()


@pytest.fixture
def second_cpu() -> Iterator[Path]:
    """The file that takes the second CPU out, which is in again behind the test."""
    yield SECOND_CPU
    SECOND_CPU.write_text("1")


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory."""
    with small_group() as path:
        yield path


def test_memory_runs_out_next_door(worker: Worker, group: Path, in_child: InChild) -> None:
    """X3, O4: who takes all the memory of its group is killed, with all that it had.

    It takes it by opening queues. Another one's messages go on. (That is in no group: a
    member who may not be killed would fault for a page again and again while the killed
    one has not closed its queues yet, and Linux reports each time.)
    """
    for _ in range(2):
        child = in_child(take_all(group))
        while not child.ended:
            worker.goes_on()
        assert child.wait() == -signal.SIGKILL
    assert "oom_kill 2" in (group / "memory.events").read_text().splitlines()
    worker.end()


@pytest.mark.parametrize("what", ["link", "netdev"])
@pytest.mark.parametrize("kinds", [("msg",), ("rdm",), ("msg", "rdm")], ids="-".join)
def test_device_is_removed_under_load(
    device: kp.Device, in_thread: InThread, kinds: tuple[str, ...], what: str
) -> None:
    """O5: each end gets ENODEV once, behind everything else; the removal does not wait.

    Below a link that still is there, a net device that goes fails what is under way.
    """
    guest_modules.need()
    with topology.rxe_on_dummy() as link, contextlib.ExitStack() as stack:
        streams = [Stream(*SIDES[kind](device, link.address, stack)) for kind in kinds]
        for stream in streams:
            stream.goes_on()
        remove = topology.delete_link if what == "link" else topology.delete_netdev
        name = link.name if what == "link" else link.netdev.name
        in_thread(lambda: remove(name)).result()
        for errors in itertools.chain.from_iterable(stream.broken() for stream in streams):
            assert errors == [GONE] or what == "netdev"


def test_modules_stay_under_load_and_go_behind_it(
    worker: Worker, modules: guest_modules.Modules
) -> None:
    """O6: unloading is refused as long as messages flow, disturbs none, and works behind them."""
    for _ in range(TIMES):
        for name in BUSY:
            with pytest.raises(guest_modules.ModuleInUse):
                guest_modules.remove(name)
        worker.goes_on()
    worker.end()
    modules.unload(deadline=LIMIT)
    modules.load()
