# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compiled programs that are kept: never a wrong one, and never in silence."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfabric import names
from kfabric.probes import bpf, compiled, program
from kfabric.probes.compiled import Compiled, CompileError, Function, Map, Source, function_of
from kfabric.probes.program import load

SOURCE = Source(b"int on_wake(void) { return WHO; }", ("-O1",), ("WHO", "BASE"))
RETURN = bytes.fromhex("9500000000000000")
RING, SHARED = 7, 9


def load_64(register: int, low: int, high: int, pseudo: int = 0) -> bytes:
    """The instruction that loads 64 bits."""
    return struct.pack("<BBhiBBhi", 0x18, pseudo << 4 | register, 0, low, 0, 0, 0, high)


def mark(number: int) -> bytes:
    """The instruction that loads a value."""
    return load_64(2, number, 0x6B666162)


CODE = load_64(1, SHARED, 0, pseudo=1) + mark(1) + load_64(3, 5, 6) + mark(0) + RETURN


def made() -> Compiled:
    """A program of one function with two maps and two values."""
    maps = (
        Map("all", 12, 4, 4, 1, 0, "int", "int"),
        Map("ring", 27, 0, 0, 1, 0, "int", "int"),
        Map("shared", 1, 4, 16, 64, 0, "unsigned int", ["pair", [["a", "unsigned int", [4]]]]),
    )
    function = function_of("on_wake", CODE, {RING: "ring", SHARED: "shared"}, SOURCE.values)
    return Compiled(maps, {"on_wake": function})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for kept programs."""
    monkeypatch.setenv(names.PROGRAMS, str(tmp_path))
    return tmp_path


class FakeKernel:
    """Takes maps and programs, and refuses the next one if it is told so."""

    def __init__(self) -> None:
        self.loaded: list[bytes] = []
        self.maps: dict[str, tuple[int, int]] = {}
        self.refuses = 0
        self.compilations = 0
        self.open: set[int] = set()

    def _descriptor(self) -> int:
        fd = os.open(os.devnull, os.O_RDONLY)
        self.open.add(fd)
        return fd

    def create_map(self, name: str, kind: int, *, entries: int, inner: int, **_: int) -> int:
        self.maps[name] = (entries, inner)
        return self._descriptor()

    def load(self, name: str, kind: int, code: bytes, function: int) -> int:
        if self.refuses:
            self.refuses -= 1
            raise OSError(22, "Invalid argument")
        self.loaded.append(code)
        return self._descriptor()

    def compile(self, source: Source) -> Compiled:
        self.compilations += 1
        return made()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKernel]:
    """A kernel and a compiler for the test."""
    fake = FakeKernel()
    monkeypatch.setattr(bpf, "create_map", fake.create_map)
    monkeypatch.setattr(bpf, "load", fake.load)
    monkeypatch.setattr(compiled, "compile_source", fake.compile)
    yield fake


def start(**values: int) -> program.Program:
    """Load the program as a probe does."""
    return load(SOURCE, values={"WHO": 1, "BASE": 2, **values}, inner={"all": "ring"})


def test_second_start_does_not_compile(place: Path, kernel: FakeKernel) -> None:
    """Both programs say whether they needed the compiler; other values need no other one."""
    assert start().compiled
    assert not start(WHO=77).compiled
    assert kernel.compilations == 1


def test_caller_is_told_before_the_compiler_starts(place: Path, kernel: FakeKernel) -> None:
    """It can show a line, since that takes long; not if nothing is compiled."""
    seen: list[int] = []
    for _ in range(2):
        values = {"WHO": 1, "BASE": 2}
        compiling = lambda: seen.append(kernel.compilations)  # noqa: E731
        load(SOURCE, values=values, inner={"all": "ring"}, compiling=compiling)
    assert seen == [0]


def test_without_a_place_each_start_compiles(
    monkeypatch: pytest.MonkeyPatch, kernel: FakeKernel
) -> None:
    """The cache only saves time."""
    monkeypatch.delenv(names.PROGRAMS, raising=False)
    assert start().compiled
    assert start().compiled


def test_place_that_cannot_be_written_only_costs_time(
    monkeypatch: pytest.MonkeyPatch, kernel: FakeKernel
) -> None:
    """A read-only or full disk stops no trace."""
    monkeypatch.setenv(names.PROGRAMS, "/proc/self/programs")
    assert start().compiled
    assert start().compiled


def test_values_and_descriptors_are_put_into_the_instructions(
    place: Path, kernel: FakeKernel
) -> None:
    """Each value at its marks, in both halves; constants of the program stay as they are."""
    running = start(WHO=0xFFFFFFFF82A01000, BASE=0x1FB98)
    fd = running[b"shared"].map_fd
    assert kernel.loaded == [
        load_64(1, fd, 0, pseudo=1)
        + load_64(2, 0x1FB98, 0)
        + load_64(3, 5, 6)
        + struct.pack("<BBhIBBhI", 0x18, 2, 0, 0x82A01000, 0, 0, 0, 0xFFFFFFFF)
        + RETURN
    ]


def test_map_of_maps_is_made_after_its_inner_map(place: Path, kernel: FakeKernel) -> None:
    """It needs the other's descriptor; a size that the loader gives replaces the text's."""
    running = load(
        SOURCE, values={"WHO": 1, "BASE": 2}, inner={"all": "ring"}, sizes={"ring": 4096}
    )
    assert kernel.maps["ring"] == (4096, 0)
    assert kernel.maps["all"] == (1, running[b"ring"].map_fd)
    assert kernel.maps["shared"] == (64, 0)


def test_cleanup_closes_every_descriptor(place: Path, kernel: FakeKernel) -> None:
    """Also after a second call."""
    running = start()
    running.cleanup()
    running.cleanup()
    for fd in kernel.open:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_kept_program_that_the_kernel_refuses_is_compiled_again(
    place: Path, kernel: FakeKernel, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a line says so."""
    start()
    kernel.refuses = 1
    assert start().compiled
    assert "compiled again" in capsys.readouterr().err
    kernel.refuses = 2
    with pytest.raises(OSError, match="Invalid argument"):
        start()


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _rename(path: Path) -> None:
    content = json.loads(path.read_bytes().partition(b"\n")[2])
    rest = json.dumps({**content, "key": "0" * 32}).encode()
    path.write_bytes(hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)


def _open_to_all(path: Path) -> None:
    path.chmod(0o666)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (_flip, "damaged"),
        (_cut, "damaged"),
        (_empty, "damaged"),
        (_rename, "of another program"),
        (_open_to_all, "another user"),
    ],
)
def test_file_that_is_not_sound_is_compiled_again_and_replaced(
    place: Path,
    kernel: FakeKernel,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], None],
    word: str,
) -> None:
    """A line gives the reason. The next start has a sound file again."""
    start()
    (path,) = place.iterdir()
    spoil(path)
    assert start().compiled
    assert word in capsys.readouterr().err
    assert not start().compiled
    assert capsys.readouterr().err == ""


def test_file_of_another_user_is_not_used(
    place: Path, kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who can write a program for root's kernel owns the kernel."""
    start()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert start().compiled


def _uname(**changed: str) -> Callable[[], object]:
    real = os.uname()
    fields = {name: getattr(real, name) for name in ("release", "version", "machine")}
    other = SimpleNamespace(**{**fields, **changed})
    return lambda: other


def test_key_changes_with_everything_that_went_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, options, values, kernel, its build, and the compiler; else it stays the same."""
    first = compiled.key_of(SOURCE)
    assert compiled.key_of(replace(SOURCE)) == first
    keys = {
        first,
        compiled.key_of(replace(SOURCE, text=SOURCE.text + b" ")),
        compiled.key_of(replace(SOURCE, flags=("-O2",))),
        compiled.key_of(replace(SOURCE, flags=())),
        compiled.key_of(replace(SOURCE, values=("BASE", "WHO"))),
    }
    for change in ({"release": "7.0"}, {"version": "#2 SMP"}, {"machine": "riscv64"}):
        with monkeypatch.context() as patch:
            patch.setattr(os, "uname", _uname(**change))
            keys.add(compiled.key_of(SOURCE))
    for function in ("_build_id", "_compiler"):
        with monkeypatch.context() as patch:
            patch.setattr(compiled, function, lambda: b"another one")
            keys.add(compiled.key_of(SOURCE))
    assert len(keys) == 10


def test_other_bcc_is_another_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its version and its age count; it is not imported for that."""
    monkeypatch.syspath_prepend(str(tmp_path))
    version = tmp_path / "bcc/version.py"
    version.parent.mkdir()
    version.write_text("__version__ = '0.26.0'")
    os.utime(version, ns=(0, 1))
    keys = {compiled.key_of(SOURCE)}
    os.utime(version, ns=(0, 2))
    keys.add(compiled.key_of(SOURCE))
    version.write_text("__version__ = '0.27.0'")
    os.utime(version, ns=(0, 2))
    keys.add(compiled.key_of(SOURCE))
    assert len(keys) == 3


def test_unknown_map_or_value_is_refused() -> None:
    """A mark without a value, or a map of no name, would be a wild number in the kernel."""
    for code in (mark(2), load_64(1, 8, 0, pseudo=1)):
        with pytest.raises(CompileError):
            function_of("on_wake", code + RETURN, {RING: "ring"}, SOURCE.values)


def test_functions_have_the_kind_of_their_prefix() -> None:
    """As bcc names them."""
    kinds = {
        name: function_of(name, RETURN, {}, ()).kind
        for name in ("on_wake", "raw_tracepoint__sched_switch")
    }
    assert list(kinds.values()) == [bpf.KPROBE, bpf.RAW_TRACEPOINT]


def test_types_are_those_that_bcc_describes(place: Path, kernel: FakeKernel) -> None:
    """Nested structures, arrays and padding have the compiler's layout."""
    description = [
        "open",
        [
            ["r", [["kind", "unsigned int"], ["t", "unsigned long long"]], "struct"],
            ["kind", "unsigned char"],
            ["__pad_1", "char", [7]],
            ["text", [["range", [["start", "unsigned long long"]], "struct"]], "struct"],
            ["ip", "unsigned long long", [3]],
        ],
        "struct",
    ]
    leaf = program._type(description)()
    leaf.r.t, leaf.kind, leaf.ip[2] = 1, 2, 3
    leaf.text.range.start = 4
    assert bytes(leaf) == struct.pack("<QQQQQQQ", 0, 1, 2, 4, 0, 0, 3)


def test_compiled_form_survives_its_file(place: Path) -> None:
    """What is read equals what was kept."""
    compiled.keep("a" * 32, made())
    found = compiled.find("a" * 32)
    assert found == made()
    assert isinstance(found, Compiled)
    assert isinstance(found.functions["on_wake"], Function)
    assert list(place.iterdir()) == [place / ("a" * 32)]


@pytest.mark.parametrize(("status", "error"), [(3, ImportError), (1, CompileError)])
def test_compiler_runs_in_a_process_whose_status_is_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception]
) -> None:
    """The compiler keeps hundreds of MiB, which end with its process."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setattr(compiled.sys, "executable", str(program))
    with pytest.raises(error):
        compiled.compile_source(SOURCE)
