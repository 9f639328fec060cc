# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The generated ioctl layer agrees with the headers, and with what gcc makes of them."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from struct import Struct
from types import ModuleType

import pytest

from kfabric_py import _uapi, channel, enums, errors, posting, queues

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "kmod" / "include" / "uapi"


def _generator() -> ModuleType:
    """Import the generator, which is a program and no part of the package."""
    spec = importlib.util.spec_from_file_location("gen", ROOT / "kfabric_py" / "_gen.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look themselves up.
    sys.modules["gen"] = module
    spec.loader.exec_module(module)
    return module


gen = _generator()

SAMPLE = """
/* a comment with a struct in it: struct no { __u32 x; }; */
#ifndef _SAMPLE_H
#define _SAMPLE_H
#include <linux/types.h>
#define S_MAGIC 0xfb    // trailing
#define S_LEN (1 << 3)
#define S_ALL ((__u64)~0ULL)
#define S_SUM \\
    (S_LEN + S_MAGIC)
enum s_kind { S_A, S_B = 4, S_C, };
struct s_inner { __u16 a, b; };
struct s_outer {
    __u32 size;
    __u32 __reserved;
    struct s_inner pair[2];
    __u8 raw[S_LEN];
    union { __u64 number; struct { __u32 low; __u32 high; } halves; };
    __aligned_u64 pointer;
    __s32 tail[];
};
#define S_CALL _IOWR(S_MAGIC, 0x02, struct s_outer)
#define S_NONE _IO(S_MAGIC, 3)
#endif
"""


def test_generated_file_is_up_to_date() -> None:
    assert gen.TARGET.read_text() == gen.generate(), "run python3 kfabric_py/_gen.py"


def test_parser_reads_constants_structs_and_calls() -> None:
    header = gen.parse(SAMPLE)
    names = {k: v for k, v in header.constants.items() if k.startswith("S_")}
    assert names == {
        "S_MAGIC": 0xFB,
        "S_LEN": 8,
        "S_ALL": 2**64 - 1,
        "S_SUM": 0x103,
        "S_A": 0,
        "S_B": 4,
        "S_C": 5,
    }
    assert header.calls == {"S_CALL": (0xC000FB02, "s_outer"), "S_NONE": (0xFB03, "")}
    space: dict[str, object] = {}
    exec(gen.render(header), space)
    outer = space["s_outer"]
    assert isinstance(outer, type) and issubclass(outer, ctypes.Structure)
    assert ctypes.sizeof(outer) == 40
    assert outer.number.offset == outer.halves.offset == 24
    assert space["S_CALL"] == 0xC000FB02 | 40 << 16


@pytest.mark.parametrize(
    "text",
    [
        "struct s { long a; };",
        "struct s { __u32 *a; };",
        "struct s { struct unknown a; };",
        "struct s { __u32 a : 3; };",
        "#define S sizeof(int)",
        "struct s { __u32 a;",
    ],
)
def test_parser_refuses_what_it_does_not_understand(text: str) -> None:
    with pytest.raises(gen.HeaderError):
        gen.parse(text)


def _structs() -> dict[str, type[ctypes.Structure]]:
    return {
        name: value
        for name, value in vars(_uapi).items()
        if isinstance(value, type) and issubclass(value, ctypes.Structure)
    }


def _probe() -> str:
    """Write the C program that prints what gcc knows, as JSON."""
    lines = ["#include <stdio.h>", "#include <stddef.h>", "#include <linux/kfabric.h>"]
    lines += ["int main(void) {", 'printf("{");']
    for name, struct in _structs().items():
        lines.append(f'printf("\\"{name}\\": %zu,", sizeof(struct {name}));')
        for member, *_ in struct._fields_:
            key = f"{name}.{member}"
            lines.append(f'printf("\\"{key}\\": %zu,", offsetof(struct {name}, {member}));')
    for name, value in vars(_uapi).items():
        if name.startswith("KFAB_") and isinstance(value, int):
            lines.append(f'printf("\\"{name}\\": %llu,", (unsigned long long){name});')
    return "\n".join([*lines, 'printf("\\"end\\": 0}");', "return 0; }"])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What gcc says about every structure, member and constant."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    work = tmp_path_factory.mktemp("uapi")
    (work / "probe.c").write_text(_probe())
    command = [gcc, "-Wall", "-Wextra", "-Werror", "-I", str(INCLUDE), "-o", "probe", "probe.c"]
    subprocess.run(command, cwd=work, check=True, timeout=60)
    out = subprocess.run([work / "probe"], check=True, timeout=10, capture_output=True, text=True)
    numbers: dict[str, int] = json.loads(out.stdout)
    return numbers


def test_sizes_and_offsets_agree_with_gcc(compiled: dict[str, int]) -> None:
    assert _structs()
    for name, struct in _structs().items():
        assert ctypes.sizeof(struct) == compiled[name], name
        for member, *_ in struct._fields_:
            assert getattr(struct, member).offset == compiled[f"{name}.{member}"], member


def test_constants_and_ioctl_numbers_agree_with_gcc(compiled: dict[str, int]) -> None:
    for name, value in vars(_uapi).items():
        if name.startswith("KFAB_") and isinstance(value, int):
            assert value == compiled[name], name


def test_structures_have_no_holes() -> None:
    for name, struct in _structs().items():
        used = sum(getattr(struct, member).size for member, *_ in struct._fields_)
        assert used == ctypes.sizeof(struct), name


def test_ioctl_numbers_are_distinct_and_named() -> None:
    numbers = [v for k, v in vars(_uapi).items() if k.startswith("KFAB_IOC_") and v > 0xFFFF]
    assert len(numbers) == len(set(numbers)) == len(_uapi.CALL_NAMES)


def test_kfabric_errors_have_the_uapi_numbers() -> None:
    for member in errors.KfabricErrno:
        assert getattr(_uapi, member.name.replace("KFI_", "KFAB_")) == member.value


def test_enumerations_have_no_value_twice_by_accident() -> None:
    for name in ("AddrFormat", "EpType", "WaitObj", "CqFormat", "Event", "Threading"):
        members = getattr(enums, name).__members__
        assert len(members) == len({member.value for member in members.values()}), name


@pytest.mark.parametrize(
    ("packer", "struct"),
    [
        (channel.EVENT, _uapi.kfab_cq_event),
        (posting.HEAD, _uapi.kfab_msg),
        (posting.HEAD, _uapi.kfab_tmsg),
        (posting.HEAD, _uapi.kfab_rma),
        (queues.ENTRY, _uapi.kfab_cq_entry),
        (posting.CALL, _uapi.kfab_batch_call),
    ],
)
def test_what_is_packed_at_once_is_the_beginning_of_the_structure(
    packer: Struct, struct: type[ctypes.Structure]
) -> None:
    """The fast paths fill and read fields by their place."""
    numbers = range(1, len(packer.unpack(bytes(packer.size))) + 1)
    raw = struct()
    packer.pack_into(raw, 0, *numbers)
    names = [field[0] for field in struct._fields_]
    assert [getattr(raw, name) for name, _ in zip(names, numbers, strict=False)] == [*numbers]
    assert bytes(raw)[: packer.size] == packer.pack(*numbers)


def test_fields_of_an_entry_are_those_of_the_structure() -> None:
    """An array of numpy with these fields is an array of entries."""
    sizes = {"=u8": 8, "=u4": 4}
    known = [
        (name.strip("_"), getattr(_uapi.kfab_cq_entry, name).size)
        for name, *_ in _uapi.kfab_cq_entry._fields_
    ]
    assert [(name, sizes[kind]) for name, kind in queues.CQ_ENTRY_FIELDS] == known


def test_packed_head_has_the_same_fields_in_all_posts() -> None:
    """One packer serves messages, tagged ones, and remote reads and writes."""
    heads = {
        tuple(field[0] for field in struct._fields_[:9])
        for struct in (_uapi.kfab_msg, _uapi.kfab_tmsg, _uapi.kfab_rma)
    }
    assert heads == {
        ("size", "flags", "ep", "iov_count", "op_flags", "context", "data", "addr", "iov")
    }
