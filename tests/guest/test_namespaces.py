# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Network namespaces: the verbs provider serves the initial one."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable
from typing import Any

import pytest
from guest_support import Call
from verbs_support import Net

import kfabric_py as kp

InThread = Callable[[Callable[[], object]], Call[object]]

CLONE_NEWNET = 0x40000000


def elsewhere(function: Callable[[], Any]) -> Callable[[], Any]:
    """Have a thread enter a network namespace of its own before it calls the function."""

    def run() -> Any:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        return function()

    return run


def test_question_from_another_namespace_is_refused(net: Net, in_thread: InThread) -> None:
    """getinfo: EAFNOSUPPORT, and no info whose addresses mean something else there."""
    call = in_thread(elsewhere(lambda: net.device.getinfo(provider="verbs")))
    with pytest.raises(kp.KfiError) as error:
        call.result()
    assert error.value.errno == errno.EAFNOSUPPORT


def test_fabric_is_not_opened_in_another_namespace(net: Net, in_thread: InThread) -> None:
    """EAFNOSUPPORT, also with an info that comes from the initial one."""
    call = in_thread(elsewhere(lambda: net.device.fabric(net.info)))
    with pytest.raises(kp.KfiError) as error:
        call.result()
    assert error.value.errno == errno.EAFNOSUPPORT


def test_fabric_stays_in_its_namespace(net: Net, in_thread: InThread) -> None:
    """Like a socket: a thread in another namespace connects through an open fabric."""
    in_thread(elsewhere(net.connect)).result()
