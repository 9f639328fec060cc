# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The tests' binding of libfabric has the layout of libfabric's headers."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HEADERS = ("fabric", "fi_cm", "fi_domain", "fi_endpoint", "fi_eq", "fi_errno")
POINTER = ctypes.sizeof(ctypes.c_void_p)


def _binding() -> Any:
    """Load the binding, which lies with the guest's tests."""
    path = Path(__file__).parents[1] / "guest/support/libfabric.py"
    spec = importlib.util.spec_from_file_location("libfabric", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fi = _binding()

#: Numbers of the binding and their names in the headers.
CONSTANTS = {
    "GETWAIT": "FI_GETWAIT",
    "GETWAITOBJ": "FI_GETWAITOBJ",
    "ENABLE": "FI_ENABLE",
    "MSG": "FI_MSG",
    "RECV": "FI_RECV",
    "SEND": "FI_SEND",
    "TRANSMIT": "FI_TRANSMIT",
    "SOURCE": "FI_SOURCE",
    "WRITABLE": "FI_WRITE",
    "EP_DGRAM": "FI_EP_DGRAM",
    "EP_RDM": "FI_EP_RDM",
    "AV_TABLE": "FI_AV_TABLE",
    "CQ_FORMAT_CONTEXT": "FI_CQ_FORMAT_CONTEXT",
    "ADDR_UNSPEC": "FI_ADDR_UNSPEC",
    "VERSION": "FI_VERSION(1, 17)",
}


def expected() -> Iterator[tuple[str, int]]:
    """Yield C expressions and the values that the binding takes them to have."""
    for name, struct in fi.LAYOUTS.items():
        if name not in fi.PREFIXES:
            yield f"sizeof(struct {name})", ctypes.sizeof(struct)
        for field in struct._fields_:
            at = getattr(struct, field[0])
            yield f"offsetof(struct {name}, {field[0]})", at.offset
            yield f"sizeof(((struct {name} *)0)->{field[0]})", at.size
    for name, operations in fi.TABLES.items():
        for number, operation in enumerate(operations):
            yield f"offsetof(struct {name}, {operation})", POINTER * (number + 1)
    for kind in ("fabric", "domain", "av", "cq", "eq", "cntr", "wait", "poll", "ep"):
        yield f"offsetof(struct fid_{kind}, ops)", fi.Fid.own.offset
    yield "offsetof(struct fid_ep, cm)", fi.Fid.cm.offset
    yield "offsetof(struct fid_ep, msg)", fi.Fid.msg.offset
    yield "offsetof(struct fid, context)", fi.Fid.context.offset
    yield "offsetof(struct fid, ops)", fi.Fid.ops.offset
    for name, number in fi.WAIT_OBJS.items():
        yield f"FI_WAIT_{name.upper()}", number
    for name, symbol in CONSTANTS.items():
        yield symbol, getattr(fi, name)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What the compiler says that each expression is."""
    where = tmp_path_factory.mktemp("libfabric")
    includes = [f"#include <rdma/{name}.h>" for name in HEADERS]
    lines = [f'\tprintf("%llu\\n", (unsigned long long)({each}));' for each, _ in expected()]
    source = ["#include <poll.h>", "#include <stddef.h>", "#include <stdio.h>", *includes]
    source += ["int main(void)", "{", *lines, "\treturn 0;", "}"]
    (where / "probe.c").write_text("\n".join(source))
    command = ["gcc", "-o", str(where / "probe"), str(where / "probe.c")]
    subprocess.run(command, check=True, timeout=60)
    said = subprocess.run([where / "probe"], capture_output=True, text=True, check=True, timeout=10)
    names = (each for each, _ in expected())
    return dict(zip(names, map(int, said.stdout.split()), strict=True))


def test_layout_is_that_of_the_headers(found: dict[str, int]) -> None:
    """Structures, tables of operations and numbers, each of them."""
    assert found == dict(expected())


def test_guest_has_the_library_of_these_headers() -> None:
    """The host's headers and the guest's library come from the same Debian release."""
    lists = Path(__file__).parents[2] / "vm"
    assert "libfabric-dev" in (lists / "packages-host.txt").read_text()
    assert "libfabric1" in (lists / "packages-guest.txt").read_text()
