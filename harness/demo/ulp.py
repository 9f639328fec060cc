# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side: the ping-pong between two kernel threads, examples/pingpong_ulp or rdm_ulp."""

from __future__ import annotations

import re
import select
from collections.abc import Callable
from pathlib import Path

from harness.demo.job import Part, Player
from harness.guest import modules
from harness.guest.waiting import Deadline

MODULE = "pingpong_ulp"
RDM_MODULE = "rdm_ulp"
TITLE = "ping-pong between kernel threads"
_GAME_SECONDS = 120.0
_TICK_MS = 200
_LINE = re.compile(
    r"^(\w+) pid=(\d+) error=(-?\d+) waits=(\d+) messages=(\d+)(?: counter=\d+)? ns=(\d+)$",
    re.MULTILINE,
)


def play(
    directory: Path, address: tuple[str, int], messages: int, tick: Callable[[], None]
) -> Part:
    """Load the example, wait until its game is over, and unload it.

    :param address: of the link, and a port to listen on.
    :param tick: called several times a second while waiting; drains the probe.
    """
    host, port = address
    return _play(directory, MODULE, f"addr={host} port={port} count={messages}", messages, tick)


def play_rdm(directory: Path, address: str, messages: int) -> Part:
    """The same with tagged messages between RDM endpoints, examples/rdm_ulp."""
    parameters = f"addr={address} count={messages}"
    return _play(directory, RDM_MODULE, parameters, messages, lambda: None)


def _play(
    directory: Path, module: str, parameters: str, messages: int, tick: Callable[[], None]
) -> Part:
    modules.insert(directory / f"{module}.ko", parameters)
    try:
        return parse(_await_result(module, tick), messages)
    finally:
        modules.remove(module)


def _await_result(module: str, tick: Callable[[], None]) -> str:
    """The text of the result file once it is one, or the last one at the deadline."""
    limit = Deadline(_GAME_SECONDS)
    result = Path("/sys/module") / module / "parameters/result"
    with result.open(encoding="ascii") as file:
        poller = select.poll()
        poller.register(file, select.POLLPRI)
        while "state=playing" in (text := file.read()) and not limit.expired:
            poller.poll(_TICK_MS)
            tick()
            file.seek(0)
    return text


def parse(text: str, messages: int) -> Part:
    """Read the module's result. One that is not there is every player's error."""
    players = []
    for name, pid, error, _, got, ns in _LINE.findall(text):
        complaint = ""
        if int(error) or int(got) != messages:
            complaint = f"error {error} after {got} of {messages} messages"
        players.append(Player(name, int(pid), messages, complaint, int(ns)))
    if not players:
        players = [Player("listener", 0, messages, f"no result: {text.strip()}")]
    return Part(TITLE, tuple(players))
