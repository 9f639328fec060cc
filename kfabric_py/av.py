# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Address vectors: numbers for the peers of endpoints without a connection."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kfabric_py import _uapi
from kfabric_py._call import u32, u64
from kfabric_py.enums import AvType
from kfabric_py.handle import OpenedObject
from kfabric_py.info import Address, pack_address, unpack_address

if TYPE_CHECKING:
    from kfabric_py.domain import Domain


class AddressVector(OpenedObject):
    """Maps addresses to the numbers by which operations name peers.

    Attributes:
        rx_ctx_bits: top bits of a number that select a receive context.
    """

    def __init__(
        self,
        domain: Domain,
        *,
        type: AvType,
        count: int,
        rx_ctx_bits: int,
        context: object,
    ) -> None:
        """Use :meth:`Domain.av`."""
        arg = _uapi.kfab_av_open(
            domain=domain._live_handle(),
            type=type,
            rx_ctx_bits=u32(rx_ctx_bits, "rx_ctx_bits"),
            count=u64(count, "count"),
        )
        super().__init__(domain, domain._client, _uapi.KFAB_IOC_AV_OPEN, arg, context)
        self.rx_ctx_bits = rx_ctx_bits

    def insert(self, addresses: Iterable[Address]) -> list[int | None]:
        """Insert addresses, all of the domain's format.

        Args:
            addresses: as :meth:`RdmEndpoint.getname` returns them.

        Returns:
            The number of each; ``None`` for one that was not inserted.

        Raises:
            ValueError: no address, too many, or addresses of different lengths.
            KfiError: no address was inserted; the error is that of the last one. EINVAL:
                it is not valid.
        """
        packed = [pack_address(address) for address in addresses]
        length = len(packed[0]) if packed else 0
        if not length or any(len(one) != length for one in packed):
            raise ValueError("addresses must be of one format, and there must be one")
        memory = ctypes.create_string_buffer(b"".join(packed))
        out = (ctypes.c_uint64 * len(packed))()
        arg = _uapi.kfab_av_insert(
            av=self._live_handle(),
            count=len(packed),
            addr_len=length,
            addrs=ctypes.addressof(memory),
            out_addrs=ctypes.addressof(out),
        )
        self._client(_uapi.KFAB_IOC_AV_INSERT, arg)
        return [None if number == _uapi.KFAB_ADDR_NOTAVAIL else number for number in out]

    def insert_one(self, address: Address) -> int:
        """Insert one address and return its number.

        Raises:
            ValueError: it has no form that the kernel takes.
            KfiError: EINVAL: not an address of this kind.
        """
        (number,) = self.insert([address])
        assert number is not None
        return number

    def insert_service(self, node: str | None = None, service: str | None = None) -> int:
        """Insert an address given as text and return its number.

        Args:
            node: host or device, as for :meth:`Device.getinfo`.
            service: port or endpoint number.

        Raises:
            KfiError: EINVAL: the text names no address.
        """
        memory = [
            None if text is None else ctypes.create_string_buffer(text.encode())
            for text in (node, service)
        ]
        arg = _uapi.kfab_av_insertsvc(
            av=self._live_handle(),
            node=0 if memory[0] is None else ctypes.addressof(memory[0]),
            service=0 if memory[1] is None else ctypes.addressof(memory[1]),
        )
        self._client(_uapi.KFAB_IOC_AV_INSERTSVC, arg)
        number: int = arg.out_addr
        return number

    def remove(self, *numbers: int) -> None:
        """Remove addresses. No receive may be waiting for a message from one of them.

        Raises:
            KfiError: EINVAL: a number that no insert returned.
        """
        array = (ctypes.c_uint64 * len(numbers))(*(u64(n, "number") for n in numbers))
        arg = _uapi.kfab_av_remove(
            av=self._live_handle(), count=len(numbers), addrs=ctypes.addressof(array)
        )
        self._client(_uapi.KFAB_IOC_AV_REMOVE, arg)

    def lookup(self, number: int) -> Address | None:
        """Return the address that a number names.

        Raises:
            KfiError: EINVAL: the number names none.
        """
        room = (ctypes.c_uint8 * _uapi.KFAB_ADDR_MAX)()
        arg = _uapi.kfab_av_lookup(
            av=self._live_handle(),
            addr_len=len(room),
            kfi_addr=u64(number, "number"),
            addr=ctypes.addressof(room),
        )
        self._client(_uapi.KFAB_IOC_AV_LOOKUP, arg)
        return unpack_address(bytes(room[: arg.addr_len]))

    def straddr(self, address: Address) -> str:
        """Return the provider's text for an address, which need not be in the vector."""
        packed = pack_address(address)
        memory = ctypes.create_string_buffer(packed, max(len(packed), 1))
        room = ctypes.create_string_buffer(2 * _uapi.KFAB_ADDR_MAX)
        arg = _uapi.kfab_av_straddr(
            av=self._live_handle(),
            addr_len=len(packed),
            addr=ctypes.addressof(memory),
            buf=ctypes.addressof(room),
            buf_size=len(room),
        )
        self._client(_uapi.KFAB_IOC_AV_STRADDR, arg)
        return room.value.decode(errors="replace")

    def rx_addr(self, number: int, index: int) -> int:
        """Return the number of one receive context of a scalable endpoint.

        Args:
            number: of the endpoint.
            index: of the context.

        Raises:
            ValueError: the index does not fit into :attr:`rx_ctx_bits`.
        """
        if not 0 <= index < 1 << self.rx_ctx_bits:
            raise ValueError(f"index {index} does not fit into {self.rx_ctx_bits} bits")
        return index << (64 - self.rx_ctx_bits) | number
