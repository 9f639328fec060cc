# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The ioctls of /dev/kfabric: number and structure of each, and which fields are handles."""

import ctypes
from typing import Final

from kfabric_py import _uapi

#: Structures that several calls share, or that are not named after their call.
_STRUCTURES: Final = {
    "kfab_connect": "ACCEPT",
    "kfab_name": "GETNAME GETPEER",
    "kfab_msg": "RECV SEND",
    "kfab_tmsg": "TRECV TSEND",
    "kfab_rma": "READ WRITE",
    "kfab_cq_read": "CQ_SREAD",
    "kfab_eq_read": "EQ_SREAD",
    "kfab_cntr": "CNTR_READ CNTR_READERR CNTR_ADD CNTR_SET CNTR_ADDERR CNTR_SETERR",
    "kfab_poll_member": "POLL_ADD POLL_DEL",
    "kfab_opt": "GETOPT SETOPT",
    "kfab_atomic": "ATOMIC FETCH_ATOMIC COMPARE_ATOMIC",
    "kfab_ctx_open": "TX_CTX_OPEN RX_CTX_OPEN",
    "kfab_cq_event": "GET_CQ_EVENT",
}
_STRUCTURE_OF: Final = {call: name for name, calls in _STRUCTURES.items() for call in calls.split()}
_PREFIX: Final = "KFAB_IOC_"

#: Every ioctl with its number and its structure.
CALLS: Final[dict[str, tuple[int, type[ctypes.Structure]]]] = {
    call: (number, getattr(_uapi, _STRUCTURE_OF.get(call, f"kfab_{call.lower()}")))
    for name, number in vars(_uapi).items()
    if (call := name.removeprefix(_PREFIX)) not in (name, "MAGIC")
}

#: Classes of handles that have a field of the same name in each call on such an object.
_CLASSES: Final = (
    *("fabric", "domain", "eq", "cq", "cntr", "poll", "pep", "ep", "av", "sep"),
    *("wait", "channel", "profile"),
)
_SENDING: Final = "SEND TSEND READ WRITE ATOMIC FETCH_ATOMIC COMPARE_ATOMIC ATOMIC_VALID"
_OTHER_HANDLES: Final = {
    "BIND": {"handle": "ep pep sep tx rx mr", "to": "cq eq cntr av"},
    "CONTROL": {"handle": "cq eq cntr wait channel profile"},
    "STRERROR": {"handle": "cq eq"},
    "GETNAME": {"handle": "ep pep sep"},
    "GETPEER": {"handle": "ep"},
    "CANCEL": {"ep": "ep tx rx"},
    **{call: {"poll": "poll", "handle": "cq eq cntr"} for call in ("POLL_ADD", "POLL_DEL")},
    **{call: {"handle": "ep sep tx rx"} for call in ("GETOPT", "SETOPT")},
    **{call: {"ep": "ep rx"} for call in ("RECV", "TRECV")},
    **{call: {"ep": "ep tx"} for call in _SENDING.split()},
}

#: The fields of each call that are handles, with the classes that the call accepts.
HANDLES: Final[dict[str, dict[str, str]]] = {
    call: fields
    for call, (_, struct) in CALLS.items()
    if (fields := _OTHER_HANDLES.get(call, {n: n for n, *_ in struct._fields_ if n in _CLASSES}))
}
