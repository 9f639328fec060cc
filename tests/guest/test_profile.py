# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Profiles for users: what can be profiled, which variables there are, and their values."""

from __future__ import annotations

import ctypes
import errno
import mmap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uapi_support as raw
from guest_support import LIMIT, Call, Child, Mock, Side
from keeper_support import Keeper

import kfabric_py as kp
from kfabric_py import _uapi
from kfabric_py.profile import Profiled

InThread = Callable[[Callable[[], Any]], Call[Any]]
InChild = Callable[[Callable[[Callable[[str], None]], int]], Child]

#: What every set of sleepers, or of members, counts.
OURS = {
    "signals",
    "wakes",
    "overtaken",
    "spurious",
    "timeouts",
    "interrupts",
    "handed_on",
    "overruns",
    "deepest_fill",
    "latency",
}
UNEXPECTED = {"unexp_msg_cnt", "unexp_msg_queue"}

TARGETS: dict[str, Callable[[Mock], Profiled]] = {
    "domain": lambda mock: mock.domain,
    "endpoint": lambda mock: mock.endpoint(),
    "wait set": lambda mock: mock.wait_set(),
    "poll set": lambda mock: mock.poll_set(),
    "CQ": lambda mock: mock.cq(),
}


@pytest.fixture
def memory() -> Iterator[raw.Pages]:
    """A page whose successor is missing."""
    yield from raw.pages()


def close_raw(mock: Mock, handle: int) -> int:
    """Close a handle as the library would not: without its profiles."""
    return raw.call(mock.device.fileno(), "CLOSE", raw.sample("CLOSE", handle=handle))


@pytest.mark.parametrize("name", TARGETS)
def test_target_outlives_its_profiles(mock: Mock, name: str) -> None:
    """F1, O1, B58: closing the target first is EBUSY and changes nothing; two openers."""
    target = TARGETS[name](mock)
    first, second = target.profile(), target.profile()
    assert close_raw(mock, target._handle) == -errno.EBUSY
    first.close()
    assert close_raw(mock, target._handle) == -errno.EBUSY
    assert second.snapshot().keys() == set(second)
    second.close()
    target.profile().close()


def test_profiles_of_an_endpoint_are_limited(mock: Mock) -> None:
    """F1, X3: ENOSPC for one more, which leaves nothing behind; a close makes room."""
    ep = mock.endpoint()
    profiles = [ep.profile() for _ in range(_uapi.KFAB_OBSERVERS_MAX)]
    with pytest.raises(kp.KfiError, match="ENOSPC"):
        ep.profile()
    profiles.pop().close()
    ep.profile()
    ep.close()


def test_other_targets_are_not_supported(mock: Mock) -> None:
    """F1, O2: the kernel's ENOSYS is a user's EOPNOTSUPP; a handle that names nothing is EBADF."""
    buffer = mock.stack.enter_context(mock.device.buffer(4096))
    profile = mock.domain.profile()
    for handle in (
        mock.fabric._handle,
        mock.eq()._handle,
        mock.counter()._handle,
        buffer._handle,
        profile._handle,
    ):
        arg = raw.sample("PROFILE_OPEN", handle=handle)
        assert raw.call(mock.device.fileno(), "PROFILE_OPEN", arg) == -errno.EOPNOTSUPP
        assert arg.out_handle == 0
    for handle in (0, 4711):
        arg = raw.sample("PROFILE_OPEN", handle=handle)
        assert raw.call(mock.device.fileno(), "PROFILE_OPEN", arg) == -errno.EBADF
    profile.close()


@pytest.mark.parametrize("name", TARGETS)
def test_variables_have_names_ids_and_words(mock: Mock, name: str) -> None:
    """F2, F3, F7: the same name is the same id in every class; each can be read as declared."""
    target = TARGETS[name](mock)
    with target.profile() as profile, mock.cq().profile() as other:
        wanted = {"domain": OURS | {"unexp_msg_cnt"}, "endpoint": UNEXPECTED}.get(name, OURS)
        assert wanted <= set(profile)
        for variable in profile.variables.values():
            assert variable.description
            assert all(
                (one.name == variable.name) == (one.id == variable.id)
                for one in other.variables.values()
            )
            value = profile[variable.name]
            assert isinstance(value, int) == (variable.size == 8)


def test_query_counts_and_fills_what_fits(mock: Mock, memory: raw.Pages) -> None:
    """F2, X1: no array: the count; a short one: as many as fit; the count is always the whole.

    The distance between two entries is one entry to one page.
    """
    size = ctypes.sizeof(_uapi.kfab_profile_desc)
    with mock.cq().profile() as profile:
        arg = raw.sample("PROFILE_QUERY", profile=profile._handle, count=77)
        assert raw.call(mock.device.fileno(), "PROFILE_QUERY", arg) == 0
        assert arg.count == len(profile)
        room = (_uapi.kfab_profile_desc * 3)()
        ctypes.memset(room, 0x55, ctypes.sizeof(room))
        arg = raw.sample(
            "PROFILE_QUERY",
            profile=profile._handle,
            descs=ctypes.addressof(room),
            desc_size=size,
            count=2,
        )
        assert raw.call(mock.device.fileno(), "PROFILE_QUERY", arg) == 2
        assert arg.count == len(profile)
        assert [bytes(one.name).split(b"\0")[0].decode() for one in room[:2]] == list(profile)[:2]
        assert room[2].id == 0x55555555
        ctypes.memset(room, 0x55, ctypes.sizeof(room))
        arg.desc_size, arg.count = size + 16, 1
        assert raw.call(mock.device.fileno(), "PROFILE_QUERY", arg) == 1
        assert ctypes.string_at(ctypes.addressof(room) + size, 16) == bytes(16)
        assert ctypes.string_at(ctypes.addressof(room) + size + 16, 1) == b"\x55"
        for desc_size, what in ((size - 1, 0), (mmap.PAGESIZE + 1, 0), (size, 2)):
            arg.desc_size, arg.what = desc_size, what
            assert raw.call(mock.device.fileno(), "PROFILE_QUERY", arg) == -errno.EINVAL
        arg = raw.sample(
            "PROFILE_QUERY", profile=profile._handle, descs=memory.end - size, desc_size=size
        )
        arg.count = 2
        assert raw.call(mock.device.fileno(), "PROFILE_QUERY", arg) == -errno.EFAULT


def read_raw(mock: Mock, profile: kp.Profile, number: int, buf: int, size: int) -> tuple[int, int]:
    """Read a variable; return the result and the size that came back."""
    arg = raw.sample("PROFILE_READ", profile=profile._handle, id=number, buf=buf, buf_size=size)
    result = raw.call(mock.device.fileno(), "PROFILE_READ", arg)
    return result, arg.buf_size


def test_wrong_size_is_etoosmall_and_tells_the_right_one(mock: Mock, memory: raw.Pages) -> None:
    """F3: EINVAL for ids that are not listed; another size is ETOOSMALL, and writes nothing."""
    with mock.cq().profile() as profile:
        for variable in profile.variables.values():
            for size in (0, variable.size - 1, variable.size + 8):
                found = read_raw(mock, profile, variable.id, memory.end, size)
                assert found == (-kp.KfabricErrno.KFI_ETOOSMALL, variable.size)
            at = memory.end - variable.size
            assert read_raw(mock, profile, variable.id, at, variable.size) == (0, variable.size)
            found = read_raw(mock, profile, variable.id, memory.end, variable.size)
            assert found == (-errno.EFAULT, variable.size)
        known = {variable.id for variable in profile.variables.values()}
        for number in {0, 1, 0x10000, 0xFFFFFFFF} - known:
            assert read_raw(mock, profile, number, memory.address, 8)[0] == -errno.EINVAL


def test_all_openers_see_the_same_growing_values(mock: Mock) -> None:
    """F1, B58: a second opener silences nobody, nor does its close."""
    cq = mock.cq()
    ep = mock.endpoint(cq=cq)
    with cq.profile() as first:
        mock.inject(ep, count=3)
        with cq.profile() as second:
            assert first["completions"] == second["completions"] == 3
            mock.inject(ep, count=2)
            assert first["completions"] == second["completions"] == 5
        mock.inject(ep)
        assert first["completions"] == 6


def test_reset_sets_what_can_be_reset(mock: Mock) -> None:
    """F4: to 0, for every opener; what is a state stays."""
    ep = mock.endpoint(cq=mock.cq())
    with ep.profile() as first, ep.profile() as second:
        mock.inject(ep, count=2, err=5)
        mock.command("arrive", ep.trace_id, 3)
        assert first.snapshot() | {"unexp_msg_queue": ()} == {
            "completions": 2,
            "errors": 2,
            "unexp_msg_cnt": 3,
            "unexp_msg_queue": (),
        }
        first.reset()
        for profile in (first, second):
            assert (profile["completions"], profile["errors"]) == (0, 0)
            assert profile["unexp_msg_cnt"] == 3
        assert {one.name for one in first.variables.values() if one.resets} == {
            "completions",
            "errors",
        }


def test_reset_under_sleepers(mock: Mock) -> None:
    """F4, F7: whoever falls asleep or wakes at that moment, no time becomes negative."""
    cq = mock.cq()
    over = threading.Event()

    def sleep_again_and_again() -> None:
        while not over.is_set():
            cq.sread(1, timeout=0.0003)

    threads = [threading.Thread(target=sleep_again_and_again, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with cq.profile() as profile:
            for _ in range(1499):
                profile.reset()
                assert 0 <= profile.number("asleep_ns") < 1 << 62
    finally:
        over.set()
        for thread in threads:
            thread.join(LIMIT)


@pytest.mark.parametrize("name", ["wait set", "poll set", "CQ"])
def test_reset_of_a_queue(mock: Mock, name: str) -> None:
    """F4: everything that says so is 0 afterwards."""
    wait_set = mock.wait_set()
    cq = mock.cq(wait_set=wait_set) if name == "wait set" else mock.cq()
    poll_set = mock.poll_set()
    poll_set.add(cq)
    targets: dict[str, Profiled] = {"wait set": wait_set, "poll set": poll_set, "CQ": cq}
    target = targets[name]
    with target.profile() as profile:
        mock.inject(mock.endpoint(cq=cq))
        assert poll_set.poll() == [cq]
        assert profile.number("signals") == 1
        profile.reset()
        values = profile.snapshot()
    zero = {one.name for one in profile.variables.values() if one.resets}
    assert not any(any(v) if isinstance(v := values[n], tuple) else v for n in zero)


def test_domain_adds_up_its_objects(mock: Mock) -> None:
    """F4, F7: sums over queues and endpoints; what is closed goes on counting."""
    with mock.domain.profile() as profile:
        before = profile.snapshot()
        for count in (3, 4):
            ep = mock.endpoint(cq=mock.cq())
            mock.inject(ep, count=count, err=5)
            mock.command("arrive", ep.trace_id, count)
        after = profile.snapshot()
        assert profile.number("unexp_msg_cnt") == 7
        ep.close()
        last = profile.snapshot()
    for name in ("completions", "errors", "signals"):
        assert _number(after, name) - _number(before, name) == 7, name
        assert last[name] == after[name], name
    assert last["unexp_msg_cnt"] == 3
    assert after["deepest_fill"] == 4


def _signalled(mock: Mock) -> kp.CompletionQueue:
    """Open a queue that counts one signal, and that nothing uses."""
    cq = mock.domain.cq(8)
    with mock.fabric.eq() as eq, mock.domain.endpoint(mock.info) as ep:
        ep.bind(cq, recv=True, transmit=True)
        ep.bind(eq)
        ep.enable()
        mock.inject(ep)
    return cq


def test_adding_up_a_domain_keeps_no_open_or_close_waiting(mock: Mock, in_thread: InThread) -> None:
    """F4, O1: hook D11: after the first queue another one closes; it is counted once."""
    _first, doomed, last = [_signalled(mock) for _ in range(3)]
    with mock.domain.profile() as profile:
        before = profile.number("signals")
        hook = mock.hook("D11", mock.domain)
        reading = in_thread(lambda: profile.number("signals"))
        hook.stopped()
        in_thread(doomed.close).result()
        in_thread(lambda: mock.domain.cq(8)).result()
        hook.go()
        assert reading.result() == before
        assert profile.number("signals") == before
        hook = mock.hook("D11", mock.domain)
        resetting = in_thread(profile.reset)
        hook.stopped()
        in_thread(last.close).result()
        hook.go()
        resetting.result()
        assert profile.number("signals") == 0


def _numbers(values: dict[str, Any], name: str) -> list[int]:
    """The value of a variable that is a list of numbers."""
    value = values[name]
    assert isinstance(value, tuple)
    return [number for number in value if isinstance(number, int)]


def _number(values: dict[str, Any], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value


def test_unexpected_messages_are_counted_and_listed(keeper: Keeper) -> None:
    """F5: kept until a receive is posted, oldest first; then they complete it."""
    with keeper.ep.profile() as profile:
        assert (profile["unexp_msg_cnt"], profile["unexp_msg_queue"]) == (0, ())
        for number in range(100):
            keeper.arrive(number, data=number)
        assert profile["unexp_msg_cnt"] == 100
        queue = profile["unexp_msg_queue"]
        assert isinstance(queue, tuple) and len(queue) == 100
        assert queue[97] == kp.Message(
            kp.CqFlags.MSG | kp.CqFlags.RECV | kp.CqFlags.REMOTE_CQ_DATA, 97, 97, 0
        )
        entry = keeper.receive()
        assert profile["unexp_msg_cnt"] == 99
        assert (entry.len, entry.data) == (0, 0)
        keeper.arrive(497)
        assert [keeper.receive().len for _ in range(100)] == [*range(1, 100), 497]
        assert (profile["unexp_msg_cnt"], profile["unexp_msg_queue"]) == (0, ())


def test_snapshot_is_of_one_instant_under_load(keeper: Keeper, in_thread: InThread) -> None:
    """F4: count and queue agree, errors never exceed completions, while both change."""
    over = threading.Event()

    def traffic() -> int:
        rounds = 0
        while not over.is_set():
            keeper.arrive(*range(7))
            for _ in range(7):
                keeper.receive()
            keeper.fail()
            rounds += 1
        return rounds

    call = in_thread(traffic)
    seen = set()
    with keeper.ep.profile() as profile:
        for _ in range(297):
            values = profile.snapshot()
            queue = values["unexp_msg_queue"]
            assert isinstance(queue, tuple)
            assert values["unexp_msg_cnt"] == len(queue)
            assert _number(values, "errors") <= _number(values, "completions")
            seen.add(len(queue))
    over.set()
    assert call.result() > 0
    assert len(seen) > 1


def test_snapshot_of_a_queue_under_load(mock: Mock, in_thread: InThread) -> None:
    """F4, F7: what is told under one lock is consistent: each wake-up is in the histogram once."""
    wait_set = mock.wait_set()
    cq = mock.cq(1024, wait_set=wait_set)
    ep = mock.endpoint(cq=cq)
    over = threading.Event()

    def sleeper() -> None:
        while not over.is_set():
            wait_set.wait(timeout=LIMIT)
            cq.read(16)

    calls = [in_thread(sleeper) for _ in range(2)]
    with wait_set.profile() as profile:
        for _ in range(197):
            mock.inject(ep, context="softirq")
            values = profile.snapshot()
            latency = _numbers(values, "latency")
            assert sum(latency) <= _number(values, "wakes") <= _number(values, "sleeps")
            assert _number(values, "asleep") <= _number(values, "most_asleep") <= 2
            assert _number(values, "overtaken") <= _number(values, "wakes")
            assert values["spurious"] == values["timeouts"] == values["interrupts"] == 0
        over.set()
        while not all(call.done for call in calls):
            mock.inject(ep)
        for call in calls:
            call.result()
        values = profile.snapshot()
        latency = _numbers(values, "latency")
        assert sum(latency) == values["wakes"]
        assert values["asleep"] == 0


def test_time_asleep_is_told_while_it_passes(mock: Mock, in_thread: InThread) -> None:
    """F7: how long somebody has slept, and how many sleep."""
    wait_set = mock.wait_set()
    ep = mock.endpoint(cq=mock.cq(wait_set=wait_set))
    with wait_set.profile() as profile:
        call = in_thread(lambda: wait_set.wait(timeout=LIMIT)).asleep()
        first = profile.snapshot()
        second = profile.snapshot()
        assert first["asleep"] == second["asleep"] == 1
        assert 0 < _number(first, "longest_ns") < _number(second, "longest_ns")
        mock.inject(ep)
        call.result()
        last = profile.snapshot()
    assert (last["asleep"], last["longest_ns"]) == (0, 0)
    assert _number(last, "asleep_ns") >= _number(second, "longest_ns")


def test_commands_that_make_no_sense(mock: Mock) -> None:
    """F4, F6, O2: EINVAL; a second start is EBUSY."""
    with mock.endpoint().profile() as profile:

        def control(command: int, number: int = 0) -> int:
            arg = raw.sample("PROFILE_CONTROL", profile=profile._handle, command=command, id=number)
            return raw.call(mock.device.fileno(), "PROFILE_CONTROL", arg)

        assert control(_uapi.KFAB_PROFILE_END_READS) == -errno.EINVAL
        assert control(_uapi.KFAB_PROFILE_START_READS) == 0
        assert control(_uapi.KFAB_PROFILE_START_READS) == -errno.EBUSY
        assert control(_uapi.KFAB_PROFILE_END_READS) == 0
        assert control(_uapi.KFAB_PROFILE_RESET, 1) == -errno.EINVAL
        assert control(_uapi.KFAB_PROFILE_KEEP, 77) == -errno.EINVAL
        assert control(_uapi.KFAB_PROFILE_DISCARD, 77) == -errno.EINVAL
        assert control(77) == -errno.EINVAL


def test_poll_set_counts_what_it_reports(mock: Mock) -> None:
    """F7, P7: publications, reports, what was read before it was polled; none in vain."""
    cq, cntr = mock.cq(), mock.counter()
    poll_set = mock.poll_set()
    poll_set.add(cq)
    poll_set.add(cntr)
    ep = mock.endpoint(cq=cq, cntr=cntr)
    with poll_set.profile() as profile:
        mock.inject(ep)
        assert set(poll_set.poll(4)) == {cq, cntr}
        assert cq.read()
        mock.inject(ep)
        assert cq.read()
        assert poll_set.poll(4) == [cntr]
        values = profile.snapshot()
    latency = _numbers(values, "latency")
    assert values["signals"] == 4
    assert values["wakes"] == sum(latency) == 3
    # The CQ was still listed after the first report, and again when it was read.
    assert values["overtaken"] == 1
    assert values["deepest_fill"] == 2
    assert values["spurious"] == 0


def test_overrun_is_counted(mock: Mock) -> None:
    """F7, Q2: completions that found no room."""
    cq = mock.cq(4)
    ep = mock.endpoint(cq=cq)
    poll_set = mock.poll_set()
    poll_set.add(cq)
    with cq.profile() as profile, poll_set.profile() as members:
        mock.inject(ep, count=7)
        assert (profile["completions"], profile["overruns"]) == (4, 3)
        assert profile["deepest_fill"] == 4
        assert members["overruns"] == 3


def test_endpoint_of_a_real_device(connected_pair: tuple[Side, Side]) -> None:
    """F1, F3: a connected endpoint counts what it has reported."""
    here, there = connected_pair
    with here.ep.profile() as profile, there.wait_set.profile() as waits:
        there.ep.recv(there.buffer[:64])
        here.ep.send(here.buffer[:64])
        while there.cntr.read() < 1:
            there.wait_set.wait(timeout=LIMIT)
        assert profile.number("errors") == 0
        assert waits.number("signals") >= 1


def test_client_that_goes_takes_its_profiles(mock: Mock, in_child: InChild) -> None:
    """O4, F1: at exit profiles are closed before what they are of, with events unread."""

    def child(report: Callable[[str], None]) -> int:
        device = kp.Device()
        info = device.getinfo(provider="mock")[0]
        domain = device.fabric(info).domain(info)
        cq = domain.cq()
        ep = domain.endpoint(info)
        ep.bind(cq, recv=True, transmit=True)
        ep.enable()
        profiles = [target.profile() for target in (domain, ep, cq, ep)]
        profiles[1].keep()
        mock.command("arrive", ep.trace_id, 7)
        return len(profiles[1].read(4))

    assert in_child(child).wait() == 4
