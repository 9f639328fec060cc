# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Messages of NETLINK_RDMA's device family (nldev) as pyroute2 message classes.

pyroute2 has no RDMA family. The attribute numbers are the positions in `nla_map`, in the
order of enum rdma_nldev_attr of <rdma/rdma_netlink.h>. Attributes that are never read
have the type 'hex', so that messages of newer kernels can be decoded.
"""

import enum
import functools
import struct
from typing import Any

from pyroute2.netlink import nla, nlmsg

NETLINK_RDMA = 20
RDMA_NL_NLDEV = 5
# Where a message's header has its sequence number and port, and ends.
_SEQUENCE = struct.Struct("=I")
_SEQUENCE_AT = 8
_HEADER_END = 16


class Command(enum.IntEnum):
    """The commands of enum rdma_nldev_command that are sent here."""

    GET = 1
    NEWLINK = 3
    DELLINK = 4
    PORT_GET = 5
    RES_GET = 9

    @property
    def message_type(self) -> int:
        """The netlink message type: client number and command in one word."""
        return (RDMA_NL_NLDEV << 10) | self.value


# In the order of their numbers: the kernel's name without RDMA_NLDEV_ATTR_, and the type.
_ATTRIBUTES = """
    UNSPEC:none DEV_INDEX:uint32 DEV_NAME:asciiz PORT_INDEX:uint32 CAP_FLAGS:uint64
    FW_VERSION:asciiz NODE_GUID:uint64 SYS_IMAGE_GUID:uint64 SUBNET_PREFIX:uint64 LID:uint32
    SM_LID:uint32 LMC:uint8 PORT_STATE:uint8 PORT_PHYS_STATE:uint8 DEV_NODE_TYPE:uint8
    RES_SUMMARY:table RES_SUMMARY_ENTRY:table RES_SUMMARY_ENTRY_NAME:asciiz
    RES_SUMMARY_ENTRY_CURR:uint64 RES_QP:table RES_QP_ENTRY:table RES_LQPN:uint32
    RES_RQPN:uint32 RES_RQ_PSN:uint32 RES_SQ_PSN:uint32 RES_PATH_MIG_STATE:uint8 RES_TYPE:uint8
    RES_STATE:uint8 RES_PID:uint32 RES_KERN_NAME:asciiz RES_CM_ID:table RES_CM_ID_ENTRY:table
    RES_PS:uint32 RES_SRC_ADDR:hex RES_DST_ADDR:hex RES_CQ:table RES_CQ_ENTRY:table
    RES_CQE:uint32 RES_USECNT:uint64 RES_POLL_CTX:uint8 RES_MR:table RES_MR_ENTRY:table
    RES_RKEY:uint32 RES_LKEY:uint32 RES_IOVA:uint64 RES_MRLEN:uint64 RES_PD:table
    RES_PD_ENTRY:table RES_LOCAL_DMA_LKEY:uint32 RES_UNSAFE_GLOBAL_RKEY:uint32 NDEV_INDEX:uint32
    NDEV_NAME:asciiz DRIVER:hex DRIVER_ENTRY:hex DRIVER_STRING:hex DRIVER_PRINT_TYPE:hex
    DRIVER_S32:hex DRIVER_U32:hex DRIVER_S64:hex DRIVER_U64:hex RES_PDN:uint32 RES_CQN:uint32
    RES_MRN:uint32 RES_CM_IDN:uint32 RES_CTXN:uint32 LINK_TYPE:asciiz NETNS_MODE:uint8
    DEV_PROTOCOL:asciiz
""".split()

PREFIX = "RDMA_NLDEV_ATTR_"
_NLA_MAP = tuple((PREFIX + name, kind) for name, kind in (a.split(":") for a in _ATTRIBUTES))


class rdma_table(nla):  # type: ignore[misc]  # pyroute2 is untyped
    """A nested attribute; the family uses one number space on all levels."""

    prefix = PREFIX
    nla_map = _NLA_MAP


rdma_table.table = rdma_table


class rdma_nldev_msg(nlmsg):  # type: ignore[misc]
    """Any request or answer of the family: a bare header and attributes."""

    prefix = PREFIX
    nla_map = _NLA_MAP
    table = rdma_table

    def attribute(self, name: str) -> Any:
        """Return the attribute's value (name without prefix), or None if it is absent."""
        return self.get_attr(PREFIX + name)


def request(command: Command, flags: int, sequence: int, **attributes: object) -> bytes:
    """Encode one request; attribute names are the kernel's, in lower case, without prefix."""
    encoded = bytearray(_request(command, flags, tuple(attributes.items())))
    _SEQUENCE.pack_into(encoded, _SEQUENCE_AT, sequence)
    return bytes(encoded)


def answer(data: bytes) -> rdma_nldev_msg:
    """Decode one answer. Equal answers share the returned object, so do not change it."""
    blank = bytearray(data)
    blank[_SEQUENCE_AT:_HEADER_END] = bytes(_HEADER_END - _SEQUENCE_AT)
    return _answer(bytes(blank))


# Counting resources around each test repeats a few messages, and pyroute2 takes
# milliseconds for each one in an emulated guest.
@functools.lru_cache(maxsize=64)
def _request(command: Command, flags: int, attributes: tuple[tuple[str, object], ...]) -> bytes:
    message = rdma_nldev_msg()
    message["header"]["type"] = command.message_type
    message["header"]["flags"] = flags
    message["attrs"] = [(PREFIX + name.upper(), value) for name, value in attributes]
    message.encode()
    return bytes(message.data)


@functools.lru_cache(maxsize=64)
def _answer(data: bytes) -> rdma_nldev_msg:
    message = rdma_nldev_msg(data)
    message.decode()
    return message
