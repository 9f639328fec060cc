# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The example ULP without connections: two kthreads, two RDM endpoints, tagged messages.

ru_ping                    ru_pong
    tsend     ───────────▶     kfi_wait
    kfi_wait  ◀───────────     tsend
"""

from __future__ import annotations

import contextlib
import errno
import select
from collections.abc import Iterator
from pathlib import Path

import pytest
from guest_support import LIMIT

from kfabric.guest import modules as guest_modules
from kfabric.guest import topology

NAME = "rdm_ulp"
RESULT = Path(f"/sys/module/{NAME}/parameters/result")


def play_out() -> list[str]:
    """Wait for the end of the game, as the file notifies it, and return its result."""
    with RESULT.open() as result:
        poller = select.poll()
        poller.register(result, select.POLLPRI)
        while (text := result.read()).startswith("state=playing"):
            assert poller.poll(4 * LIMIT * 1000), "the game goes on"
            result.seek(0)
    return text.splitlines()


@contextlib.contextmanager
def loaded(modules: guest_modules.Modules, **parameters: object) -> Iterator[None]:
    """Have the ULP play while the block runs."""
    text = " ".join(f"{key}={value}" for key, value in parameters.items())
    guest_modules.insert(modules.file(NAME), text)
    try:
        yield
    finally:
        guest_modules.remove(NAME)


@pytest.mark.parametrize(("count", "size"), [(499, 64), (1, 1), (31, 20_000)])
def test_every_message_arrives(
    modules: guest_modules.Modules, verbs: topology.RdmaLink, count: int, size: int
) -> None:
    """W1, W7: a wait set with a queue of an RDM endpoint; every tag comes once, in order."""
    with loaded(modules, addr=verbs.address, count=count, size=size):
        state, *sides = play_out()
    assert state == "state=passed", sides
    for side in sides:
        assert " error=0 " in side and f" messages={count} " in side
    guest_modules.wait_for_references("kfi_verbs", 0, LIMIT)


def test_unloading_in_the_middle_of_the_game(
    modules: guest_modules.Modules, verbs: topology.RdmaLink
) -> None:
    """W6, O1: rmmod ends both threads, and every object closes with messages under way."""
    with loaded(modules, addr=verbs.address, count=1_000_000, timeout_ms=120_000):
        assert RESULT.read_text() == "state=playing\n"
    guest_modules.wait_for_references("kfi_verbs", 0, LIMIT)


def test_loading_fails_with_the_reason(
    modules: guest_modules.Modules, verbs: topology.RdmaLink
) -> None:
    """An address that nobody has: insmod says so, and nothing stays."""
    with (
        pytest.raises(guest_modules.ModuleError) as wrong,
        loaded(modules, addr="203.0.113.7"),
    ):
        pass
    assert wrong.value.errno in (errno.ENODATA, errno.EINVAL)
    assert guest_modules.state(NAME) is None
