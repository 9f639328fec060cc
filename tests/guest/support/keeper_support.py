# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Endpoints that keep messages until a receive is posted, of whichever provider."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import pytest
from guest_support import LIMIT, Mock
from rdm_support import RdmNet

import kfabric_py as kp

#: Messages that one keeps at most; the tests want more than a profile keeps events.
ROOM = 512

MockOrRdm: TypeAlias = kp.Endpoint | kp.RdmEndpoint


class Keeper(Protocol):
    """An endpoint, and what makes messages come to it."""

    device: kp.Device
    ep: MockOrRdm
    #: Its completions: of receives alone.
    cq: kp.CompletionQueue

    def arrive(self, *lengths: int, data: int = 0) -> None:
        """Have messages of these lengths come; when it returns they have."""

    def post(self) -> None:
        """Post a receive."""

    def receive(self) -> kp.CqEntry:
        """Post one for a message that is kept, and return its completion."""

    def fail(self) -> None:
        """Have an operation fail, and read its error."""


class MockKeeper:
    """The mock provider's, with messages from one of its contexts."""

    def __init__(self, mock: Mock, context: str) -> None:
        """Open it."""
        self.device = mock.device
        self.cq = mock.cq(1024)
        self.ep: MockOrRdm = mock.endpoint(cq=self.cq)
        self._mock = mock
        self._context = context
        self._buffer = mock.stack.enter_context(mock.device.buffer(4096))

    def arrive(self, *lengths: int, data: int = 0) -> None:
        """Have messages of these lengths come."""
        for length in lengths:
            words = (f"len={length}", f"data={data}", f"context={self._context}")
            self._mock.command("arrive", self.ep.trace_id, *words)

    def post(self) -> None:
        """Post a receive."""
        self.ep.recv(self._buffer)

    def receive(self) -> kp.CqEntry:
        """Post one; the message that was kept completes it at once."""
        self.post()
        (entry,) = self.cq.sread(1, timeout=LIMIT)
        return entry

    def fail(self) -> None:
        """Have an operation fail that nobody posted."""
        self._mock.command("inject", self.ep.trace_id, "recv", 1, "err=5", "context=workqueue")
        assert self.cq.readerr() is not None


class RdmKeeper:
    """An RDM endpoint on the rxe link, and a peer that sends to it."""

    def __init__(self, rdm: RdmNet) -> None:
        """Open both."""
        attr = kp.RxAttr(total_buffered_recv=ROOM * 4096)
        info = rdm.ask(rx_attr=attr, ep_attr=kp.EpAttr(type=kp.EpType.RDM))
        self.device = rdm.device
        self._peer, self._here = rdm.connect(info=info, size=1024)
        self.ep: MockOrRdm = self._here.ep
        self.cq = self._here.cq

    def arrive(self, *lengths: int, data: int = 0) -> None:
        """Send messages. A short one is a success when it has been taken, or kept."""
        for length in lengths:
            self._peer.ep.send(self._peer.buffer[:length], data=data)
            self._peer.entry()

    def post(self) -> None:
        """Post a receive."""
        self.ep.recv(self._here.buffer[:4096])

    def receive(self) -> kp.CqEntry:
        """Post one; what was kept is short, and completes it at once."""
        self.post()
        return self._here.entry()

    def fail(self) -> None:
        """Cancel a receive that nothing was kept for."""
        self.ep.recv(self._here.buffer[:8], context="cancelled")
        self.ep.cancel("cancelled")
        assert self.cq.readerr() is not None


def open_keeper(request: pytest.FixtureRequest, where: str) -> Keeper:
    """Open one: "rdm", or a context of the mock provider's commands."""
    if where == "rdm":
        return RdmKeeper(request.getfixturevalue("rdm"))
    return MockKeeper(request.getfixturevalue("mock"), where)
