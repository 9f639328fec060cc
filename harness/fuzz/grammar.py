# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The grammar: values for each field of each call, and the class of object that a call produces."""

from collections.abc import Mapping
from ctypes import Structure, sizeof
from typing import Final

from kfabric.fuzz.calls import CALLS, HANDLES
from kfabric.fuzz.kinds import (
    Draw,
    Kind,
    address,
    at,
    bits,
    calls,
    deadline,
    handle,
    handles,
    info,
    one_of,
    peer,
    perhaps,
    pieces,
    remote,
    room,
    text,
)
from kfabric_py import _uapi as u

CONNECTED: Final = ("mock", "mock", "manual", "msg")
OBJECTS: Final = (
    *("fabric", "domain", "eq", "wait", "cq", "cntr", "poll", "pep", "ep", "buf", "mr"),
    *("av", "sep", "tx", "rx", "channel", "profile", "connreq"),
)

_ZERO = one_of(0)
_SOON = deadline(0, 1, 5, 20)
_TAG = one_of(0, 1, 2, 3)
_OP_FLAGS = bits(
    *(u.KFAB_COMPLETION, u.KFAB_INJECT, u.KFAB_REMOTE_CQ_DATA, u.KFAB_MULTI_RECV, u.KFAB_MORE),
    *(u.KFAB_DELIVERY_COMPLETE, u.KFAB_TRANSMIT_COMPLETE, u.KFAB_INJECT_COMPLETE),
    *(u.KFAB_FENCE, u.KFAB_SOLICITED, u.KFAB_TAGGED, u.KFAB_PEEK),
    most=2,
)

#: Fields that are the same in every call that has them.
_COMMON: Final = {
    "context": one_of(0, 1, 2, 3, 497),
    "wait_obj": one_of(0, 1, 1, 1, 2, 2, 2, 3, 4, 5, 5, 5, 7),
    "wait_set": handle("wait", or_none=0.1),
    "op_flags": perhaps(_OP_FLAGS, 0.4),
    **dict.fromkeys(("offset", "mr_flags", "level", "av_flags", "remove_flags"), _ZERO),
    **dict.fromkeys(("poll_flags", "how"), _ZERO),
}
_MSG: Final = {
    "iov_count": one_of(0, 1, 1, 1, 1, 1, 2),
    "iov": pieces(),
    "data": _TAG,
    "addr": peer(),
}
_TAGGED: Final = {"tag": _TAG, "ignore": one_of(0, 0, 0, 1, 0xFFFFFFFFFFFFFFFF)}
_RMA: Final = {**_MSG, "rma_iov": remote(), "rma_iov_count": one_of(1, 1, 1, 1, 0, 2)}
_ATOMIC: Final = {
    "datatype": one_of(7, 7, 7, *range(14)),
    "op": one_of(*range(19)),
    "iov_count": one_of(1, 1, 1, 0),
    "compare_count": one_of(1, 0),
    "result_count": one_of(1, 0),
    "iov": pieces(1),
    "compare": pieces(1),
    "result": pieces(1),
    "rma_iov": remote(),
    "rma_iov_count": one_of(1, 1, 1, 0),
    "addr": peer(),
}
_CQ_READ: Final = {
    "count": one_of(0, 1, 1, 2, 4, 8),
    "entries": room(512, 1024),
    "cond": one_of(0, 0, 0, 1, 3),
}
_EQ_READ: Final = {
    "data_len": one_of(0, 256, 256),
    "cm_data": perhaps(room(256)),
    "info": perhaps(info("msg"), 0.3),
    "read_flags": one_of(0, 0, 0, u.KFAB_PEEK),
}
_READERR: Final = {
    "err_data_size": one_of(0, 16, 256),
    "err_data": perhaps(room(256)),
    "read_flags": one_of(0, 0, 0, u.KFAB_PEEK),
}
_CNTR: Final = {"value": one_of(0, 1, 2, 100)}
_CM: Final = {"param": perhaps(text("hello", "x" * 56)), "param_len": one_of(0, 1, 5, 56, 256)}
_CTX_OPEN: Final = {"index": one_of(0, 0, 1, 1, 2), "info": perhaps(info("sep"))}
_NAME: Final = {"addr_len": one_of(0, 8, 16, 128), "addr": room(128)}


def _any_call(draw: Draw) -> str:
    return draw.rng.choice(list(CALLS))


def _post(draw: Draw) -> str:
    op = draw.rng.choice(["RECV", "RECV", "SEND", "SEND", "TRECV", "TSEND", "READ", "WRITE"])
    if draw.rng.random() < draw.wild:
        return _any_call(draw)
    words = f"{op},ep={draw.name(('ep', 'tx', 'rx'))},context={draw.rng.randrange(4)}"
    if draw.rng.random() < 0.5:
        words += f",iov_count=1,iov=@iov:{draw.name(('buf',))}/0/0/8"
    if op in ("READ", "WRITE"):
        region = draw.name(("mr",))
        start, key = (f"{region}.iova", f"{region}.key") if region != "0" else ("0", "0")
        words += f",rma_iov_count=1,rma_iov=@rma:{start}/8/{key}"
    return words


def _read(draw: Draw) -> str:
    if draw.rng.random() < draw.wild:
        return _any_call(draw)
    op = draw.rng.choice(["CQ_READ", "CQ_READ", "CQ_READERR", "EQ_READ", "EQ_READERR", "CNTR_READ"])
    kind = op.partition("_")[0].lower()
    words = f"{op},{kind}={draw.name((kind,))}"
    return f"{words},count=4,entries=@out:256" if op == "CQ_READ" else words


#: Ids of a profile's variables: those of endpoints that keep messages, and the core's.
_VARIABLES: Final = (0, 1, *range(0x1000, 0x1011))

#: The fields of each ioctl that are neither common nor handles of the classes in HANDLES.
_FIELDS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "GETINFO": {
        "version": one_of(0, 0, 0x10000, 0x10001),
        "info_size": one_of(*[sizeof(u.kfab_info)] * 3, 8, 64),
        "getinfo_flags": bits(u.KFAB_SOURCE, u.KFAB_NUMERICHOST, u.KFAB_PROV_ATTR_ONLY, most=1),
        "node": text("", "localhost", "::1", "0x10"),
        "service": text("4791", "0", "99999", "http"),
        "hints": perhaps(info(), 0.8),
        "infos": perhaps(room(8192), 0.7),
        "count": one_of(0, 1, 2, 6),
    },
    "CNTR_OPEN": {"events": _ZERO},
    "CLOSE": {"handle": handle(*OBJECTS)},
    "BIND": {
        "to": handle("cq", "eq", "cntr", "av", "ep", "rx"),
        "bind_flags": one_of(
            *(0, 0, u.KFAB_TRANSMIT | u.KFAB_RECV, u.KFAB_TRANSMIT | u.KFAB_RECV),
            *(u.KFAB_TRANSMIT, u.KFAB_RECV, u.KFAB_REMOTE_WRITE | u.KFAB_REMOTE_READ),
            u.KFAB_TRANSMIT | u.KFAB_RECV | u.KFAB_SELECTIVE_COMPLETION,
            u.KFAB_READ | u.KFAB_WRITE,
        ),
    },
    "CONTROL": {
        "handle": handle(
            "ep", "tx", "rx", "mr", "sep", "cq", "eq", "cntr", "wait", "channel", "profile"
        ),
        "command": one_of(5, 5, 5, 6, 6, 15, 0, 1, 2, 7, 14, 16),
        "value": one_of(0, 0, u.KFAB_WAIT_EXCLUSIVE, 1),
    },
    "STRERROR": {
        "handle": handle("cq", "eq", or_none=0.4),
        "err": one_of(0, 1, 5, 110, 256, 268, 300, -1),
        "buf": room(64),
        "buf_size": one_of(1, 2, 64, 0),
    },
    "FABRIC_OPEN": {"info": info(*CONNECTED, "rdm")},
    "DOMAIN_OPEN": {"info": info()},
    "EQ_OPEN": {"entries": one_of(0, 0, 1, 2, 16)},
    "WAIT_OPEN": {"wait_obj": one_of(1, 3, 4, 5, 6, 6, 7)},
    "CQ_OPEN": {
        "format": one_of(0, 0, 1, 2, 3, 4),
        "wait_cond": one_of(0, 0, 1),
        "signaling_vector": one_of(0, 0, 1, 2),
        "cq_flags": one_of(0, 0, 0, u.KFAB_AFFINITY),
        "entries": one_of(0, 1, 2, 16, 64),
    },
    "PEP_OPEN": {"info": info("msg")},
    "EP_OPEN": {
        "connreq": handle("connreq", or_none=0.8),
        "info": info("mock", "msg", "rdm", "cxi"),
    },
    "BUF_ALLOC": {"length": one_of(1, 64, 4096, 8192, 8192, 65536)},
    "MR_REG": {
        "iov_count": one_of(1, 1, 1, 2),
        "iov": pieces(2),
        "access": one_of(*[0x3F00] * 3, 0x3000, 0x1000, 0xC00),
        "requested_key": one_of(*range(8)),
    },
    "CONNECT": {"addr": address(), "addr_len": one_of(16, 16, 16, 8, 0, 128), **_CM},
    "ACCEPT": {"addr": _ZERO, "addr_len": _ZERO, **_CM},
    "REJECT": {"connreq": handle("connreq"), **_CM},
    **dict.fromkeys(("GETNAME", "GETPEER"), _NAME),
    **dict.fromkeys(("RECV", "SEND"), _MSG),
    "TRECV": {**_MSG, **_TAGGED},
    "TSEND": {**_MSG, "tag": _TAG, "ignore": _ZERO},
    **dict.fromkeys(("READ", "WRITE"), _RMA),
    **dict.fromkeys(("ATOMIC", "FETCH_ATOMIC", "COMPARE_ATOMIC"), _ATOMIC),
    "ATOMIC_VALID": {
        "kind": one_of(0, 1, 2),
        "datatype": one_of(7, 7, *range(14)),
        "op": one_of(*range(19)),
    },
    "CQ_READ": {**_CQ_READ, "deadline": _ZERO},
    "CQ_SREAD": {**_CQ_READ, "deadline": _SOON},
    **dict.fromkeys(("CQ_READERR", "EQ_READERR"), _READERR),
    "EQ_READ": {**_EQ_READ, "deadline": _ZERO},
    "EQ_SREAD": {**_EQ_READ, "deadline": _SOON},
    "EQ_WRITE": {
        "event": one_of(0, 1, 2, 3, 1000),
        "handle": handle(*OBJECTS, or_none=0.3),
        "data": _TAG,
    },
    **{f"CNTR_{what}": _CNTR for what in ("READ", "READERR", "ADD", "SET", "ADDERR", "SETERR")},
    "CNTR_WAIT": {
        "threshold": one_of(0, 1, 2, 100, 0xFFFFFFFFFFFFFFFF),
        "deadline": _SOON,
        "error_changes": one_of(0, 1, 2, 0xFFFFFFFFFFFFFFFF),
    },
    "WAIT": {"deadline": _SOON},
    "BATCH": {
        "wait": handle("wait", or_none=0.2),
        "posts": calls(_post),
        "reads": calls(_read),
        "post_count": one_of(0, 1, 1, 2, 4),
        "posted": one_of(0, 0, 0, 1),
        "read_count": one_of(0, 1, 1, 2, 4),
        "deadline": _SOON,
    },
    "POLL": {"count": one_of(1, 2, 8), "entries": room(128)},
    "TRYWAIT": {"count": one_of(1, 1, 2, 4), "handles": handles("wait", "cq", "eq", "cntr")},
    "POLLFD": {"count": one_of(0, 1, 8), "handles": perhaps(room(32), 0.8)},
    "GETOPT": {"optname": one_of(0, 1, 2), "value": _ZERO},
    "SETOPT": {"optname": one_of(0, 0, 1, 2), "value": one_of(0, 1, 64, 86400)},
    "AV_OPEN": {
        "type": one_of(0, 1, 2),
        "count": one_of(0, 1, 64),
        "rx_ctx_bits": one_of(0, 0, 1, 4),
        "ep_per_node": one_of(0, 1),
    },
    "AV_INSERT": {
        "count": one_of(1, 1, 1, 2),
        "addr_len": one_of(16, 16, 8),
        "addrs": address(),
        "out_addrs": room(64),
        "insert_flags": one_of(0, 0, u.KFAB_MORE),
    },
    "AV_INSERTSVC": {
        "node": text("", "0x0", "1"),
        "service": text("4791", "1"),
        "insert_flags": one_of(0, u.KFAB_MORE),
    },
    "AV_REMOVE": {"count": one_of(1, 1, 2), "addrs": at(lambda draw: "@u64:" + peer().good(draw))},
    "AV_LOOKUP": {"kfi_addr": peer(), **_NAME},
    "AV_STRADDR": {
        "addr": address(),
        "addr_len": one_of(16, 8),
        "buf": room(64),
        "buf_size": one_of(1, 64),
    },
    "SEP_OPEN": {"info": info("sep")},
    **dict.fromkeys(("TX_CTX_OPEN", "RX_CTX_OPEN"), _CTX_OPEN),
    "GET_CQ_EVENT": {"deadline": deadline(0, 0, 1, 5)},
    "ACK_CQ_EVENTS": {"count": one_of(0, 1, 1, 1, 2)},
    "PROFILE_OPEN": {"handle": handle("domain", "ep", "wait", "poll", "cq")},
    "PROFILE_QUERY": {
        "what": one_of(0, 1),
        "descs": perhaps(room(8192), 0.8),
        "desc_size": one_of(*[sizeof(u.kfab_profile_desc)] * 2, 64),
        "count": one_of(0, 1, 32),
    },
    "PROFILE_READ": {
        "id": one_of(*_VARIABLES),
        "buf": room(1024),
        "buf_size": one_of(8, 8, 8, 256, 96, 0),
    },
    "PROFILE_CONTROL": {"command": one_of(0, 1, 2, 3, 3, 4), "id": one_of(0, 0, 1, 2, 3)},
    "PROFILE_EVENTS": {
        "events": room(512),
        "count": one_of(1, 4, 8),
        "deadline": deadline(0, 1, 5),
    },
}


def _fields(op: str, struct: type[Structure]) -> dict[str, Kind]:
    kinds = {name: handle(*classes.split()) for name, classes in HANDLES.get(op, {}).items()}
    common = {name: _COMMON[name] for name, *_ in struct._fields_ if name in _COMMON}
    # The field that names the object stays first: without an object the call does nothing.
    own = _FIELDS.get(op, {})
    return {**kinds, **own, **{name: kind for name, kind in common.items() if name not in own}}


#: The fields of each ioctl, without those that all of them have: size, flags, __reserved.
FIELDS: Final[Mapping[str, Mapping[str, Kind]]] = {
    op: _fields(op, struct) for op, (_, struct) in CALLS.items()
}

#: Commands of the mock provider, see docs/mock.md; the object follows the first word.
_MOCK: Final[tuple[str, ...]] = (
    *("inject,recv,1", "inject,recv,2,data=5", "inject,send,1", "inject,recv,1,err=5"),
    *("inject,recv,1,solicited=1", "inject,recv,64", "inject,recv,3,context=softirq"),
    *("inject,recv,1,context=workqueue", "inject,remote_write,1,data=3", "inject,recv,1,entry=0"),
    *("complete,recv,1", "complete,send,1", "complete,send,1,context=softirq"),
    *("complete,recv,1,err=110", "complete,read,1", "complete,write,1"),
    *("arrive,1", "arrive,3,context=softirq", "arrive,64", "event,2", "event,3", "eqerr,err=5"),
)

#: Steps that are not ioctls.
OTHER_STEPS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "IOCTL": {"nr": one_of(0xC008FB02, 0xC000FB0F, 0xC000FBFF, 0x4008FB02, 0xC008FA02, 0)},
    **{op: {} for op in ("DEV_READ", "DEV_WRITE", "DEV_SEEK", "DEV_POLL", "DUP")},
    "REOPEN": {"fd": one_of(1, 1, 1, 0)},
    "MMAP": {
        "of": handle("buf"),
        "length": one_of(4096, 4096, 8192, 1),
        "at": one_of(0, 0, 0, 0x1000),
        "prot": one_of(3, 3, 1, 7),
        "flags": one_of(1, 1, 1, 2),
    },
    "MUNMAP": {"of": handle("map"), "at": one_of(0, 0x1000), "length": one_of(4096, 8192)},
    "TOUCH": {
        "of": handle("map"),
        "at": one_of(0, 8, sizeof(u.kfab_ring) // 2, 4095, 4096),
        "value": one_of(0, 1, 2, 3, 4, 255),
    },
    "FD_POLL": {"of": handle("fd"), "ms": one_of(0, 1, 5)},
    **{op: {"of": handle("fd")} for op in ("FD_READ", "FD_CLOSE")},
    "EPOLL": {"of": handle("fd"), "ms": one_of(0, 1, 5)},
    "MOCK": {
        "of": handle("ep"),
        "how": Kind(lambda draw: draw.rng.choice(_MOCK), lambda draw: "inject,recv,1024"),
    },
    "LOSE": {"of": handle("domain")},
    "FORK": {"steps": one_of(1, 2, 3), "kill": one_of(0, 0, 1)},
}

#: The class of the names that a call produces, and the part that has it.
PRODUCES: Final[Mapping[str, str]] = {
    **{f"{kind.upper()}_OPEN": kind for kind in ("fabric", "domain", "eq", "wait", "cq", "cntr")},
    **{f"{kind.upper()}_OPEN": kind for kind in ("poll", "pep", "ep", "av", "sep", "channel")},
    **{"PROFILE_OPEN": "profile", "TX_CTX_OPEN": "tx", "RX_CTX_OPEN": "rx"},
    **dict.fromkeys(("BUF_ALLOC", "CQ_RING"), "buf"),
    **{"MR_REG": "mr", "GETNAME": "name", "MMAP": "map"},
    **dict.fromkeys(("AV_INSERT", "AV_INSERTSVC"), "peer"),
}

#: Bits of `flags` that a call knows.
FLAGS: Final[Mapping[str, tuple[int, ...]]] = {
    "CLOSE": (u.KFAB_CLOSE_DISCARD_EVENTS,),
    **{op: (u.KFAB_POST_INJECT,) for op in ("SEND", "TSEND", "WRITE", "ATOMIC")},
    "CQ_READ": (u.KFAB_CQ_SRC_ADDR, u.KFAB_CQ_REPORT_EMPTY),
    "CQ_SREAD": (u.KFAB_CQ_SRC_ADDR,),
    "REQ_NOTIFY": (u.KFAB_NOTIFY_SOLICITED, u.KFAB_NOTIFY_NEXT, u.KFAB_NOTIFY_MISSED),
    "GET_CQ_EVENT": (u.KFAB_EVENT_ACK, u.KFAB_EVENT_NOTIFY),
}
