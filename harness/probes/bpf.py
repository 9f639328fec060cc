# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The system call bpf(2): makes maps, loads and attaches programs, and accesses maps.

bcc could do this, too, but its import loads a compiler, which takes an emulated guest most
of a second. The tables have the interface of bcc's.
"""

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import Any, Final

KPROBE, RAW_TRACEPOINT, TRACING = 2, 17, 26  # kinds of programs
MAP_FD: Final = 1
"""In an instruction that loads 64 bits: the number is a map's descriptor."""
LOAD_64: Final = 0x18
"""The code of that instruction, which takes the place of two."""

_SYSCALL = 321  # x86-64
_MAP_CREATE, _LOOK_UP, _UPDATE, _DELETE, _NEXT_KEY, _PROG_LOAD = range(6)
_RAW_TRACEPOINT_OPEN = 17
_RUN = 10
_FENTRY = 24
_ATTR_BYTES = 128
_LOG_BYTES = 1 << 20
_LOG_LINES = 8
_LICENSE = b"Dual BSD/GPL\0"
_MAP = struct.Struct("<IIIIIII16s")  # type, sizes, entries, flags, inner map, node, name
_ELEMENT = struct.Struct("<IxxxxQQQ")  # map, key, value or next key, flags
# Kind, instructions, license, log, kernel, flags, name, device, attach type; the BTF of the
# program, which has none; the function to attach to.
_PROGRAM = struct.Struct("<IIQQIIQII16sII36xI")
_RAW = struct.Struct("<QI")
_RUNNING = struct.Struct("<I36xI4xQ")  # program, size of the arguments, arguments
_ARGUMENTS = 12  # of a raw tracepoint, at most

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_long]
_libc.syscall.restype = ctypes.c_long


def _call(command: int, attr: bytes) -> int:
    buffer = ctypes.create_string_buffer(attr, _ATTR_BYTES)
    result = int(_libc.syscall(_SYSCALL, command, buffer, _ATTR_BYTES))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def create_map(
    name: str, kind: int, *, key: int, value: int, entries: int, flags: int = 0, inner: int = 0
) -> int:
    """Make a map and return its descriptor. Raises OSError.

    Args:
        name: For people who list the kernel's maps.
        kind: One of the kernel's BPF_MAP_TYPE_….
        key: The size of a key, in bytes.
        value: The size of a value, in bytes.
        entries: The number of entries; of a ring the number of bytes.
        flags: The kernel's BPF_F_….
        inner: For a map of maps: the descriptor of a map like those in it.
    """
    return _call(
        _MAP_CREATE, _MAP.pack(kind, key, value, entries, flags, inner, 0, name.encode()[:15])
    )


def load(name: str, kind: int, code: bytes, function: int = 0) -> int:
    """Load a program and return its descriptor.

    Args:
        name: For people who list the kernel's programs.
        kind: KPROBE, RAW_TRACEPOINT or TRACING.
        code: Its instructions.
        function: For TRACING: the BTF id of the kernel's function.

    Raises:
        OSError: The kernel refuses it; the text has the end of the verifier's log.
    """
    try:
        return _load(name, kind, code, function, None)
    except OSError as error:
        log = ctypes.create_string_buffer(_LOG_BYTES)
        try:
            return _load(name, kind, code, function, log)
        except OSError:
            lines = log.value.decode(errors="replace").splitlines()[-_LOG_LINES:]
            text = "\n".join([f"program {name}: {error.strerror}", *lines])
            raise OSError(error.errno, text) from None


def _load(name: str, kind: int, code: bytes, function: int, log: Any) -> int:
    text, license_ = ctypes.create_string_buffer(code, len(code)), ctypes.c_char_p(_LICENSE)
    attr = _PROGRAM.pack(
        *(kind, len(code) // 8, ctypes.addressof(text)),
        ctypes.cast(license_, ctypes.c_void_p).value,
        *((1, _LOG_BYTES, ctypes.addressof(log)) if log else (0, 0, 0)),
        *(0, 0, name.rpartition("__")[2].encode()[:15], 0, _FENTRY if kind == TRACING else 0),
        function,
    )
    return _call(_PROG_LOAD, attr)


def attach(program: int, tracepoint: str = "") -> int:
    """Attach to a raw tracepoint, or to the function of a TRACING program. Raises OSError.

    Returns:
        A descriptor; closing it detaches.
    """
    name = ctypes.create_string_buffer(tracepoint.encode())
    address = ctypes.addressof(name) if tracepoint else 0
    return _call(_RAW_TRACEPOINT_OPEN, _RAW.pack(address, program))


def run(program: int, *arguments: int) -> None:
    """Run a program for a raw tracepoint once, as if the tracepoint was hit. Raises OSError."""
    given = (ctypes.c_uint64 * _ARGUMENTS)(*arguments)
    _call(_RUN, _RUNNING.pack(program, ctypes.sizeof(given), ctypes.addressof(given)))


class Table:
    """A map's elements. Keys and values are ctypes; a key may also be a plain number.

    Args:
        fd: The map's descriptor.
        key: The type of its keys.
        leaf: The type of its values.
    """

    def __init__(self, fd: int, key: Any, leaf: Any) -> None:
        self.map_fd = fd
        self.Key = key
        self.Leaf = leaf

    def __getitem__(self, key: Any) -> Any:
        leaf = self.Leaf()
        self._do(_LOOK_UP, key, leaf)
        return leaf

    def __setitem__(self, key: Any, leaf: Any) -> None:
        self._do(_UPDATE, key, leaf)

    def __delitem__(self, key: Any) -> None:
        self._do(_DELETE, key, None)

    def keys(self) -> Iterator[Any]:
        """The keys; those that are added or removed meanwhile may be missing or come twice."""
        key = None
        while True:
            following = self.Key()
            try:
                self._do(_NEXT_KEY, key, following)
            except KeyError:
                return
            key = following
            yield key

    def items(self) -> Iterator[tuple[Any, Any]]:
        """The elements."""
        for key in self.keys():
            try:
                leaf = self[key]
            except KeyError:  # it has been removed meanwhile
                continue
            yield key, leaf

    def values(self) -> Iterator[Any]:
        """The values."""
        return (leaf for _, leaf in self.items())

    def clear(self) -> None:
        """Remove all elements."""
        for key in list(self.keys()):
            try:
                del self[key]
            except KeyError:
                pass

    def walk(self, number: int) -> list[int]:
        """The addresses of a stack, innermost first, from a map of stacks."""
        addresses = []
        for address in self[number].ip:
            if not address:
                break
            addresses.append(address)
        return addresses

    def _do(self, command: int, key: Any, other: Any) -> None:
        """One system call for an element. Raises KeyError, OSError."""
        if isinstance(key, int):
            key = self.Key(key)
        places = [0 if thing is None else ctypes.addressof(thing) for thing in (key, other)]
        try:
            _call(command, _ELEMENT.pack(self.map_fd, *places, 0))
        except FileNotFoundError:
            raise KeyError(key) from None
