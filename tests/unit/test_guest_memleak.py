# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The kernel's list of leaked memory is understood, and only our own leaks count."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric.guest import memleak
from kfabric.guest.memleak import MODULES

OURS = """\
unreferenced object 0xffff888006a5b200 (size 64):
  comm "python3", pid 123, jiffies 4294900000 (age 10.004s)
  hex dump (first 32 bytes):
    6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b 6b  kkkkkkkkkkkkkkkk
  backtrace:
    [<00000000a1b2c3d4>] kmalloc_trace+0x27/0x60
    [<00000000a1b2c3d5>] kfi_cq_open+0x55/0x120 [kfabric]
    [<00000000a1b2c3d6>] do_syscall_64+0x3c/0x90
"""
FOREIGN = """\
unreferenced object 0xffff888006a5b300 (size 8):
  comm "swapper/0", pid 1, jiffies 4294890000 (age 40.004s)
  backtrace:
    [<00000000a1b2c3d4>] kmalloc_trace+0x27/0x60
    [<00000000a1b2c3d7>] rxe_create_qp+0x55/0x120 [rdma_rxe]
"""
GONE = """\
unreferenced object 0xffff888006a5b400 (size 16):
  comm "rmmod", pid 9, jiffies 4294890000 (age 40.004s)
  backtrace:
    [<00000000a1b2c3d4>] kmalloc_trace+0x27/0x60
    [<00000000a1b2c3d7>] 0xffffffffa0012345
"""


def test_each_object_is_one_leak() -> None:
    leaks = memleak.parse(OURS + FOREIGN + GONE)
    assert [leak.title for leak in leaks] == [
        "0xffff888006a5b200 (size 64)",
        "0xffff888006a5b300 (size 8)",
        "0xffff888006a5b400 (size 16)",
    ]
    assert leaks[0].text == OURS.rstrip()
    assert leaks[0].calls[1] == ("kfi_cq_open+0x55/0x120", "kfabric")


def test_leaks_of_ours_and_of_what_is_unloaded_count() -> None:
    """The functions of an unloaded module have no names any more."""
    leaks = memleak.parse(OURS + FOREIGN + GONE)
    assert [leak.is_of(MODULES) for leak in leaks] == [True, False, True]


def test_the_line_names_the_module_s_function() -> None:
    (leak,) = memleak.parse(OURS)
    assert leak.line() == (
        "0xffff888006a5b200 (size 64), allocated by kfi_cq_open+0x55/0x120 [kfabric]"
    )


class FakeFile:
    """The kernel's file: the writes to it, and its report after each search."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.written: list[str] = []

    def exists(self) -> bool:
        return True

    def write_text(self, text: str) -> None:
        self.written.append(text)

    def read_text(self, errors: str) -> str:
        return self.answers.pop(0)


class FakeClock:
    """A clock that moves only during searches and sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr(memleak, "time", fake)
    return fake


def test_a_leak_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    file = FakeFile(OURS + FOREIGN, "")
    monkeypatch.setattr(memleak, "KMEMLEAK", file)
    watch = memleak.MemoryWatch()
    assert [leak.title for leak in watch.leaks()] == ["0xffff888006a5b200 (size 64)"]
    assert watch.leaks() == []
    assert file.written == ["scan", "clear", "scan"]


def test_the_last_search_finds_what_none_has_seen_yet(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports what two searches found unchanged, and is older than 5 s."""
    file = FakeFile(OURS)
    monkeypatch.setattr(memleak, "KMEMLEAK", file)
    assert len(memleak.MemoryWatch().leaks(settle=True)) == 1
    assert file.written == ["scan", "scan", "clear"]
    assert clock.now > 5


def test_searches_take_a_tenth_of_the_time(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FakeFile("", "")
    monkeypatch.setattr(file, "write_text", lambda _: clock.sleep(40))
    monkeypatch.setattr(memleak, "KMEMLEAK", file)
    watch = memleak.MemoryWatch()
    assert watch.due()
    watch.leaks()
    clock.sleep(399)
    assert not watch.due()
    clock.sleep(1)
    assert watch.due()


def test_kernels_without_the_search_have_no_leaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memleak, "KMEMLEAK", tmp_path / "nothing")
    assert memleak.MemoryWatch().leaks(settle=True) == []
    assert not memleak.MemoryWatch().due()
