# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The frame of every ioctl: sizes, tails, flags, padding, numbers, garbage."""

from __future__ import annotations

import ctypes
import errno
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import uapi_support as raw
from guest_support import Mock

import kfabric_py as kp
from kfabric_py import _uapi

NAMES = sorted(raw.CALLS)
RESERVED = [name for name in NAMES if "__reserved" in raw.fields(raw.CALLS[name][1])]

#: What the documentation lists; anything else must never come out.
DOCUMENTED = {
    errno.EFAULT,
    errno.EINVAL,
    errno.E2BIG,
    errno.EBADF,
    errno.EOPNOTSUPP,
    errno.EBUSY,
    errno.EMFILE,
    errno.ENOBUFS,
    errno.ENOSPC,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.ETIMEDOUT,
    errno.ENODEV,
    errno.ENODATA,
    errno.EALREADY,
    errno.EMSGSIZE,
    errno.ENOTCONN,
    errno.ENOENT,
    errno.ENOPROTOOPT,
    *kp.KfabricErrno,
}


@pytest.fixture
def memory() -> Iterator[raw.Pages]:
    """A page whose successor is missing."""
    yield from raw.pages()


def sized(name: str, size: int, tail: bytes = b"") -> bytes:
    """Return a zeroed structure that says it has this size, and what is behind it."""
    length = ctypes.sizeof(raw.CALLS[name][1])
    return size.to_bytes(4, "little") + bytes(length - 4) + tail


def test_table_has_every_ioctl() -> None:
    """X1: the tests below leave none out."""
    known = {name for name in vars(_uapi) if name.startswith("KFAB_IOC_")} - {"KFAB_IOC_MAGIC"}
    assert {f"KFAB_IOC_{name}" for name in NAMES} == known


@pytest.mark.parametrize("name", NAMES)
def test_too_short_a_structure_is_refused(device: kp.Device, memory: raw.Pages, name: str) -> None:
    """X1: below the size of the first version nothing is guessed: EINVAL."""
    request, struct = raw.CALLS[name]
    for size in (0, 4, 8, ctypes.sizeof(struct) - 1):
        address = memory.put(sized(name, size))
        assert raw.ioctl(device.fileno(), request, address) == -errno.EINVAL


@pytest.mark.parametrize("name", NAMES)
def test_longer_structure_with_zero_tail_is_served(
    device: kp.Device, memory: raw.Pages, name: str
) -> None:
    """X1: a caller of a later version that uses nothing of it gets the same answer."""
    request, struct = raw.CALLS[name]
    size = ctypes.sizeof(struct)
    exact = raw.ioctl(device.fileno(), request, memory.put(sized(name, size)))
    longer = raw.ioctl(device.fileno(), request, memory.put(sized(name, size + 64, bytes(64))))
    assert raw.text(longer) == raw.text(exact)


@pytest.mark.parametrize("name", NAMES)
def test_longer_structure_with_something_in_its_tail_is_refused(
    device: kp.Device, memory: raw.Pages, name: str
) -> None:
    """X1: E2BIG, wherever the byte is; more than a page is refused unread."""
    request, struct = raw.CALLS[name]
    size = ctypes.sizeof(struct)
    for tail in (b"\1" + bytes(63), bytes(63) + b"\1"):
        address = memory.put(sized(name, size + 64, tail))
        assert raw.ioctl(device.fileno(), request, address) == -errno.E2BIG
    address = memory.put(sized(name, raw.PAGE + 1), at_end=True)
    assert raw.ioctl(device.fileno(), request, address) == -errno.E2BIG


@pytest.mark.parametrize("name", NAMES)
def test_size_beyond_the_callers_memory_is_a_fault(
    device: kp.Device, memory: raw.Pages, name: str
) -> None:
    """X1: the size is believed only as far as there is memory: EFAULT."""
    request, struct = raw.CALLS[name]
    address = memory.put(sized(name, ctypes.sizeof(struct) + 8), at_end=True)
    assert raw.ioctl(device.fileno(), request, address) == -errno.EFAULT
    assert raw.ioctl(device.fileno(), request, memory.end) == -errno.EFAULT
    assert raw.ioctl(device.fileno(), request, 0) == -errno.EFAULT


@pytest.mark.parametrize("name", NAMES)
def test_unknown_flag_is_refused(device: kp.Device, name: str) -> None:
    """X1: every bit of the flags field that means nothing is EINVAL."""
    one = ("CLOSE", "SEND", "TSEND", "WRITE", "ATOMIC", "CQ_SREAD")
    two = ("CQ_READ", "GET_CQ_EVENT", "REQ_NOTIFY")
    known = 1 if name in one else 3 if name in two else 0
    for bit in (0, 1, 15, 31):
        if 1 << bit & known:
            continue
        arg = raw.sample(name, flags=1 << bit)
        assert raw.call(device.fileno(), name, arg) == -errno.EINVAL


@pytest.mark.parametrize("name", RESERVED)
def test_padding_must_be_zero(device: kp.Device, name: str) -> None:
    """X1: EINVAL otherwise, so that padding can become a field."""
    arg = raw.sample(name)
    setattr(arg, "__reserved", 1)
    assert raw.call(device.fileno(), name, arg) == -errno.EINVAL


def test_unknown_number_is_enotty(device: kp.Device, memory: raw.Pages) -> None:
    """X1: a number that is not in the table, another magic, another direction."""
    address = memory.put(sized("VERSION", 48))
    used = {request & 0xFF for request, _ in raw.CALLS.values()}
    for nr in set(range(256)) - used:
        assert raw.ioctl(device.fileno(), raw.number(nr), address) == -errno.ENOTTY
    for magic in (0, raw.MAGIC - 1, raw.MAGIC + 1):
        assert raw.ioctl(device.fileno(), raw.number(0, magic=magic), address) == -errno.ENOTTY
    for direction in (0, 1, 2):
        request = raw.number(0, direction=direction)
        assert raw.ioctl(device.fileno(), request, address) == -errno.ENOTTY


def test_size_in_the_number_does_not_matter(device: kp.Device) -> None:
    """X1: which version a structure is, it says itself."""
    arg = _uapi.kfab_version(size=ctypes.sizeof(_uapi.kfab_version))
    for size in (8, 200, 16383):
        arg.out_abi = 0
        request = raw.number(0, size)
        assert raw.ioctl(device.fileno(), request, ctypes.addressof(arg)) == 0
        assert arg.out_abi == 1


def test_head_stays_the_callers(device: kp.Device) -> None:
    """X1: size and flags are input; outputs are written although they were not zero."""
    arg = _uapi.kfab_version()
    ctypes.memset(ctypes.addressof(arg), 0xCC, ctypes.sizeof(arg))
    arg.flags = 0
    assert raw.call(device.fileno(), "VERSION", arg) == 0
    assert (arg.size, arg.flags, arg.out_abi) == (ctypes.sizeof(arg), 0, 1)
    assert arg.out_objects == 0


def test_failed_call_writes_nothing(device: kp.Device) -> None:
    """X1: the structure is as it was, also its output fields."""
    for name in NAMES:
        arg = raw.sample(name)
        ctypes.memset(ctypes.addressof(arg), 0xCC, ctypes.sizeof(arg))
        arg.size, arg.flags = ctypes.sizeof(arg), 0
        if name in RESERVED:
            setattr(arg, "__reserved", 0)
        before = bytes(arg)
        if name == "VERSION":
            continue
        assert raw.ioctl(device.fileno(), raw.CALLS[name][0], ctypes.addressof(arg)) < 0
        assert bytes(arg) == before, name


def test_strings_must_end(device: kp.Device) -> None:
    """X1: a name that fills its field, or a node that is too long, is EINVAL."""
    info = _uapi.kfab_info(size=ctypes.sizeof(_uapi.kfab_info))
    ctypes.memset(ctypes.addressof(info.prov_name), 0x41, _uapi.KFAB_NAME_MAX)
    arg = raw.sample("FABRIC_OPEN", info=ctypes.addressof(info))
    assert raw.call(device.fileno(), "FABRIC_OPEN", arg) == -errno.EINVAL
    node = ctypes.create_string_buffer(b"1" * _uapi.KFAB_NODE_MAX)
    ask = raw.sample("GETINFO", node=ctypes.addressof(node))
    assert raw.call(device.fileno(), "GETINFO", ask) == -errno.EINVAL


def test_info_has_a_frame_of_its_own(device: kp.Device, memory: raw.Pages) -> None:
    """X1: the same rules for the structure that calls point to."""
    size = ctypes.sizeof(_uapi.kfab_info)

    def ask(info_size: int, tail: bytes = b"", **fields: int) -> int:
        info = _uapi.kfab_info(size=info_size, **fields)
        info.prov_name[:4] = list(b"mock")
        arg = raw.sample("GETINFO", hints=memory.put(bytes(info) + tail))
        return raw.call(device.fileno(), "GETINFO", arg)

    assert ask(size) == 0
    assert ask(size - 1) == -errno.EINVAL
    assert ask(size + 8, bytes(8)) == 0
    assert ask(size + 8, b"\1" + bytes(7)) == -errno.E2BIG
    assert ask(size, flags=1) == -errno.EINVAL
    assert ask(size, src_addrlen=_uapi.KFAB_ADDR_MAX + 1) == -errno.EINVAL


def test_getinfo_tells_how_many_there_are(device: kp.Device) -> None:
    """X1: count comes back as what exists, the result is what was written."""
    hints = _uapi.kfab_info(size=ctypes.sizeof(_uapi.kfab_info))
    hints.prov_name[:4] = list(b"mock")
    ask = raw.sample("GETINFO", hints=ctypes.addressof(hints))
    assert raw.call(device.fileno(), "GETINFO", ask) == 0
    assert ask.count >= 1
    room = (_uapi.kfab_info * ask.count)()
    ask.infos, ask.info_size = ctypes.addressof(room), ctypes.sizeof(_uapi.kfab_info)
    assert raw.call(device.fileno(), "GETINFO", ask) == len(room)
    assert bytes(room[0].prov_name).rstrip(b"\0") == b"mock"
    assert room[0].size == ctypes.sizeof(_uapi.kfab_info)


def test_mode_that_a_user_cannot_serve_is_refused(device: kp.Device) -> None:
    """O2: contexts of a user are numbers, so KFI_CONTEXT is EOPNOTSUPP."""
    hints = _uapi.kfab_info(size=ctypes.sizeof(_uapi.kfab_info), mode=_uapi.KFAB_CONTEXT)
    ask = raw.sample("GETINFO", hints=ctypes.addressof(hints))
    assert raw.call(device.fileno(), "GETINFO", ask) == -errno.EOPNOTSUPP


def test_deadline_before_the_clock_began_is_refused(mock: Mock) -> None:
    """W5: negative deadlines are EINVAL, in every blocking call."""
    fd = mock.device.fileno()
    cq, eq = mock.cq(), mock.eq()
    cntr, wait = mock.counter(wait_obj=kp.WaitObj.UNSPEC), mock.wait_set()
    entry = _uapi.kfab_cq_entry()
    calls = {
        "CQ_SREAD": {"cq": cq._handle, "count": 1, "entries": ctypes.addressof(entry)},
        "EQ_SREAD": {"eq": eq._handle},
        "CNTR_WAIT": {"cntr": cntr._handle},
        "WAIT": {"wait": wait._handle},
        "BATCH": {"wait": wait._handle},
    }
    for name, fields in calls.items():
        arg = raw.sample(name, deadline=-1, **fields)
        assert raw.call(fd, name, arg) == -errno.EINVAL, name


def test_unknown_wait_object_is_refused(mock: Mock) -> None:
    """O2: one that exists nowhere is EINVAL; an unknown format, condition, class of events, too."""
    fd, domain, fabric = mock.device.fileno(), mock.domain._handle, mock.fabric._handle
    for name, fields in {
        "CQ_OPEN": {"domain": domain, "wait_obj": 99},
        "EQ_OPEN": {"fabric": fabric, "wait_obj": 99},
        "CNTR_OPEN": {"domain": domain, "wait_obj": 99},
        "WAIT_OPEN": {"fabric": fabric, "wait_obj": 99},
    }.items():
        assert raw.call(fd, name, raw.sample(name, **fields)) == -errno.EINVAL, name
    for field in ("format", "wait_cond"):
        arg = raw.sample("CQ_OPEN", domain=domain, **{field: 99})
        assert raw.call(fd, "CQ_OPEN", arg) == -errno.EINVAL, field
    arg = raw.sample("CNTR_OPEN", domain=domain, events=99)
    assert raw.call(fd, "CNTR_OPEN", arg) == -errno.EINVAL


def test_wait_set_without_its_wait_object_is_refused(mock: Mock) -> None:
    """O2: a wait set goes with KFAB_WAIT_SET, and only with it."""
    wait = mock.wait_set()._handle
    for kind in (kp.WaitObj.NONE, kp.WaitObj.UNSPEC, kp.WaitObj.QUEUE):
        arg = raw.sample("CQ_OPEN", domain=mock.domain._handle, wait_obj=kind, wait_set=wait)
        assert raw.call(mock.device.fileno(), "CQ_OPEN", arg) == -errno.EINVAL
    arg = raw.sample("CQ_OPEN", domain=mock.domain._handle, wait_obj=kp.WaitObj.SET)
    assert raw.call(mock.device.fileno(), "CQ_OPEN", arg) == -errno.EBADF


@pytest.mark.parametrize(
    ("kind", "getwait"),
    [
        (kp.WaitObj.UNSPEC, errno.EINVAL),
        (kp.WaitObj.QUEUE, errno.EOPNOTSUPP),
    ],
)
def test_control_tells_the_kind_and_gives_no_kernel_object(
    mock: Mock, kind: kp.WaitObj, getwait: int
) -> None:
    """W8, T4: GETWAITOBJ tells, GETWAIT is refused with its documented code."""
    fd = mock.device.fileno()
    for obj in (
        mock.wait_set(wait_obj=kind),
        mock.cq(wait_obj=kind),
        mock.eq(wait_obj=kind),
        mock.counter(wait_obj=kind),
    ):
        arg = raw.sample("CONTROL", handle=obj._handle, command=_uapi.KFAB_GETWAITOBJ)
        assert raw.call(fd, "CONTROL", arg) == 0
        assert arg.value == kind
        arg = raw.sample("CONTROL", handle=obj._handle, command=_uapi.KFAB_GETWAIT)
        assert raw.call(fd, "CONTROL", arg) == -getwait


def test_control_knows_what_it_does_not_do(mock: Mock) -> None:
    """T4, O2: known commands EOPNOTSUPP, unknown ones EINVAL."""
    cq = mock.cq()._handle
    for command in (0, 1, 2, 3, 4, 7, 14):
        arg = raw.sample("CONTROL", handle=cq, command=command)
        assert raw.call(mock.device.fileno(), "CONTROL", arg) == -errno.EOPNOTSUPP
    for command in (16, 1 << 31):
        arg = raw.sample("CONTROL", handle=cq, command=command)
        assert raw.call(mock.device.fileno(), "CONTROL", arg) == -errno.EINVAL


def test_device_is_for_root_only() -> None:
    """X1: mode 0600."""
    assert Path("/dev/kfabric").stat().st_mode & 0o777 == 0o600


def test_garbage_gets_a_documented_errno(mock: Mock, memory: raw.Pages) -> None:
    """X1: thousands of random structures on live objects: a listed errno or success.

    Deadlines are in the past, so that nothing blocks. Nothing may be reported by
    the kernel (the fixture of every guest test looks).
    """
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    ep = mock.endpoint(cq=mock.cq(), cntr=mock.counter())
    live = list(range(1, ep._handle + 2))
    addresses = [0, memory.address, memory.end - 8, memory.end, 1 << 63, (1 << 64) - 1]
    numbers = [0, 0, 0, 1, 2, 7, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1]
    handles = {field for fields in raw.HANDLES.values() for field in fields} | {"wait_set"}
    pointers = {"entries", "info", "iov", "rma_iov", "node", "hints", "infos", "buf", "param"}
    pointers |= {"compare", "result", "addrs", "out_addrs", "posts", "reads"}
    seen: set[int] = set()
    opened: list[int] = []
    for _ in range(5009):
        name = rng.choice(NAMES)
        if name == "CLOSE":
            continue
        arg = raw.sample(name)
        for field, kind in raw.fields(raw.CALLS[name][1]).items():
            if rng.random() < 0.3 or field in ("size", "flags", "__reserved"):
                continue
            if field == "deadline":
                value = rng.choice([0, 1, 497])
            elif field in handles:
                value = rng.choice(live)
            elif field in pointers or field in ("addr", "cm_data", "err_data", "service"):
                value = rng.choice(addresses)
            else:
                value = rng.choice([*numbers, rng.getrandbits(64)])
            if isinstance(kind(), int):
                setattr(arg, field, value & ((1 << 8 * ctypes.sizeof(kind)) - 1))
        result = raw.call(mock.device.fileno(), name, arg)
        if result < 0:
            seen.add(-result)
            assert -result in DOCUMENTED, (name, raw.text(result), seed)
        elif name.endswith(("_OPEN", "_REG", "_ALLOC")):
            opened.append(arg.out_handle)
    for handle in reversed(opened):
        raw.call(mock.device.fileno(), "CLOSE", raw.sample("CLOSE", handle=handle))
    assert {errno.EFAULT, errno.EINVAL, errno.EBADF} <= seen


#: Errors of the kernel's interface and of drivers, and what users get in their place.
FOR_USERS = {
    5: errno.EIO,
    38: errno.EOPNOTSUPP,
    256: errno.EIO,
    257: errno.ERANGE,
    258: errno.EBADFD,
    259: errno.EBADMSG,
    260: errno.EBADRQC,
    261: errno.EUNATCH,
    262: errno.EXDEV,
    263: errno.ENOSR,
    264: errno.EIO,
    265: errno.EMSGSIZE,
    266: errno.ENOKEY,
    267: errno.EDESTADDRREQ,
    268: errno.EOVERFLOW,
    512: errno.EIO,
    524: errno.EOPNOTSUPP,
}


@pytest.mark.parametrize(("number", "wanted"), FOR_USERS.items())
def test_error_entries_have_numbers_of_linux(mock: Mock, number: int, wanted: int) -> None:
    """X1: whatever a provider reports, each C library has a text for the number."""
    cq, eq = mock.cq(), mock.eq()
    ep = mock.endpoint(cq=cq, eq=eq)
    mock.inject(ep, err=number)
    mock.command("eqerr", ep.trace_id, f"err={number}")
    entry, event = cq.readerr(), eq.readerr()
    assert entry is not None and event is not None
    assert (entry.err, event.err) == (wanted, wanted)
    assert wanted in errno.errorcode


def test_calls_fail_with_numbers_of_linux(mock: Mock) -> None:
    """X1: KFAB_EOPBADSTATE is a name of one, and its text says more."""
    with mock.device.buffer(64) as buffer, mock.domain.endpoint(mock.info) as ep:
        ep.bind(mock.cq(), recv=True, transmit=True)
        with pytest.raises(kp.BadState) as caught:
            ep.recv(buffer)
    assert caught.value.errno == errno.EBADFD
    room = ctypes.create_string_buffer(80)
    arg = raw.sample("STRERROR", err=errno.EBADFD, buf_size=len(room))
    arg.buf = ctypes.addressof(room)
    assert raw.call(mock.device.fileno(), "STRERROR", arg) == len(room.value)
    assert room.value == b"Object is not in the right state"
