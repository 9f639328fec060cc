# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Completion channels over real traffic, and the two examples."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from guest_support import LIMIT, Call
from verbs_support import Net, Peer

import kfabric_py as kp
from kfabric.guest.topology import RdmaLink
from kfabric_py import aio

InThread = Callable[[Callable[[], Any]], Call[Any]]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "cq_events.py"


@dataclass(frozen=True)
class Ends:
    """A connection whose second end is told of its completions by a channel."""

    sender: Peer
    receiver: Peer
    channel: kp.CompChannel

    def send(self, flags: kp.OpFlags | None = None) -> None:
        """Send a message, and see it off."""
        self.sender.ep.send(self.sender.buffer[:64], flags=flags)
        self.sender.entry()

    def events(self) -> int:
        """Get and acknowledge what is there."""
        got = list(self.channel)
        for event in got:
            event.cq.ack_events()
        return len(got)


@pytest.fixture
def ends(net: Net) -> Iterator[Ends]:
    """Two connected ends; the receiver has eight receives posted. Depends on: net."""
    with contextlib.ExitStack() as stack:
        channel = stack.enter_context(net.fabric.comp_channel())
        sender, receiver = net.connect(channel=channel)
        for _ in range(8):
            receiver.ep.recv(receiver.buffer[:64])
        # Their queues go first: the net closes them after this fixture.
        yield Ends(sender, receiver, channel)
        for peer in (sender, receiver):
            peer.ep.close()
            # A test that failed has not acknowledged what it got.
            peer.cq._abandon()
            peer.cq.close()


def test_message_makes_an_event(ends: Ends, in_thread: InThread) -> None:
    """E1, E2: a thread sleeps in the channel, a message comes."""
    ends.receiver.cq.req_notify()
    call = in_thread(lambda: ends.channel.get_cq_event(timeout=LIMIT)).asleep()
    ends.send()
    event = call.result()
    assert event is not None and event.cq is ends.receiver.cq
    event.cq.ack_events()
    assert len(event.cq.read()) == 1


def test_solicited_message_answers_the_weaker_request(ends: Ends) -> None:
    """E1, B10: the sender marks it."""
    ends.receiver.cq.req_notify(solicited_only=True)
    ends.send(kp.OpFlags.SOLICITED)
    event = ends.channel.get_cq_event(timeout=LIMIT)
    assert event is not None
    event.cq.ack_events()


def test_sends_are_not_solicited(ends: Ends) -> None:
    """E1, E6: their success does not answer the weaker request, their failure does."""
    cq = ends.receiver.cq
    cq.req_notify(solicited_only=True)
    ends.sender.ep.recv(ends.sender.buffer[:64])
    ends.receiver.ep.send(ends.receiver.buffer[64:128], flags=kp.OpFlags.SOLICITED)
    ends.receiver.entry()
    assert ends.events() == 0
    ends.sender.ep.shutdown()
    event = ends.channel.get_cq_event(timeout=LIMIT)
    assert event is not None
    event.cq.ack_events()


def test_solicited_is_no_flag_of_an_entry(ends: Ends) -> None:
    """E1: what a reader sees of the message is what it is without."""
    ends.send(kp.OpFlags.SOLICITED)
    assert ends.receiver.entry().flags == kp.CqFlags.MSG | kp.CqFlags.RECV


def test_event_loop_over_a_channel(ends: Ends) -> None:
    """E2: asyncio waits for events while it sends."""

    async def main() -> int:
        ends.receiver.cq.req_notify()
        seen = 0
        with aio.wrap(ends.channel) as channel:
            for _ in range(5):
                ends.send()
                event = await channel.get_cq_event(ack=True, notify=True)
                seen += sum(1 for _ in event.cq)
        return seen

    assert asyncio.run(asyncio.wait_for(main(), LIMIT)) == 5


@pytest.fixture
def example() -> ModuleType:
    """The example program, imported."""
    spec = importlib.util.spec_from_file_location("cq_events", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("options", [[], ["--non-blocking"]], ids=["blocking", "non-blocking"])
def test_example_runs(
    modules: object,
    verbs: RdmaLink,
    example: ModuleType,
    options: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E6: the examples of ibv_get_cq_event(3), blocking and not."""
    monkeypatch.setattr(sys, "argv", ["cq_events.py", verbs.address, *options])
    example.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" messages")[0] for line in lines] == ["1", "5", "16", "2"]
