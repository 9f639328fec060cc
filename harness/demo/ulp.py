# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: the ping-pong between two kernel threads, examples/pingpong_ulp or rdm_ulp."""

import re
import select
from collections.abc import Callable
from pathlib import Path

from kfabric.demo.job import Peer, Scenario
from kfabric.guest import modules
from kfabric.guest.waiting import Deadline

_SECONDS = 120.0
_TICK_MS = 200
_LINE = re.compile(
    r"^(\w+) pid=(\d+) error=(-?\d+) waits=(\d+) messages=(\d+)(?: counter=\d+)? ns=(\d+)$",
    re.MULTILINE,
)


def run(
    directory: Path, address: tuple[str, int], messages: int, tick: Callable[[], None]
) -> Scenario:
    """Load the example, wait until its ping-pong is over, and unload it.

    Args:
        directory: of the modules.
        address: of the link, and a port to listen on.
        messages: in each direction.
        tick: called several times a second while waiting; drains the probes.
    """
    host, port = address
    parameters = f"addr={host} port={port} count={messages}"
    return _run(directory, "pingpong_ulp", parameters, messages, tick)


def run_rdm(directory: Path, address: str, messages: int) -> Scenario:
    """The same with tagged messages between RDM endpoints, examples/rdm_ulp."""
    parameters = f"addr={address} count={messages}"
    return _run(directory, "rdm_ulp", parameters, messages, lambda: None)


def _run(
    directory: Path, module: str, parameters: str, messages: int, tick: Callable[[], None]
) -> Scenario:
    modules.insert(directory / f"{module}.ko", parameters)
    try:
        limit = Deadline(_SECONDS)
        result = Path("/sys/module") / module / "parameters/result"
        with result.open(encoding="ascii") as file:
            poller = select.poll()
            poller.register(file, select.POLLPRI)
            while "state=playing" in (text := file.read()) and not limit.expired:
                poller.poll(_TICK_MS)
                tick()
                file.seek(0)
        return parse(text, messages)
    finally:
        modules.remove(module)


def parse(text: str, messages: int) -> Scenario:
    """Decode the module's result; a missing one is an error of the listener."""
    peers = []
    for name, pid, code, _, got, ns in _LINE.findall(text):
        error = ""
        if int(code) or int(got) != messages:
            error = f"error {code} after {got} of {messages} messages"
        peers.append(Peer(name, int(pid), messages, error, int(ns)))
    if not peers:
        peers = [Peer("listener", 0, messages, f"no result: {text.strip()}")]
    return Scenario("ping-pong between kernel threads", tuple(peers))
