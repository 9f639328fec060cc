# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The device: ``/dev/kfabric``."""

from __future__ import annotations

import ctypes
import dataclasses
import os
from dataclasses import dataclass

from kfabric_py import _uapi
from kfabric_py._call import Client
from kfabric_py.errors import error_for
from kfabric_py.fabric import Fabric
from kfabric_py.handle import Handle
from kfabric_py.info import Address, FabricAttr, Info, info_from_raw, info_to_raw
from kfabric_py.memory import Buffer

PATH = "/dev/kfabric"


@dataclass(frozen=True, slots=True)
class Version:
    """Versions, and the limits and sums of this client.

    Attributes:
        abi: version of the driver's interface.
        api: version of the kernel's kfabric interface: (major, minor).
        max_objects: objects that the client may have open.
        objects: objects that it has open.
        max_bytes: buffer memory that it may have, in bytes.
        bytes: buffer memory that it has.
    """

    abi: int
    api: tuple[int, int]
    max_objects: int
    objects: int
    max_bytes: int
    bytes: int


class Device(Handle):
    """An open ``/dev/kfabric``: one client, the parent of all its objects."""

    def __init__(self, path: str = PATH) -> None:
        """Open the device.

        Args:
            path: the device node.

        Raises:
            NotFound: the node does not exist.
            PermissionDenied: no permission to open the node.
        """
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            ours = error_for(error.errno or 0, f"open {path}")
            ours.add_note("Is the module kfabric_dev loaded, and are you root?")
            raise ours from None
        self._client = Client(fd)
        super().__init__(None)

    def fileno(self) -> int:
        """Return the descriptor.

        Raises:
            ClosedError: the device is closed.
        """
        self._check_open()
        return self._client.fd

    def _close_self(self) -> None:
        os.close(self._client.fd)

    def __del__(self) -> None:
        """Warn and close if forgotten, but not in a forked child, which does not own it."""
        client = getattr(self, "_client", None)
        if client is not None and client.pid == os.getpid():
            super().__del__()

    def version(self) -> Version:
        """Return versions and limits."""
        self._check_open()
        arg = _uapi.kfab_version()
        self._client(_uapi.KFAB_IOC_VERSION, arg)
        return Version(
            abi=arg.out_abi,
            api=(arg.out_api >> 16, arg.out_api & 0xFFFF),
            max_objects=arg.out_max_objects,
            objects=arg.out_objects,
            max_bytes=arg.out_max_bytes,
            bytes=arg.out_bytes,
        )

    def getinfo(
        self,
        *,
        provider: str = "",
        source: Address | None = None,
        dest: Address | None = None,
        hints: Info | None = None,
        node: str | None = None,
        service: str | None = None,
        local: bool = False,
    ) -> list[Info]:
        """Ask the providers what they offer.

        Args:
            provider: name of the only one to ask; empty for all.
            source: local address: to listen there, or to connect from there.
            dest: the peer's address.
            hints: requirements on the offers; other arguments that are given
                replace its fields.
            node: the peer's host, or the provider's other name for it, as text.
            service: the peer's port or endpoint number, as text.
            local: ``node`` and ``service`` name the local side.

        Returns:
            The offers, at least one, in the provider's order of preference.

        Raises:
            NoMatch: no offer matches.
        """
        self._check_open()
        raw = info_to_raw(_merge(hints or Info(), provider, source, dest))
        texts = [_text(node), _text(service)]
        count = 8
        while True:
            infos = (_uapi.kfab_info * count)()
            arg = _uapi.kfab_getinfo(
                info_size=ctypes.sizeof(_uapi.kfab_info),
                getinfo_flags=_uapi.KFAB_SOURCE if local else 0,
                node=_address(texts[0]),
                service=_address(texts[1]),
                hints=ctypes.addressof(raw),
                infos=ctypes.addressof(infos),
                count=count,
            )
            got = self._client(_uapi.KFAB_IOC_GETINFO, arg)
            if arg.count <= count:
                return [info_from_raw(one) for one in infos[:got]]
            count = arg.count

    def fabric(self, info: Info, *, context: object = None) -> Fabric:
        """Open a fabric.

        Args:
            info: an offer; its ``fabric_attr`` is used.
            context: comes back in the events about the fabric.
        """
        self._check_open()
        return Fabric(self, info, context)

    def buffer(self, length: int) -> Buffer:
        """Allocate memory for messages, zeroed.

        Args:
            length: bytes, 1 to 4 MiB.

        Raises:
            KfiError: ENOBUFS: the client has as much buffer memory as it may have.
        """
        self._check_open()
        return Buffer(self, length)


def _text(text: str | None) -> ctypes.Array[ctypes.c_char] | None:
    """Return memory with the text for the kernel, which the caller keeps."""
    return None if text is None else ctypes.create_string_buffer(text.encode())


def _address(memory: ctypes.Array[ctypes.c_char] | None) -> int:
    return 0 if memory is None else ctypes.addressof(memory)


def _merge(hints: Info, provider: str, source: Address | None, dest: Address | None) -> Info:
    fabric: FabricAttr = hints.fabric_attr
    if provider:
        fabric = dataclasses.replace(fabric, prov_name=provider)
    return dataclasses.replace(
        hints,
        fabric_attr=fabric,
        src_addr=hints.src_addr if source is None else source,
        dest_addr=hints.dest_addr if dest is None else dest,
    )
