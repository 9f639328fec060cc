# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A panicked guest leaves a dump or a reason; tests/vm uses real guests."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path
from typing import cast

import pytest

from kfabric.vm import kdump, vmcore
from kfabric.vm.qmp import QmpLink
from kfabric.vm.vmcore import About, Dump

ABOUT = About("6.1.1-debug", ["/modules"])
MIB = 1 << 20
INFO = b"OSRELEASE=6.1.1-debug\nPAGESIZE=4096\nNUMBER(phys_base)=-4096\n"


def stream() -> bytes:
    """QEMU's stream for a guest with hardly any memory."""
    header = kdump.CORE.ljust(kdump.BLOCK, b"\0") + bytes(kdump.BLOCK)
    pieces = [(0, header), (2 * kdump.BLOCK, bytes(2 * MIB))]
    records = [struct.pack(">qq", offset, len(data)) + data for offset, data in pieces]
    begin = kdump.STREAM.ljust(kdump.STREAM_HEADER, b"\0")
    return begin + b"".join(records) + struct.pack(">qq", -1, -1)


def note(name: bytes = b"VMCOREINFO\0\0") -> bytes:
    """The vmcoreinfo note in the guest's memory."""
    return struct.pack("<3I", 11, len(INFO), 0) + name + INFO + bytes(100)


class Monitor:
    """A simulated monitor of QEMU.

    :param dump: what becomes of the dump.
    :param memory: what is at any place.
    """

    def __init__(self, dump: bytes, answer: object = None, memory: bytes = b"") -> None:
        self.asked: list[str] = []
        self._dump = dump
        self._answer = answer
        self._memory = memory or note()

    def execute(self, command: str, deadline: float, **arguments: object) -> object:
        """Record the command, and dump."""
        assert deadline > 0
        self.asked.append(command)
        if command == "dump-guest-memory":
            Path(str(arguments["protocol"]).removeprefix("file:")).write_bytes(self._dump)
            return self._answer
        if command == "pmemsave":
            assert (arguments["val"], arguments["size"]) == (0x1000, 0x400)
            Path(str(arguments["filename"])).write_bytes(self._memory)
        return {}


def whole() -> Monitor:
    """It writes all of it."""
    return Monitor(stream(), {})


def half() -> Monitor:
    """QEMU is ended in the middle."""
    return Monitor(stream()[:MIB])


def take(directory: Path, monitor: Monitor, memory_mib: int = 1) -> Dump:
    """Let a guest panic, and wait."""
    directory.mkdir(exist_ok=True)
    dump = Dump(directory, memory_mib, ABOUT, lambda: monitor.asked.append("end"))
    dump.info = vmcore.Region.parse("0x0000000000001000 400\n")
    dump.begin(cast(QmpLink, monitor))
    assert dump.wait()
    return dump


def test_dump_has_a_description(tmp_path: Path) -> None:
    dump = take(tmp_path / "guest", whole())
    assert vmcore.about(tmp_path / "guest/vmcore") == ABOUT
    assert dump.outcome == f"kfabric: its memory: {tmp_path}/guest/vmcore (2 MiB)"


@pytest.mark.parametrize("make", [whole, half])
def test_guest_may_say_the_rest_and_is_ended(tmp_path: Path, make) -> None:
    monitor = make()
    take(tmp_path / "guest", monitor)
    assert monitor.asked[0] == "dump-guest-memory"
    assert monitor.asked[-2:] == ["cont", "end"]


def test_nothing_else_is_left_of_it(tmp_path: Path) -> None:
    """The temporary files are as large as the dump."""
    take(tmp_path / "guest", whole())
    left = {path.name for path in (tmp_path / "guest").iterdir()}
    assert left == {"vmcore", "vmcore.json"}
    assert (tmp_path / "guest/vmcore").stat().st_mode & 0o777 == 0o600


def test_half_a_dump_is_removed(tmp_path: Path) -> None:
    """It would take space, and could not be read."""
    dump = take(tmp_path / "guest", half())
    assert list((tmp_path / "guest").iterdir()) == []
    assert "is not saved: QEMU did not write it" in dump.outcome


def test_without_room_there_is_no_dump(tmp_path: Path) -> None:
    """Others need the space as well."""
    monitor = whole()
    dump = take(tmp_path / "guest", monitor, memory_mib=1 << 40)
    assert monitor.asked == ["cont", "end"]
    assert "MiB are needed" in dump.outcome


def test_guest_that_did_not_panic_is_not_waited_for(tmp_path: Path) -> None:
    dump = Dump(tmp_path, 1, ABOUT, lambda: None)
    assert not dump.wait()
    assert dump.outcome == ""


def test_oldest_dumps_go(tmp_path: Path) -> None:
    """Guests of a run may panic one after the other."""
    for number in range(vmcore.KEPT + 2):
        core = take(tmp_path / f"guest0.{number}", whole()).path
        for path in core.parent.iterdir():
            os.utime(path, times=(time.time() - 100 + number,) * 2)
    take(tmp_path / "guest1.0", whole())
    left = sorted(path.parent.name for path in tmp_path.glob("*/vmcore*"))
    kept = ["guest0.3", "guest0.4", "guest1.0"]
    assert left == sorted(kept * 2)


def test_what_is_left_of_a_dump_that_was_given_up_goes(tmp_path: Path) -> None:
    """Those of a killed run; but not those of a dump in progress."""
    for name, age in (("old", vmcore.DUMP_SECONDS + 10), ("new", 1.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vmcore.stream").touch()
        os.utime(tmp_path / name / "vmcore.stream", times=(time.time() - age,) * 2)
    vmcore.remove_old(tmp_path)
    assert [path.parent.name for path in tmp_path.glob("*/vmcore*")] == ["new"]


@pytest.mark.parametrize(
    ("monitor", "why"),
    [
        (Monitor(b"ELF", {}), "QEMU wrote no kdump stream"),
        (Monitor(stream()[:-16], {}), "has no end"),
        (Monitor(stream()[:MIB], {}), "in the middle of a piece"),
        (Monitor(stream().replace(kdump.CORE, b"X" * 8), {}), "stream has no kdump file"),
        (Monitor(stream(), {}, b"\0" * 100), "vmcoreinfo is called"),
        (Monitor(stream(), {}, b"\0"), "vmcoreinfo is cut off"),
    ],
)
def test_what_cannot_be_a_dump_is_removed(tmp_path: Path, monitor: Monitor, why: str) -> None:
    """And the reason is shown."""
    dump = take(tmp_path / "guest", monitor)
    assert why in dump.outcome
    assert list((tmp_path / "guest").iterdir()) == []


def test_kernel_without_vmcoreinfo_is_not_dumped(tmp_path: Path) -> None:
    """The dump could not be read."""
    assert vmcore.Region.parse("") is None
    dump = Dump(tmp_path / "guest", 1, ABOUT, lambda: None)
    (tmp_path / "guest").mkdir()
    dump.begin(cast(QmpLink, whole()))
    assert dump.wait()
    assert "the guest's /sys/kernel/vmcoreinfo is not known" in dump.outcome


def test_description_goes_where_readers_look(tmp_path: Path) -> None:
    """After QEMU's notes, and the header points there; its other fields are filled in."""
    data = take(tmp_path / "guest", whole()).path.read_bytes()
    at, size, notes, all_size = struct.unpack_from("<4Q", data, kdump.BLOCK + 32)
    assert data[at : at + size] == INFO
    assert data[notes + 12 : notes + 22] == b"VMCOREINFO"
    assert notes + all_size == len(data)
    assert struct.unpack_from("<q", data, kdump.BLOCK) == (-4096,)
    names = [name.rstrip(b"\0") for name in struct.unpack_from("65s65s65s65s65s", data, 12)]
    assert names == [b"Linux", b"guest", b"6.1.1-debug", b"?", b"x86_64"]


def test_description_is_json(tmp_path: Path) -> None:
    """Other tools may need it."""
    take(tmp_path / "guest", whole())
    text = (tmp_path / "guest/vmcore.json").read_text()
    assert json.loads(text) == {"release": "6.1.1-debug", "modules": ["/modules"]}
