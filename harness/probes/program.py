# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A program in the kernel: its maps, functions and attachments.

    program = load(Source(text, flags, values), values={"OWN_TGID": os.getpid()})
    program[b"queues"].items()
    program.cleanup()

The interface is that of bcc's BPF, as far as the probes use it. bcc itself is only imported
to compile what is not kept (:mod:`kfabric.probes.compiled`).
"""

import ctypes
import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from kfabric.probes import bpf, compiled
from kfabric.probes.bpf import Table
from kfabric.probes.compiled import Compiled, Source

_SCALARS: Final[dict[str, Any]] = {
    "_Bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "unsigned char": ctypes.c_ubyte,
    "short": ctypes.c_short,
    "unsigned short": ctypes.c_ushort,
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "long": ctypes.c_long,
    "unsigned long": ctypes.c_ulong,
    "long long": ctypes.c_longlong,
    "unsigned long long": ctypes.c_ulonglong,
}
_RAW, _FENTRY = b"raw_tracepoint__", b"kfunc__"

Wanted = Callable[[str], bool]
"""Decides by its name whether a function is loaded."""


def load(
    source: Source,
    *,
    values: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    inner: Mapping[str, str] | None = None,
    wanted: Wanted = lambda name: True,
    compiling: Callable[[], None] = lambda: None,
) -> "Program":
    """Load a program; compile it if its compiled form is not kept, or does not load.

    Args:
        source: The program.
        values: The numbers for all of ``source.values``.
        sizes: By map: its number of entries (of a ring: bytes), if not that of the text.
        inner: By map of maps: the name of a map like those in it.
        wanted: Which functions to load. Those for raw tracepoints and fentry are also
            attached.
        compiling: Called before the compiler starts, which takes an emulated guest minutes.

    Raises:
        ImportError: bcc is not installed, and the program is not kept.
        CompileError: It cannot be compiled.
        OSError: The kernel refuses it.
    """
    key = compiled.key_of(source)
    form = values or {}, sizes or {}, inner or {}, wanted
    kept = compiled.find(key)
    if kept is not None:
        try:
            return Program(kept, *form, compiled=False)
        except OSError as error:
            print(f"kfabric: compiled again, since what was kept fails: {error}", file=sys.stderr)
    compiling()
    made = compiled.compile_source(source)
    program = Program(made, *form, compiled=True)
    compiled.keep(key, made)
    return program


class Program:
    """A loaded program; made by :func:`load`."""

    def __init__(
        self,
        form: Compiled,
        values: Mapping[str, int],
        sizes: Mapping[str, int],
        inner: Mapping[str, str],
        wanted: Wanted,
        *,
        compiled: bool,
    ) -> None:
        self.compiled = compiled
        """Was the compiler needed for it?"""
        self.raw_tracepoint_fds: dict[bytes, int] = {}
        self.kfunc_entry_fds: dict[bytes, int] = {}
        self._form = form
        self._values = values
        self._maps: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._tables: dict[bytes, Table] = {}
        _PROGRAMS.add(self)
        try:
            # A map of maps after the others.
            for each in sorted(form.maps, key=lambda each: each.name in inner):
                self._maps[each.name] = bpf.create_map(
                    each.name,
                    each.kind,
                    key=each.key,
                    value=each.leaf,
                    entries=sizes.get(each.name, each.entries),
                    flags=each.flags,
                    inner=self._maps[inner[each.name]] if each.name in inner else 0,
                )
            self._load_all([name for name in form.functions if wanted(name)])
            self._attach_all()
        except BaseException:
            self.cleanup()
            raise

    def _load_all(self, functions: Sequence[str]) -> None:
        """Load them on all CPUs: the kernel's verifier takes most of the time."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for loaded in [pool.submit(self._load, name) for name in functions]:
                loaded.result()

    def _load(self, name: str) -> None:
        function = self._form.functions[name]
        code = bytearray.fromhex(function.code)
        numbers = [(self._maps[each], places) for each, places in function.maps.items()]
        numbers += [(self._values[each], places) for each, places in function.values.items()]
        for number, places in numbers:
            halves = (number & 0xFFFFFFFF, number >> 32)
            for at in places:
                for half, place in zip(halves, (at + 4, at + 12), strict=True):
                    code[place : place + 4] = half.to_bytes(4, "little")
        self._functions[name] = bpf.load(name, function.kind, bytes(code), function.target)

    def _attach_all(self) -> None:
        for name in map(str.encode, filter(self._functions.__contains__, self._form.functions)):
            if name.startswith(_RAW):
                self.attach_raw_tracepoint(name.removeprefix(_RAW), name)
            elif name.startswith(_FENTRY):
                self.attach_kfunc(name)

    def __getitem__(self, name: bytes) -> Table:
        if name not in self._tables:
            [found] = [each for each in self._form.maps if each.name == name.decode()]
            types = _type(found.key_type), _type(found.leaf_type)
            self._tables[name] = Table(self._maps[found.name], *types)
        return self._tables[name]

    def function(self, name: str) -> int:
        """The descriptor of a loaded function."""
        return self._functions[name]

    def attach_raw_tracepoint(self, tp: bytes, fn_name: bytes) -> None:
        """Attach a function to a raw tracepoint. Raises OSError."""
        self.raw_tracepoint_fds[tp] = bpf.attach(self._functions[fn_name.decode()], tp.decode())

    def detach_raw_tracepoint(self, tp: bytes) -> None:
        """Detach from a raw tracepoint."""
        os.close(self.raw_tracepoint_fds.pop(tp))

    def attach_kfunc(self, fn_name: bytes) -> None:
        """Attach a function by fentry. Raises OSError."""
        self.kfunc_entry_fds[fn_name] = bpf.attach(self._functions[fn_name.decode()])

    def detach_kfunc(self, fn_name: bytes) -> None:
        """Detach it."""
        os.close(self.kfunc_entry_fds.pop(fn_name))

    def cleanup(self) -> None:
        """Detach all functions, and free everything. May be called again."""
        owners: tuple[dict[Any, int], ...] = (
            *(self.raw_tracepoint_fds, self.kfunc_entry_fds),
            *(self._functions, self._maps),
        )
        for descriptors in owners:
            while descriptors:
                os.close(descriptors.popitem()[1])


_PROGRAMS: Final[weakref.WeakSet[Program]] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a forked child: close its copies, which would keep functions attached."""
    for program in _PROGRAMS:
        program.cleanup()


os.register_at_fork(after_in_child=_leave_to_parent)


def _type(description: Any) -> Any:
    """A type in bcc's description: a name, or ``[name, [[member, type, …], …], kind]``."""
    if isinstance(description, str):
        return _SCALARS[description]
    name, members, *kind = description
    return type(
        str(name),
        (ctypes.Union if kind == ["union"] else ctypes.Structure,),
        {
            **({"_pack_": 1} if kind == ["struct_packed"] else {}),
            "_fields_": [_member(*member) for member in members],
        },
    )


def _member(name: str, of: Any, how: Any = None) -> tuple[Any, ...]:
    """A member; ``how`` is ``[number of elements]``, a number of bits, or a kind."""
    if isinstance(how, list):
        return name, _type(of) * how[0]
    if isinstance(how, int):
        return name, _type(of), how
    # A structure is described in place, under the name of its member.
    return name, _type(of) if how is None else _type([name, of, how])
