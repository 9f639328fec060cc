# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The example ULP: two kthreads play ping-pong over a real RDMA link.

pp_connector               pp_listener
    send      ───────────▶     kfi_wait
    kfi_wait  ◀───────────     send
"""

from __future__ import annotations

import contextlib
import errno
import select
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_blocks import shown
from guest_support import LIMIT

from kfabric.guest import modules as guest_modules
from kfabric.guest import sleeping, topology
from kfabric.guest.kmsg import KernelLog
from kfabric.guest.waiting import wait_until

NAME = "pingpong_ulp"
RESULT = Path(f"/sys/module/{NAME}/parameters/result")

Sides = dict[str, dict[str, int]]


def parse(text: str) -> tuple[str, Sides]:
    """Take the result apart: the state, and the numbers of each side."""
    first, *lines = text.splitlines()
    sides: Sides = {}
    for line in lines:
        name, *pairs = line.split()
        sides[name] = {key: int(value) for key, value in (p.split("=") for p in pairs)}
    return first.removeprefix("state="), sides


def play_out(seconds: float = 4 * LIMIT) -> tuple[str, Sides]:
    """Wait for the end of the game, as the file notifies it, and return its result."""
    with RESULT.open() as result:
        poller = select.poll()
        poller.register(result, select.POLLPRI)
        while (found := parse(result.read()))[0] == "playing":
            assert poller.poll(seconds * 1000), "the game goes on"
            result.seek(0)
    return found


@contextlib.contextmanager
def loaded(modules: guest_modules.Modules, **parameters: object) -> Iterator[None]:
    """Have the ULP play while the block runs."""
    text = " ".join(f"{key}={value}" for key, value in parameters.items())
    guest_modules.insert(modules.file(NAME), text)
    try:
        yield
    finally:
        guest_modules.remove(NAME)


@pytest.mark.parametrize(("count", "size"), [(997, 64), (1, 1), (61, 4096)])
def test_every_message_arrives(
    modules: guest_modules.Modules, verbs: topology.RdmaLink, count: int, size: int
) -> None:
    """W1, W7, Q8: one wait set with CQ, EQ and counter; all messages, counted twice."""
    with loaded(modules, addr=verbs.address, count=count, size=size):
        state, sides = play_out()
    assert state == "passed", sides
    assert set(sides) == {"listener", "connector"}
    for side in sides.values():
        assert side["messages"] == side["counter"] == count
        assert side["error"] == 0
        assert side["waits"] >= count


def test_script_of_the_document_waits_for_the_end(
    modules: guest_modules.Modules, verbs: topology.RdmaLink
) -> None:
    """As it is printed, it ends after the game, whose result it does not print."""
    script = shown("tests/guest/test_pingpong_ulp.py")
    with loaded(modules, addr=verbs.address, count=11):
        exec(compile(script.text, str(script), "exec"), {})
        assert parse(RESULT.read_text())[0] == "passed"


def test_it_leaves_nothing_behind(modules: guest_modules.Modules, verbs: topology.RdmaLink) -> None:
    """O1, O6: every close succeeded, so the provider is free again."""
    with KernelLog() as log:
        for _ in range(3):
            with loaded(modules, addr=verbs.address, count=11):
                assert play_out()[0] == "passed"
        ours = [record for record in log.new() if NAME in record.text]
    assert [str(record) for record in ours if record.is_warning] == []
    assert len(ours) == 6
    guest_modules.wait_for_references("kfi_verbs", 0, LIMIT)


def sleeps(tid: int) -> int:
    """How often the thread has gone to sleep so far."""
    status = Path(f"/proc/{tid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


@pytest.mark.wrong_wakeups(
    may="spurious", reason="the kernel stops a thread by waking it, past any queue"
)
def test_unloading_stops_a_thread_that_waits(
    modules: guest_modules.Modules, verbs: topology.RdmaLink
) -> None:
    """W6: in the middle of a game that takes longer than the test, rmmod ends both sides."""
    with loaded(modules, addr=verbs.address, count=1_000_000, timeout_ms=120_000):
        (listener,) = sleeping.threads("pp_listener")
        wait_until(lambda: sleeps(listener) > 100, "the game is under way", LIMIT)
    with pytest.raises(sleeping.ThreadGone):
        sleeping.read_state(listener)


def test_loading_fails_with_the_reason(
    modules: guest_modules.Modules, verbs: topology.RdmaLink
) -> None:
    """No address, a wrong one, an unknown provider: insmod says so, nothing stays."""
    with pytest.raises(guest_modules.ModuleError) as no_address, loaded(modules):
        pass
    assert no_address.value.errno == errno.EINVAL
    wrong = {"addr": "203.0.113.7"}, {"addr": verbs.address, "prov": "nobody"}
    for parameters in wrong:
        with pytest.raises(guest_modules.ModuleError), loaded(modules, **parameters):
            pass
    assert guest_modules.state(NAME) is None
