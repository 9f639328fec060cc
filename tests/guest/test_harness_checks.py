# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The checks behind each test: the kernel log, module errors, what is left behind."""

from __future__ import annotations

import errno

import pytest
from guest_support import LIMIT

from kfabric.guest import kmsg, leaks, modules, topology
from kfabric.guest.modules import ModuleError, ModuleInUse


def test_marker_is_in_the_log_and_not_the_kernels() -> None:
    """A marker can be told from what the kernel says."""
    with kmsg.KernelLog() as log:
        kmsg.mark("a marker\nin one line")
        (record,) = [line for line in log.new() if "a marker" in line.text]
    assert record.text == "a marker in one line"
    assert not record.from_kernel


def test_markers_are_not_rationed() -> None:
    """The kernel drops lines of users above ten in five seconds, unless told not to."""
    with kmsg.KernelLog() as log:
        for number in range(50):
            kmsg.mark(f"ration {number}")
        assert len([line for line in log.new() if line.text.startswith("ration ")]) == 50


def test_reader_sees_only_what_came_since() -> None:
    """Each reader has its own place."""
    kmsg.mark("before")
    with kmsg.KernelLog() as log:
        kmsg.mark("between")
        assert [line.text for line in log.new()] == ["between"]
        assert log.new() == []


def test_kernel_lines_are_the_kernels() -> None:
    """What a driver prints is not a user's line."""
    with kmsg.KernelLog() as log, topology.dummy_netdev():
        with open("/proc/sysrq-trigger", "w") as trigger:
            trigger.write("h")
        assert any(line.from_kernel and "sysrq" in line.text for line in log.new())


def test_module_error_carries_the_kernels_words(tmp_path) -> None:
    """A file that is no module: the error has number and file."""
    broken = tmp_path / "broken.ko"
    broken.write_bytes(b"not an ELF file" * 100)
    with pytest.raises(ModuleError) as caught:
        modules.insert(broken)
    assert caught.value.errno == errno.ENOEXEC
    assert str(broken) in str(caught.value)


def test_module_in_use_says_by_whom() -> None:
    """dummy carries a net device, ib_core carries rdma_rxe: the kernel refuses both."""
    with topology.rxe_on_dummy():
        with pytest.raises(ModuleInUse) as caught:
            modules.remove("ib_core")
        assert caught.value.errno == errno.EWOULDBLOCK
        assert "rdma_rxe" in str(caught.value)


def test_module_that_is_not_loaded() -> None:
    """Unloading it is an error, its state is None."""
    with pytest.raises(ModuleError) as caught:
        modules.remove("nosuch")
    assert caught.value.errno == errno.ENOENT
    assert modules.state("nosuch") is None
    with pytest.raises(ModuleError):
        modules.references("nosuch")


def test_missing_module_file_says_so(tmp_path) -> None:
    """A module that was not built is not a kernel error."""
    with pytest.raises(ModuleError, match="not built"):
        modules.Modules(tmp_path).file("kfabric")


def test_census_counts_objects_and_sleepers(mock, in_thread) -> None:
    """A queue and the thread that sleeps on it are counted, and gone again behind the block."""
    before = leaks.take()
    with mock.domain.cq() as cq:
        call = in_thread(lambda: cq.sread(1, timeout=LIMIT)).asleep()
        lines = leaks.since(before, deadline=0.0)
        assert any(line.startswith("kfabric's objects of class cq: ") for line in lines)
        assert any(line.startswith("threads asleep on kfabric's objects: ") for line in lines)
        cq.signal()
        call.result()
    assert leaks.since(before) == []


def test_census_names_what_is_new() -> None:
    """An RDMA link and its net device are counted, and gone again behind the block."""
    before = leaks.take()
    with topology.rxe_on_dummy():
        links = before["RDMA links"]
        lines = leaks.since(before, deadline=0.0)
        assert f"RDMA links: {links} before, {links + 1} after" in lines
        assert any(line.startswith("net devices: ") for line in lines)
    assert leaks.since(before) == []
