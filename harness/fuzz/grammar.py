# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The grammar: what may stand in each field of each call; what a call gives."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import sizeof
from typing import Final

from harness.fuzz.kinds import (
    Kind,
    address,
    at,
    bits,
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

_SENDERS, _RECEIVERS = ("ep", "tx"), ("ep", "rx")
_CONTEXT = one_of(0, 1, 2, 3, 497)
_WAIT_OBJ = one_of(*(0, 1, 1, 1, 2, 2, 2, 3, 4, 5, 5, 5, 7))
_WAIT_SET = handle("wait", or_none=0.1)
_TAG = one_of(0, 1, 2, 3)
_COUNT_OUT = one_of(0, 1, 1, 2, 4, 8)
_OP_FLAGS = bits(
    *(u.KFAB_COMPLETION, u.KFAB_INJECT, u.KFAB_REMOTE_CQ_DATA, u.KFAB_MULTI_RECV, u.KFAB_MORE),
    *(u.KFAB_DELIVERY_COMPLETE, u.KFAB_TRANSMIT_COMPLETE, u.KFAB_INJECT_COMPLETE),
    *(u.KFAB_FENCE, u.KFAB_SOLICITED, u.KFAB_TAGGED, u.KFAB_PEEK),
    most=2,
)
_NO_FLAGS = perhaps(_OP_FLAGS, 0.4)
_OPEN: Final = {"context": _CONTEXT}
_MSG: Final = {
    "ep": handle(*_SENDERS),
    "iov_count": one_of(0, 1, 1, 1, 1, 1, 2),
    "iov": pieces(),
    "op_flags": _NO_FLAGS,
    "context": _CONTEXT,
    "data": _TAG,
    "addr": peer(),
}
_RECV: Final = {**_MSG, "ep": handle(*_RECEIVERS)}
_TAGGED: Final = {"tag": _TAG, "ignore": one_of(0, 0, 0, 1, 0xFFFFFFFFFFFFFFFF)}
_RMA: Final = {**_MSG, "rma_iov": remote(), "rma_iov_count": one_of(1, 1, 1, 1, 0, 2)}
_ATOMIC: Final = {
    "ep": handle(*_SENDERS),
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
    "op_flags": _NO_FLAGS,
    "context": _CONTEXT,
    "addr": peer(),
}
_CQ_READ: Final = {
    "cq": handle("cq"),
    "count": _COUNT_OUT,
    "entries": room(512, 1024),
    "cond": one_of(0, 0, 0, 1, 3),
}
_EQ_READ: Final = {
    "eq": handle("eq"),
    "data_len": one_of(0, 256, 256),
    "cm_data": perhaps(room(256)),
    "info": perhaps(info("msg"), 0.3),
    "read_flags": one_of(0, 0, 0, u.KFAB_PEEK),
}
_ERR: Final = {
    "err_data_size": one_of(0, 16, 256),
    "err_data": perhaps(room(256)),
    "read_flags": one_of(0, 0, 0, u.KFAB_PEEK),
}
_CNTR: Final = {"cntr": handle("cntr"), "value": one_of(0, 1, 2, 100)}
_MEMBER: Final = {
    "poll": handle("poll"),
    "handle": handle("cq", "eq", "cntr"),
    "poll_flags": one_of(0),
}
_CM: Final = {
    "param": perhaps(text("hello", "x" * 56)),
    "param_len": one_of(0, 1, 5, 56, 256),
}
_CTX_OPEN: Final = {
    "sep": handle("sep"),
    "index": one_of(0, 0, 1, 1, 2),
    "info": perhaps(info("sep")),
    **_OPEN,
}
_NAME: Final = {"addr_len": one_of(0, 8, 16, 128), "addr": room(128)}

#: Ids of a profile's variables: those of endpoints that keep messages, and the core's.
_VARIABLES: Final = (0, 1, *range(0x1000, 0x1011))

#: The fields of each ioctl, without what all have: size, flags, __reserved.
FIELDS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "VERSION": {},
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
    "CLOSE": {"handle": handle(*OBJECTS)},
    "BIND": {
        "handle": handle("ep", "pep", "sep", "tx", "rx", "mr"),
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
    "FABRIC_OPEN": {"info": info(*CONNECTED, "rdm"), **_OPEN},
    "DOMAIN_OPEN": {"fabric": handle("fabric"), "info": info(), **_OPEN},
    "EQ_OPEN": {
        "fabric": handle("fabric"),
        "wait_obj": _WAIT_OBJ,
        "wait_set": _WAIT_SET,
        "entries": one_of(0, 0, 1, 2, 16),
        **_OPEN,
    },
    "WAIT_OPEN": {"fabric": handle("fabric"), "wait_obj": one_of(1, 3, 4, 5, 6, 6, 7), **_OPEN},
    "CQ_OPEN": {
        "domain": handle("domain"),
        "format": one_of(0, 0, 1, 2, 3, 4),
        "wait_obj": _WAIT_OBJ,
        "wait_set": _WAIT_SET,
        "wait_cond": one_of(0, 0, 1),
        "signaling_vector": one_of(0, 0, 1, 2),
        "cq_flags": one_of(0, 0, 0, u.KFAB_AFFINITY),
        "entries": one_of(0, 1, 2, 16, 64),
        **_OPEN,
    },
    "CNTR_OPEN": {
        "domain": handle("domain"),
        "events": one_of(0),
        "wait_obj": _WAIT_OBJ,
        "wait_set": _WAIT_SET,
        **_OPEN,
    },
    "POLL_OPEN": {"domain": handle("domain"), **_OPEN},
    "PEP_OPEN": {"fabric": handle("fabric"), "info": info("msg"), **_OPEN},
    "EP_OPEN": {
        "domain": handle("domain"),
        "connreq": handle("connreq", or_none=0.8),
        "info": info("mock", "msg", "rdm", "cxi"),
        **_OPEN,
    },
    "BUF_ALLOC": {"length": one_of(1, 64, 4096, 8192, 8192, 65536)},
    "MR_REG": {
        "domain": handle("domain"),
        "iov_count": one_of(1, 1, 1, 2),
        "iov": pieces(2),
        "access": one_of(*[0x3F00] * 3, 0x3000, 0x1000, 0xC00),
        "offset": one_of(0),
        "requested_key": one_of(*range(8)),
        "mr_flags": one_of(0),
        **_OPEN,
    },
    "LISTEN": {"pep": handle("pep")},
    "CONNECT": {
        "ep": handle("ep"),
        "addr": address(),
        "addr_len": one_of(16, 16, 16, 8, 0, 128),
        **_CM,
    },
    "ACCEPT": {"ep": handle("ep"), "addr": one_of(0), "addr_len": one_of(0), **_CM},
    "REJECT": {"pep": handle("pep"), "connreq": handle("connreq"), **_CM},
    "SHUTDOWN": {"ep": handle("ep"), "how": one_of(0)},
    "GETNAME": {"handle": handle("ep", "pep", "sep"), **_NAME},
    "GETPEER": {"handle": handle("ep"), **_NAME},
    "RECV": _RECV,
    "SEND": _MSG,
    "TRECV": {**_RECV, **_TAGGED},
    "TSEND": {**_MSG, "tag": _TAG, "ignore": one_of(0)},
    "READ": _RMA,
    "WRITE": _RMA,
    "ATOMIC": _ATOMIC,
    "FETCH_ATOMIC": _ATOMIC,
    "COMPARE_ATOMIC": _ATOMIC,
    "ATOMIC_VALID": {
        "ep": handle(*_SENDERS),
        "kind": one_of(0, 1, 2),
        "datatype": one_of(7, 7, *range(14)),
        "op": one_of(*range(19)),
    },
    "CQ_READ": {**_CQ_READ, "deadline": one_of(0)},
    "CQ_SREAD": {**_CQ_READ, "deadline": deadline(0, 1, 5, 20)},
    "CQ_READERR": {"cq": handle("cq"), **_ERR},
    "CQ_SIGNAL": {"cq": handle("cq")},
    "EQ_READ": {**_EQ_READ, "deadline": one_of(0)},
    "EQ_SREAD": {**_EQ_READ, "deadline": deadline(0, 1, 5, 20)},
    "EQ_READERR": {"eq": handle("eq"), **_ERR},
    "EQ_WRITE": {
        "eq": handle("eq"),
        "event": one_of(0, 1, 2, 3, 1000),
        "handle": handle(*OBJECTS, or_none=0.3),
        "data": _TAG,
        **_OPEN,
    },
    **{f"CNTR_{what}": _CNTR for what in ("READ", "READERR", "ADD", "SET", "ADDERR", "SETERR")},
    "CNTR_WAIT": {
        "cntr": handle("cntr"),
        "threshold": one_of(0, 1, 2, 100, 0xFFFFFFFFFFFFFFFF),
        "deadline": deadline(0, 1, 5, 20),
    },
    "WAIT": {"wait": handle("wait"), "deadline": deadline(0, 1, 5, 20)},
    "POLL_ADD": _MEMBER,
    "POLL_DEL": _MEMBER,
    "POLL": {"poll": handle("poll"), "count": one_of(1, 2, 8), "entries": room(128)},
    "TRYWAIT": {
        "fabric": handle("fabric"),
        "count": one_of(1, 1, 2, 4),
        "handles": handles("wait", "cq", "eq", "cntr"),
    },
    "POLLFD": {"wait": handle("wait"), "count": one_of(0, 1, 8), "handles": perhaps(room(32), 0.8)},
    "GETOPT": {
        "handle": handle("ep", "sep", "tx", "rx"),
        "level": one_of(0),
        "optname": one_of(0, 1, 2),
        "value": one_of(0),
    },
    "SETOPT": {
        "handle": handle("ep", "sep", "tx", "rx"),
        "level": one_of(0),
        "optname": one_of(0, 0, 1, 2),
        "value": one_of(0, 1, 64, 86400),
    },
    "AV_OPEN": {
        "domain": handle("domain"),
        "type": one_of(0, 1, 2),
        "count": one_of(0, 1, 64),
        "rx_ctx_bits": one_of(0, 0, 1, 4),
        "ep_per_node": one_of(0, 1),
        "av_flags": one_of(0),
        **_OPEN,
    },
    "AV_INSERT": {
        "av": handle("av"),
        "count": one_of(1, 1, 1, 2),
        "addr_len": one_of(16, 16, 8),
        "addrs": address(),
        "out_addrs": room(64),
        "insert_flags": one_of(0, 0, u.KFAB_MORE),
    },
    "AV_INSERTSVC": {
        "av": handle("av"),
        "node": text("", "0x0", "1"),
        "service": text("4791", "1"),
        "insert_flags": one_of(0, u.KFAB_MORE),
    },
    "AV_REMOVE": {
        "av": handle("av"),
        "count": one_of(1, 1, 2),
        "addrs": at(lambda draw: "@u64:" + peer().good(draw)),
        "remove_flags": one_of(0),
    },
    "AV_LOOKUP": {"av": handle("av"), "kfi_addr": peer(), **_NAME},
    "AV_STRADDR": {
        "av": handle("av"),
        "addr": address(),
        "addr_len": one_of(16, 8),
        "buf": room(64),
        "buf_size": one_of(1, 64),
    },
    "SEP_OPEN": {"domain": handle("domain"), "info": info("sep"), **_OPEN},
    "TX_CTX_OPEN": _CTX_OPEN,
    "RX_CTX_OPEN": _CTX_OPEN,
    "CANCEL": {"ep": handle("ep", "tx", "rx"), "context": _CONTEXT},
    "CHANNEL_OPEN": {"fabric": handle("fabric"), **_OPEN},
    "CHANNEL_BIND": {"cq": handle("cq"), "channel": handle("channel")},
    "REQ_NOTIFY": {"cq": handle("cq")},
    "GET_CQ_EVENT": {"channel": handle("channel"), "deadline": deadline(0, 0, 1, 5)},
    "ACK_CQ_EVENTS": {"cq": handle("cq"), "count": one_of(0, 1, 1, 1, 2)},
    "PROFILE_OPEN": {"handle": handle("domain", "ep", "wait", "poll", "cq"), **_OPEN},
    "PROFILE_QUERY": {
        "profile": handle("profile"),
        "what": one_of(0, 1),
        "descs": perhaps(room(8192), 0.8),
        "desc_size": one_of(*[sizeof(u.kfab_profile_desc)] * 2, 64),
        "count": one_of(0, 1, 32),
    },
    "PROFILE_READ": {
        "profile": handle("profile"),
        "id": one_of(*_VARIABLES),
        "buf": room(1024),
        "buf_size": one_of(8, 8, 8, 256, 96, 0),
    },
    "PROFILE_CONTROL": {
        "profile": handle("profile"),
        "command": one_of(0, 1, 2, 3, 3, 4),
        "id": one_of(0, 0, 1, 2, 3),
    },
    "PROFILE_EVENTS": {
        "profile": handle("profile"),
        "events": room(512),
        "count": one_of(1, 4, 8),
        "deadline": deadline(0, 1, 5),
    },
}

#: Commands of the mock provider, see docs/mock.md; the object comes behind the first word.
_MOCK: Final[tuple[str, ...]] = (
    *("inject,recv,1", "inject,recv,2,data=5", "inject,send,1", "inject,recv,1,err=5"),
    *("inject,recv,1,solicited=1", "inject,recv,64", "inject,recv,3,context=softirq"),
    *("inject,recv,1,context=workqueue", "inject,remote_write,1,data=3", "inject,recv,1,entry=0"),
    *("complete,recv,1", "complete,send,1", "complete,send,1,context=softirq"),
    *("complete,recv,1,err=110", "complete,read,1", "complete,write,1"),
    *("arrive,1", "arrive,3,context=softirq", "arrive,64", "event,2", "event,3", "eqerr,err=5"),
)

#: What is not an ioctl: the player's own steps.
OWN: Final[Mapping[str, Mapping[str, Kind]]] = {
    "IOCTL": {"nr": one_of(0xC008FB02, 0xC000FB0F, 0xC000FBFF, 0x4008FB02, 0xC008FA02, 0)},
    "DEV_READ": {},
    "DEV_WRITE": {},
    "DEV_SEEK": {},
    "DEV_POLL": {},
    "DUP": {},
    "REOPEN": {"fd": one_of(1, 1, 1, 0)},
    "MMAP": {
        "of": handle("buf"),
        "length": one_of(4096, 4096, 8192, 1),
        "at": one_of(0, 0, 0, 0x1000),
        "prot": one_of(3, 3, 1, 7),
        "flags": one_of(1, 1, 1, 2),
    },
    "MUNMAP": {"of": handle("map"), "at": one_of(0, 0x1000), "length": one_of(4096, 8192)},
    "TOUCH": {"of": handle("map"), "at": one_of(0, 8, 4095, 4096)},
    "FD_POLL": {"of": handle("fd"), "ms": one_of(0, 1, 5)},
    "FD_READ": {"of": handle("fd")},
    "FD_CLOSE": {"of": handle("fd")},
    "EPOLL": {"of": handle("fd"), "ms": one_of(0, 1, 5)},
    "MOCK": {
        "of": handle("ep"),
        "how": Kind(lambda draw: draw.rng.choice(_MOCK), lambda draw: "inject,recv,1024"),
    },
    "LOSE": {"of": handle("domain")},
    "FORK": {"steps": one_of(1, 2, 3), "kill": one_of(0, 0, 1)},
}

#: What a call gives: the class of its name, and the part that has it.
GIVES: Final[Mapping[str, str]] = {
    "FABRIC_OPEN": "fabric",
    "DOMAIN_OPEN": "domain",
    "EQ_OPEN": "eq",
    "WAIT_OPEN": "wait",
    "CQ_OPEN": "cq",
    "CNTR_OPEN": "cntr",
    "POLL_OPEN": "poll",
    "PEP_OPEN": "pep",
    "EP_OPEN": "ep",
    "BUF_ALLOC": "buf",
    "MR_REG": "mr",
    "AV_OPEN": "av",
    "SEP_OPEN": "sep",
    "TX_CTX_OPEN": "tx",
    "RX_CTX_OPEN": "rx",
    "CHANNEL_OPEN": "channel",
    "PROFILE_OPEN": "profile",
    "GETNAME": "name",
    "AV_INSERT": "peer",
    "AV_INSERTSVC": "peer",
    "MMAP": "map",
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
