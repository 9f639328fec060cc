# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""NETLINK_RDMA: adds, deletes and lists RDMA links, and counts resources.

The messages are pyroute2 classes (rdma_msg.py). The socket is a plain one: requests come
one at a time, and each wait for an answer has its own deadline.
"""

import contextlib
import enum
import errno
import itertools
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pyroute2.netlink import NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, nlmsgerr

from kfabric.guest.rdma_msg import NETLINK_RDMA, PREFIX, Command, answer, rdma_nldev_msg, request

SOL_NETLINK = 270
NETLINK_EXT_ACK = 11
NLMSG_ERROR = 2
NLMSG_DONE = 3
NLMSG_MIN_TYPE = 16
_ENDS = (NLMSG_ERROR, NLMSG_DONE)
# The largest message that the kernel builds for one read of a dump.
RECEIVE_BYTES = 1 << 16
# The attribute that a table of counts repeats.
_COUNTED = f"{PREFIX}RES_SUMMARY_ENTRY"
ANSWER_SECONDS = 20.0
_HEADER = struct.Struct("=IHHII")


class PortState(enum.IntEnum):
    """enum ib_port_state of the kernel."""

    NOP = 0
    DOWN = 1
    INIT = 2
    ARMED = 3
    ACTIVE = 4
    ACTIVE_DEFER = 5


class RdmaNetlinkError(OSError):
    """The kernel refused a request; the text has the request and the kernel's message.

    Args:
        code: The positive error number.
        what: The request, in words.
        extack: The kernel's message.
    """

    def __init__(self, code: int, what: str, extack: str | None = None) -> None:
        text = f"{what}: {os.strerror(code)}"
        super().__init__(code, f"{text} (kernel: {extack})" if extack else text)
        self.extack = extack


@dataclass(frozen=True)
class RdmaDevice:
    """One RDMA device as the kernel lists it."""

    index: int
    name: str
    ports: int
    protocol: str
    node_guid: int


class RdmaNetlink(contextlib.AbstractContextManager["RdmaNetlink"]):
    """One socket to the kernel's RDMA device family; a context manager.

    A request without an answer in time raises ETIMEDOUT.
    """

    def __init__(self) -> None:
        self._sequence = itertools.count(1)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
        try:
            self._socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
            self._socket.settimeout(ANSWER_SECONDS)
            self._socket.bind((0, 0))
        except BaseException:
            self._socket.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket. May be called again."""
        self._socket.close()

    def add_link(self, name: str, netdev: str, kind: str = "rxe") -> None:
        """Make RDMA device `name` of a software driver (`kind`) on a net device.

        Raises:
            RdmaNetlinkError: EEXIST if the net device has a link or the name exists, ENODEV
                without the net device, EINVAL if driver or name is invalid.
        """
        attributes = {"dev_name": name, "link_type": kind, "ndev_name": netdev}
        self._exchange(f"add {kind} link {name} on {netdev}", Command.NEWLINK, **attributes)

    def del_link(self, name: str) -> None:
        """Remove the software RDMA device `name`; ENODEV if there is none."""
        index = self.device(name).index
        self._exchange(f"delete link {name}", Command.DELLINK, dev_index=index)

    def devices(self) -> list[RdmaDevice]:
        """List all RDMA devices of this network namespace."""
        return [
            RdmaDevice(
                index=message.attribute("DEV_INDEX"),
                name=message.attribute("DEV_NAME"),
                ports=message.attribute("PORT_INDEX"),
                protocol=message.attribute("DEV_PROTOCOL") or "",
                node_guid=message.attribute("NODE_GUID"),
            )
            for message in self._exchange("list devices", Command.GET, NLM_F_DUMP)
        ]

    def device(self, name: str) -> RdmaDevice:
        """Return the device of that name; ENODEV if there is none."""
        for device in self.devices():
            if device.name == name:
                return device
        raise RdmaNetlinkError(errno.ENODEV, f"find device {name}")

    def port_state(self, name: str) -> PortState:
        """Return the state of a device's first port."""
        index = self.device(name).index
        what = f"query the port of {name}"
        found = self._answered(what, Command.PORT_GET, dev_index=index, port_index=1)
        return PortState(found.attribute("PORT_STATE"))

    def counts(self, name: str) -> dict[str, int]:
        """Return how many resources of each kind (pd, cq, qp, cm_id, mr, ctx, srq) exist."""
        return self._counts(self.device(name))

    def all_counts(self) -> dict[str, dict[str, int]]:
        """Return the resource counts of all devices, by their names."""
        return {device.name: self._counts(device) for device in self.devices()}

    def _counts(self, device: RdmaDevice) -> dict[str, int]:
        what = f"count resources of {device.name}"
        found = self._answered(what, Command.RES_GET, dev_index=device.index)
        table = found.attribute("RES_SUMMARY")
        return {
            entry.get_attr(f"{_COUNTED}_NAME"): entry.get_attr(f"{_COUNTED}_CURR")
            for entry in (() if table is None else table.get_attrs(_COUNTED))
        }

    def _answered(self, what: str, command: Command, **attributes: object) -> rdma_nldev_msg:
        """Send a request with exactly one answer before the acknowledgement."""
        answers = self._exchange(what, command, **attributes)
        if len(answers) != 1:
            raise RdmaNetlinkError(errno.EPROTO, f"{what}: {len(answers)} answers")
        return answers[0]

    def _exchange(
        self, what: str, command: Command, flags: int = NLM_F_ACK, /, **attributes: object
    ) -> list[rdma_nldev_msg]:
        """Send a request, and collect its answers up to the end mark or acknowledgement."""
        sequence = next(self._sequence)
        self._socket.send(request(command, NLM_F_REQUEST | flags, sequence, **attributes))
        answers: list[rdma_nldev_msg] = []
        while True:
            for kind, message in self._received(what, sequence):
                if kind in _ENDS:
                    _raise_unless_done(what, kind, message)
                    return answers
                answers.append(answer(message))

    def _received(self, what: str, sequence: int) -> Iterator[tuple[int, bytes]]:
        """Type and bytes of the messages in one read that answer request `sequence`.

        Late answers to an earlier request that timed out are skipped.
        """
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise RdmaNetlinkError(errno.ETIMEDOUT, what) from None
        offset = 0
        while offset + _HEADER.size <= len(data):
            length, kind, _flags, answers, _port = _HEADER.unpack_from(data, offset)
            if not _HEADER.size <= length <= len(data) - offset:
                raise RdmaNetlinkError(errno.EPROTO, f"{what}: message of {length} bytes")
            if answers == sequence and (kind in _ENDS or kind >= NLMSG_MIN_TYPE):
                yield kind, data[offset : offset + length]
            offset += (length + 3) & ~3


def _raise_unless_done(what: str, kind: int, data: bytes) -> None:
    """Raise the error in an acknowledgement or end mark, if there is one."""
    code = -int.from_bytes(data[16:20], "little", signed=True)
    if code == 0:
        return
    text = None
    # Only the long form of an end mark carries text, and 6.1 sends none for this family.
    if kind == NLMSG_ERROR:
        message = nlmsgerr(data)
        message.decode()
        text = message.get_attr("NLMSGERR_ATTR_MSG")
    raise RdmaNetlinkError(code, what, str(text) if text else None)
