# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Domains with manual progress: reading and polling drive what nothing else does."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator

import pytest
from guest_support import Call, Mock

import kfabric_py as kp

NONE = kp.WaitObj.NONE


@pytest.fixture
def manual(device: kp.Device) -> Iterator[Mock]:
    """The mock provider with a domain that reports only when it is driven."""
    hints = kp.Info(domain_attr=kp.DomainAttr(data_progress=kp.Progress.MANUAL))
    info = device.getinfo(provider="mock", hints=hints)[0]
    assert info.domain_attr.data_progress == kp.Progress.MANUAL
    with (
        device.fabric(info) as fabric,
        fabric.domain(info) as domain,
        contextlib.ExitStack() as stack,
    ):
        yield Mock(device, info, fabric, domain, stack)


def pending(manual: Mock) -> bool:
    """Is there a report that waits to be made?"""
    return manual.state()[f"domain {manual.domain.trace_id}"]["pending"] == "1"


def test_poll_makes_progress(manual: Mock) -> None:
    """P4, P6, B14: nobody reads, nobody can sleep; the poll finds the entry all the same."""
    cq = manual.cq(wait_obj=NONE)
    poll_set = manual.poll_set()
    poll_set.add(cq)
    manual.inject(manual.endpoint(cq=cq, eq=manual.eq(wait_obj=NONE)), "recv", 3)
    assert poll_set.poll() == [cq]
    assert len(cq.read()) == 3


@pytest.mark.parametrize(
    "drive",
    [
        lambda cq, cntr: cq.read(0),
        lambda cq, cntr: cq.readerr(peek=True),
        lambda cq, cntr: cntr.readerr(),
    ],
    ids=["read of nothing", "peek at errors", "counter"],
)
def test_looking_makes_progress(
    manual: Mock, drive: Callable[[kp.CompletionQueue, kp.Counter], object]
) -> None:
    """Q7, B14: what consumes nothing drives the domain like a read."""
    cq, cntr = manual.cq(wait_obj=NONE), manual.counter(wait_obj=NONE)
    ep = manual.endpoint(cq=cq, cntr=cntr, eq=manual.eq(wait_obj=NONE))
    manual.inject(ep, "recv", 2)
    assert pending(manual)
    drive(cq, cntr)
    assert not pending(manual)
    assert len(cq.read()) == 2
    assert cntr.read() == 2


def test_sleepers_are_driven(manual: Mock) -> None:
    """W2, B14: who sleeps makes no call, so the domain is driven for it."""
    wait_set = manual.wait_set()
    cntr = manual.counter(wait_set=wait_set)
    ep = manual.endpoint(cq=manual.cq(wait_obj=NONE), cntr=cntr, eq=manual.eq(wait_obj=NONE))
    sleeper = Call(wait_set.wait).asleep()
    manual.inject(ep, "recv", 1)
    sleeper.result()
    assert cntr.read() == 1


def test_pending_reports_do_not_outlive_the_endpoint(manual: Mock) -> None:
    """O1: closing it reports what is pending first, like any close of a busy endpoint."""
    cq = manual.cq(wait_obj=NONE)
    ep = manual.endpoint(cq=cq, eq=manual.eq(wait_obj=NONE))
    manual.inject(ep, "recv", 5)
    ep.close()
    assert len(cq.read()) == 5


def test_events_need_no_progress(manual: Mock) -> None:
    """W2, B14: data is driven by hand, control is not; an event wakes by itself."""
    eq = manual.eq()
    ep = manual.endpoint(cq=manual.cq(wait_obj=NONE), eq=eq)
    sleeper = Call(eq.sread).asleep()
    manual.command("event", ep.trace_id, int(kp.Event.CONNECTED))
    assert sleeper.result()


def test_loss_comes_behind_what_was_pending(manual: Mock) -> None:
    """O5, Q2: the last entry of a queue is the last one that anybody gets."""
    cq = manual.cq(wait_obj=NONE)
    manual.inject(manual.endpoint(cq=cq, eq=manual.eq(wait_obj=NONE)), "recv", 3)
    manual.command("lose", manual.domain.trace_id)
    assert len(cq.read()) == 3
    error = cq.readerr()
    assert error is not None
    assert error.err == errno.ENODEV
    assert cq.read() == []
