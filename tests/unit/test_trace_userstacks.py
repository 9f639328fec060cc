# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The frames of user stacks get the names of functions, or say which file they are in."""

import ctypes
import ctypes.util
import os
from pathlib import Path

from kfabric.recording.records import NO_STACK
from kfabric.trace.userstacks import UserStacks


def address_of(function: str) -> int:
    """The address of a function of the C library in this process."""
    address = ctypes.cast(getattr(ctypes.CDLL(None), function), ctypes.c_void_p).value
    assert address
    return address


def frames(addresses: list[int], proc: Path = Path("/proc")) -> tuple[str, ...]:
    """The names of addresses of this process."""
    users = UserStacks(proc)
    users.meet(7, os.getpid())
    assert users.knows(7)
    return users.frames(7, addresses)


def test_function_of_a_library_has_its_name() -> None:
    """The distance from the function's begin is kept, as in the kernel's frames."""
    assert frames([address_of("getppid") + 3])[0].startswith("getppid+0x3 [libc")


def test_address_without_a_mapping_stays_an_address() -> None:
    """Nothing is made up."""
    assert frames([0x10]) == ("0x10",)


def test_place_without_a_symbol_names_the_file_and_the_offset(tmp_path: Path) -> None:
    """It can be looked up later."""
    plain = tmp_path / "plain"
    plain.write_bytes(bytes(4096))
    directory = tmp_path / str(os.getpid())
    directory.mkdir()
    line = f"1000-2000 r-xp 00003000 00:00 0 {plain}\n"
    (directory / "maps").write_text(line)
    assert frames([0x1010], tmp_path) == ("[plain]+0x3010",)


def test_frames_of_a_process_that_is_gone_stay_addresses(tmp_path: Path) -> None:
    """Its mappings can no longer be read."""
    assert frames([address_of("getppid")], tmp_path) == (f"{address_of('getppid'):#x}",)


def test_stack_of_two_processes_is_named_by_the_one_that_is_there(tmp_path: Path) -> None:
    """A child has the stacks of its parent, and ends before it."""
    address = address_of("getppid")
    (tmp_path / "2").mkdir()
    (tmp_path / "2/maps").write_text(Path("/proc/self/maps").read_text())
    users = UserStacks(tmp_path)
    users.meet(7, 1)
    users.meet(7, 2)
    users.meet(7, 1)
    assert users.frames(7, [address])[0].startswith("getppid")


def test_no_stack_is_not_a_stack() -> None:
    """A kernel thread has none."""
    users = UserStacks()
    users.meet(NO_STACK, os.getpid())
    assert not users.knows(NO_STACK)
