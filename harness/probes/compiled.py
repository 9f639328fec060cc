# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compiled programs, which are kept: nothing is compiled twice.

The compiler (bcc, with LLVM) takes an emulated guest most of the time that a trace needs to
start. Its product depends only on the text, the flags, the kernel and the compiler itself;
:func:`key_of` hashes all of them. Numbers that change from boot to boot or from trace to
trace (addresses, options) are not compiled in: the program has a mark for each of them, and
the number is put there when it is loaded. The kernel then sees a constant, and removes code
that a zero option switches off.

The compiler runs in a process of its own, since it does not give its memory back (300 MiB).

A kept file is one line with the hash of the rest, then JSON. A file that is damaged, that
another user could have written, or that has another key is not used.
"""

import ctypes
import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kfabric import names
from kfabric.probes import bpf, btf
from kfabric.root import ROOT, read_only

_NOTES = Path("/sys/kernel/notes")
_NO_BCC = 3  # an exit status
_INSTRUCTION = 8
# The upper half of each mark; the lower half is the number of the value.
_MARK = 0x6B666162
_PREFIXES = {"raw_tracepoint__": bpf.RAW_TRACEPOINT, "kfunc__": bpf.TRACING}


class CompileError(Exception):
    """bcc cannot compile the program; it has printed the reason."""


@dataclass(frozen=True)
class Source:
    """Everything that goes into the compiler, besides kernel and compiler.

    Args:
        text: The program.
        flags: The compiler's options.
        values: The names of numbers that the loader knows. In the text each is a constant of
            64 bits, but not one for the preprocessor or for the size of a map.
    """

    text: bytes
    flags: tuple[str, ...]
    values: tuple[str, ...] = ()

    @property
    def whole(self) -> bytes:
        """The text with the definitions of its values."""
        lines = [_definition(name, number) for number, name in enumerate(self.values)]
        return "".join(lines).encode() + self.text


def _definition(name: str, number: int) -> str:
    mark = _MARK << 32 | number
    return (
        f"static __always_inline unsigned long long {name.lower()}_value(void) {{ "
        f'unsigned long long value; asm("%0 = {mark:#x} ll" : "=r"(value)); return value; }}\n'
        f"#define {name} {name.lower()}_value()\n"
    )


@dataclass(frozen=True)
class Map:
    """A map's definition. ``key_type`` and ``leaf_type`` describe its types, as bcc does."""

    name: str
    kind: int
    key: int
    leaf: int
    entries: int
    flags: int
    key_type: Any
    leaf_type: Any


@dataclass(frozen=True)
class Function:
    """A program's instructions."""

    code: str
    """In hexadecimal digits."""
    kind: int
    target: int
    """The BTF id of the kernel's function, for bpf.TRACING."""
    maps: Mapping[str, Sequence[int]]
    """By map: the instructions that need its descriptor."""
    values: Mapping[str, Sequence[int]]
    """By value: the instructions that need it."""


@dataclass(frozen=True)
class Compiled:
    """The product of the compiler."""

    maps: tuple[Map, ...]
    functions: Mapping[str, Function]


def key_of(source: Source) -> str:
    """The hash of everything that decides what the compiler makes."""
    uname = os.uname()
    parts = [
        *(Path(__file__).read_bytes(), source.whole),
        *(word.encode() for word in (*source.flags, uname.release, uname.version, uname.machine)),
        _build_id(),
        _compiler(),
    ]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:32]


def _build_id() -> bytes:
    """The kernel's notes, which have the hash of its build."""
    try:
        return _NOTES.read_bytes()
    except OSError:
        return b""


def _compiler() -> bytes:
    """The version of bcc, which is not imported for it."""
    for place in sys.path:
        path = Path(place, "bcc/version.py")
        with suppress(OSError):
            return b"%s %d" % (path.read_bytes(), path.stat().st_mtime_ns)
    return b""


def find(key: str) -> Compiled | None:
    """What the compiler made earlier for this key; None if that was not kept."""
    path = _path(key)
    if path is None:
        return None
    try:
        found = _read(path)
        if found["key"] != key:
            raise _UnusableError("it is of another program")
    except _UnusableError as error:
        print(f"kfabric: {path} is not used: {error}", file=sys.stderr)
        return None
    except OSError:
        return None
    return _decode(found)


def _decode(found: Any) -> Compiled:
    maps = tuple(Map(**each) for each in found["maps"])
    functions = {name: Function(**each) for name, each in found["functions"].items()}
    return Compiled(maps, functions)


class _UnusableError(Exception):
    """A kept file must not be used."""


def _read(path: Path) -> Any:
    """The checked contents of a kept file. Raises OSError, _UnusableError."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        digest, _, rest = file.read().partition(b"\n")
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _UnusableError("another user may write to it")
    if hashlib.sha256(rest).hexdigest().encode() != digest:
        raise _UnusableError("it is damaged")
    return json.loads(rest)


def keep(key: str, compiled: Compiled) -> None:
    """Keep it for the next program with this key, if there is a place for it."""
    path = _path(key)
    if path is None:
        return
    rest = json.dumps({"key": key, **asdict(compiled)}).encode()
    digest = hashlib.sha256(rest).hexdigest().encode()
    scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    # Without it the next trace only takes longer.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644), "wb") as file:
            file.write(digest + b"\n" + rest)
        scratch.replace(path)


def _path(key: str) -> Path | None:
    directory = os.environ.get(names.PROGRAMS)
    return Path(directory, key) if directory else None


def compile_source(source: Source) -> Compiled:
    """Compile, in a process that ends then.

    Raises:
        ImportError: bcc is not installed.
        CompileError: bcc reports an error.
    """
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps([source.text.decode(), source.flags, source.values]),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=read_only(ROOT),
    )
    if done.returncode == _NO_BCC:
        raise ImportError("bcc is not installed")
    if done.returncode:
        raise CompileError("bcc cannot compile the program")
    return _decode(json.loads(done.stdout))


def _main() -> int:
    """Compile the source on the standard input; an exit status."""
    text, flags, values = json.load(sys.stdin)
    # The compiler may print, too.
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        made = _compile(Source(text.encode(), tuple(flags), tuple(values)))
    except ImportError:
        return _NO_BCC
    except CompileError as error:
        print(error, file=sys.stderr)
        return 1
    with os.fdopen(output, "w") as file:
        json.dump(asdict(made), file)
    return 0


def _compile(source: Source) -> Compiled:
    """Compile here. Raises ImportError, CompileError."""
    from bcc.libbcc import lib

    for name, result in _RESULTS.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    lib.bpf_num_tables.restype, lib.bpf_num_tables.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    flags = (ctypes.c_char_p * len(source.flags))(*(flag.encode() for flag in source.flags))
    module = lib.bpf_module_create_c_from_string(source.whole, 0, flags, len(flags), True, None)
    if not module:
        raise CompileError("bcc cannot compile the program")
    try:
        maps = {
            lib.bpf_table_fd_id(module, number): _map_of(lib, module, number)
            for number in range(lib.bpf_num_tables(module))
        }
        descriptors = {fd: each.name for fd, each in maps.items()}
        functions = {}
        for number in range(lib.bpf_num_functions(module)):
            name = lib.bpf_function_name(module, number)
            size = lib.bpf_function_size(module, name)
            code = ctypes.string_at(lib.bpf_function_start(module, name), size)
            functions[name.decode()] = function_of(name.decode(), code, descriptors, source.values)
    finally:
        lib.bpf_module_destroy(module)
    return Compiled(tuple(maps.values()), functions)


def _map_of(lib: Any, module: Any, number: int) -> Map:
    types = (lib.bpf_table_key_desc_id, lib.bpf_table_leaf_desc_id)
    return Map(
        lib.bpf_table_name(module, number).decode(),
        lib.bpf_table_type_id(module, number),
        lib.bpf_table_key_size_id(module, number),
        lib.bpf_table_leaf_size_id(module, number),
        lib.bpf_table_max_entries_id(module, number),
        lib.bpf_table_flags_id(module, number),
        *(json.loads(describe(module, number) or b'"int"') for describe in types),
    )


def function_of(
    name: str, code: bytes, descriptors: Mapping[int, str], values: Sequence[str]
) -> Function:
    """A program, given its instructions as bcc would load them.

    Args:
        name: Its name, whose prefix shows its kind.
        code: Its instructions.
        descriptors: The names of bcc's own maps.
        values: The names of the values, in the order of their marks.

    Raises:
        CompileError: It uses an unknown map or value.
    """
    maps: dict[str, list[int]] = {}
    used: dict[str, list[int]] = {}
    for at in range(0, len(code), _INSTRUCTION):
        if code[at] != bpf.LOAD_64:
            continue
        low, high = (int.from_bytes(code[at + n : at + n + 4], "little") for n in (4, 12))
        try:
            if code[at + 1] >> 4 == bpf.MAP_FD:
                maps.setdefault(descriptors[low], []).append(at)
            elif high == _MARK:
                used.setdefault(values[low], []).append(at)
        except LookupError:
            raise CompileError(f"{name} uses an unknown map or value") from None
    kind, target = bpf.KPROBE, 0
    for prefix, other in _PREFIXES.items():
        kind = other if name.startswith(prefix) else kind
    if kind == bpf.TRACING:
        function = name.removeprefix("kfunc__").removeprefix("vmlinux__")
        target = btf.function_id(Path(btf.VMLINUX).read_bytes(), function.encode())
    return Function(code.hex(), kind, target, maps, used)


# The functions of bcc's library that its Python does not declare.
_RESULTS = {
    "bpf_table_name": ctypes.c_char_p,
    "bpf_table_fd_id": ctypes.c_int,
    "bpf_table_type_id": ctypes.c_int,
    "bpf_table_max_entries_id": ctypes.c_size_t,
    "bpf_table_flags_id": ctypes.c_int,
    "bpf_table_key_size_id": ctypes.c_size_t,
    "bpf_table_leaf_size_id": ctypes.c_size_t,
    "bpf_table_key_desc_id": ctypes.c_char_p,
    "bpf_table_leaf_desc_id": ctypes.c_char_p,
}


if __name__ == "__main__":
    sys.exit(_main())
