# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Message buffers and memory regions.

Messages live in kernel memory that is mapped into the process. A
:class:`Buffer` is such memory; operations take :class:`Segment` objects, pieces of
buffers. A :class:`MemoryRegion` lets the peer reach buffers; some domains require
one for local buffers, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeAlias

from kfabric_py import _uapi
from kfabric_py._call import u64
from kfabric_py.enums import Access, MrMode
from kfabric_py.handle import KernelObject, OpenedObject

if TYPE_CHECKING:
    from kfabric_py.device import Device
    from kfabric_py.domain import Domain


@dataclass(frozen=True, slots=True)
class Segment:
    """Some consecutive bytes of a buffer.

    Attributes:
        buffer: the buffer.
        offset: of the first byte in the buffer.
        length: number of bytes.
        region: the region that describes them to the device, if the domain
            requires one.
    """

    buffer: Buffer
    offset: int
    length: int
    region: MemoryRegion | None = None
    _iov: ctypes.Array[_uapi.kfab_iov] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def view(self) -> memoryview:
        """The bytes themselves; writing to the view writes to the buffer."""
        return self.buffer.view[self.offset : self.offset + self.length]

    def __len__(self) -> int:
        """Return the number of bytes."""
        return self.length

    def __bytes__(self) -> bytes:
        """Return a copy of the bytes."""
        return bytes(self.view)

    def __getitem__(self, index: slice) -> Segment:
        """Return a part of the segment, as slices of sequences are cut."""
        start, stop = _bounds(index, self.length)
        return Segment(self.buffer, self.offset + start, stop - start, self.region)


#: The local side of an operation: all of a buffer or region, a piece of one, or
#: several pieces in a row.
Local: TypeAlias = "Buffer | MemoryRegion | Segment | Iterable[Segment]"


def _bounds(index: slice, length: int) -> tuple[int, int]:
    start, stop, step = index.indices(length)
    if step != 1:
        raise ValueError("only consecutive bytes can be used")
    return start, max(start, stop)


class Buffer(KernelObject):
    """Memory that messages are sent from and received into.

    ``buffer[a:b]`` is a :class:`Segment`; ``buffer.view`` is the bytes. The memory is
    freed when its last user is gone: views of a closed buffer stay valid, and so do
    operations in progress.
    """

    def __init__(self, device: Device, length: int) -> None:
        """Use :meth:`Device.buffer`."""
        client = device._client
        arg = _uapi.kfab_buf_alloc(length=u64(length, "length"))
        client(_uapi.KFAB_IOC_BUF_ALLOC, arg)
        try:
            self._map = mmap.mmap(client.fd, length, mmap.MAP_SHARED, offset=arg.out_offset)
        except BaseException:
            client(_uapi.KFAB_IOC_CLOSE, _uapi.kfab_close(handle=arg.out_handle))
            raise
        self._length = length
        self._view = memoryview(self._map)
        super().__init__(device, client, arg.out_handle)

    @property
    def view(self) -> memoryview:
        """The whole buffer as writable bytes.

        Raises:
            ClosedError: the buffer is closed.
        """
        self._check_open()
        return self._view

    def __len__(self) -> int:
        """Return the length in bytes."""
        return self._length

    def __getitem__(self, index: slice) -> Segment:
        """Return a piece of the buffer."""
        start, stop = _bounds(index, self._length)
        return Segment(self, start, stop - start)

    def _close_self(self) -> None:
        super()._close_self()
        # Other views of the memory may exist; the last one unmaps it.
        with contextlib.suppress(BufferError):
            self._view.release()
            self._map.close()


@dataclass(frozen=True, slots=True)
class RemoteRegion:
    """Some bytes of a peer's memory region, as the peer described them.

    Attributes:
        addr: address of the first byte in the form of the peer's domain.
        length: how many there are, in bytes.
        key: the region's key.
    """

    addr: int
    length: int
    key: int

    def to_bytes(self) -> bytes:
        """Return 24 bytes to send to a peer: address, length, key, little endian."""
        return struct.pack("<QQQ", self.addr, self.length, self.key)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse the result of :meth:`to_bytes` at the beginning of ``data``.

        Raises:
            ValueError: there are fewer than 24 bytes.
        """
        if len(data) < 24:
            raise ValueError(f"a remote region takes 24 bytes, not {len(data)}")
        return cls(*struct.unpack_from("<QQQ", data))


class MemoryRegion(OpenedObject):
    """Buffers that were registered with the device.

    Attributes:
        key: the key by which a peer names the region.
        iova: the address of the first byte for a peer.
    """

    #: Must not be collected before the region.
    _bound: tuple[KernelObject, ...] = ()

    def __init__(
        self,
        domain: Domain,
        pieces: Iterable[Segment],
        access: Access,
        key: int,
        context: object,
    ) -> None:
        """Use :meth:`Domain.mr`."""
        self._pieces = tuple(pieces)
        self._domain = domain
        iov = iov_array(self._pieces)
        arg = _uapi.kfab_mr_reg(
            domain=domain._live_handle(),
            iov_count=len(iov),
            iov=ctypes.addressof(iov),
            access=access,
            requested_key=u64(key, "key"),
        )
        super().__init__(domain, domain._client, _uapi.KFAB_IOC_MR_REG, arg, context)
        self.key: int = arg.out_key
        self.iova: int = arg.out_iova

    def _uses(self) -> tuple[KernelObject, ...]:
        return (*(piece.buffer for piece in self._pieces), *self._bound)

    def __len__(self) -> int:
        """Return the length in bytes."""
        return sum(piece.length for piece in self._pieces)

    def __getitem__(self, index: slice) -> Segment:
        """Return a piece of a region that was made of one piece, for a local operation.

        Raises:
            ValueError: the region has several pieces.
        """
        if len(self._pieces) != 1:
            raise ValueError("the region has several pieces, cut the buffers instead")
        piece = self._pieces[0][index]
        return Segment(piece.buffer, piece.offset, piece.length, self)

    def bind(
        self, to: KernelObject, *, remote_read: bool = False, remote_write: bool = False
    ) -> None:
        """Bind the region to an endpoint, or count (``MrMode.ENDPOINT``).

        Args:
            to: the endpoint or receive context through which peers reach the region,
                or a counter.
            remote_read: (counter) reads by peers.
            remote_write: (counter) writes by peers.

        Raises:
            NotSupported: the domain's regions belong to no endpoint.
        """
        flags = remote_read * _uapi.KFAB_REMOTE_READ | remote_write * _uapi.KFAB_REMOTE_WRITE
        arg = _uapi.kfab_bind(handle=self._live_handle(), to=to._live_handle(), bind_flags=flags)
        self._client(_uapi.KFAB_IOC_BIND, arg)
        self._bound = (*self._bound, to)

    def enable(self) -> None:
        """Let peers reach the region (``MrMode.ENDPOINT``); :meth:`bind` it before.

        Raises:
            KfiError: KFI_ENOKEY: another region of that endpoint has the key.
        """
        arg = _uapi.kfab_control(handle=self._live_handle(), command=_uapi.KFAB_ENABLE)
        self._client(_uapi.KFAB_IOC_CONTROL, arg)

    def remote(self, offset: int = 0, length: int | None = None) -> RemoteRegion:
        """Describe bytes of the region for a peer.

        Args:
            offset: first byte, from the beginning of the region.
            length: bytes; ``None`` for all that follow.
        """
        self._check_open()
        base = self.iova if MrMode.VIRT_ADDR in self._domain.info.domain_attr.mr_mode else 0
        rest = len(self) - offset
        return RemoteRegion(base + offset, rest if length is None else length, self.key)


def segments(local: Local) -> tuple[Segment, ...]:
    """Return the pieces that an operation was given."""
    if isinstance(local, Segment):
        return (local,)
    if isinstance(local, Buffer):
        return (local[:],)
    if isinstance(local, MemoryRegion):
        return tuple(Segment(p.buffer, p.offset, p.length, local) for p in local._pieces)
    return tuple(local)


def described(local: Local) -> ctypes.Array[_uapi.kfab_iov]:
    """Return the array of pieces for the kernel; that of a segment is made once.

    Raises:
        ClosedError: a buffer or region is closed.
    """
    if not isinstance(local, Segment):
        return iov_array(segments(local))
    if local._iov is None:
        object.__setattr__(local, "_iov", iov_array((local,)))
        assert local._iov is not None
    if local.buffer._closed or (local.region is not None and local.region._closed):
        return iov_array((local,))
    return local._iov


def iov_array(pieces: tuple[Segment, ...]) -> ctypes.Array[_uapi.kfab_iov]:
    """Return the array that the kernel reads.

    Raises:
        ClosedError: a buffer or region is closed.
    """
    return (_uapi.kfab_iov * len(pieces))(
        *(
            _uapi.kfab_iov(
                buf=piece.buffer._live_handle(),
                mr=piece.region._live_handle() if piece.region else 0,
                offset=piece.offset,
                len=piece.length,
            )
            for piece in pieces
        )
    )
