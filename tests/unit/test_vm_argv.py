# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The QEMU command line matches the spec."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from kfabric.root import ROOT
from kfabric.vm import argv as qemu
from kfabric.vm import versions
from kfabric.vm.spec import Accel, Image, VmSpec
from kfabric.vm.versions import Stock, Version

VERSION = Version("6.1", "bookworm", Stock("linux-image-amd64", "bookworm"))
IMAGE = Image(
    "6.1.0-1-amd64", Path("/c/vmlinux"), Path("/c/initrd.cpio"), Path("/c/root.img"), VERSION
)
WIRING = qemu.Wiring(
    qmp=9,
    ports={"kfabric.agent": 5, "kfabric.heartbeat": 7},
    console=Path("/b/console.log"),
    source=Path("/src"),
    out=Path("/b/out"),
    disk=qemu.Disk(Path("/c/root.img")),
)


def option(argv: list[str], name: str) -> list[str]:
    """The values of an option, in order."""
    return [value for key, value in pairwise(argv) if key == name]


def test_memory_and_cpus_are_those_of_the_spec() -> None:
    argv = qemu.argv(VmSpec(memory_mib=1234, cpus=3), IMAGE, Accel.TCG, WIRING)
    assert option(argv, "-m") == ["1234"]
    assert option(argv, "-smp") == ["3"]


@pytest.mark.parametrize(("accel", "word"), [(Accel.TCG, "tcg"), (Accel.KVM, "kvm")])
def test_accelerator_is_the_chosen_one(accel: Accel, word: str) -> None:
    argv = qemu.argv(VmSpec(), IMAGE, accel, WIRING)
    assert [value.split(",")[0] for value in option(argv, "-accel")] == [word]
    assert option(argv, "-cpu") == [qemu.CPU[accel]]


def test_counting_instructions_takes_one_thread() -> None:
    """QEMU rejects icount with several CPU threads; other guests keep theirs without icount."""
    argv = qemu.argv(VmSpec(cpus=1, icount=True), IMAGE, Accel.TCG, WIRING)
    assert option(argv, "-accel") == ["tcg,thread=single"]
    assert option(argv, "-icount") == ["shift=0,sleep=off"]
    argv = qemu.argv(VmSpec(), IMAGE, Accel.TCG, WIRING)
    assert option(argv, "-accel") == ["tcg,thread=multi"]
    assert "-icount" not in argv


def test_a_panic_ends_qemu() -> None:
    """Without all three, a panicked guest would hang until the watchdog bites."""
    argv = qemu.argv(VmSpec(), IMAGE, Accel.TCG, WIRING)
    assert "-no-reboot" in argv
    assert option(argv, "-action") == ["panic=none"]
    assert "panic=-1" in option(argv, "-append")[0].split()


def test_the_disk_keeps_nothing() -> None:
    argv = qemu.argv(VmSpec(), IMAGE, Accel.TCG, WIRING)
    assert "snapshot=on" in option(argv, "-drive")[0].split(",")


def test_what_makes_a_kind_differs_with_memory_and_not_with_the_name() -> None:
    """Otherwise a guest would resume from another kind's boot, or from none."""
    kinds = [
        qemu.kind(spec, IMAGE, Accel.TCG)
        for spec in (VmSpec(name="a"), VmSpec(name="b"), VmSpec(memory_mib=1234))
    ]
    assert kinds[0] == kinds[1] != kinds[2]


def test_guests_on_wires_are_of_one_kind_whichever_end_they_have() -> None:
    """The saved guest has the device, and any cable can be plugged in."""
    ends = Path("/w,0"), Path("/w1")
    near, far = VmSpec(wire=ends), VmSpec(wire=ends[::-1])
    kinds = [qemu.kind(spec, IMAGE, Accel.TCG) for spec in (near, far, VmSpec())]
    assert kinds[0] == kinds[1] != kinds[2]
    cables = [option(qemu.argv(spec, IMAGE, Accel.TCG, WIRING), "-netdev") for spec in (near, far)]
    assert "local.path=/w,,0," in cables[0][0] and cables[0][0].endswith("remote.path=/w1")
    assert "local.path=/w1," in cables[1][0]


def test_the_checkout_is_read_only_and_the_out_directory_is_not() -> None:
    argv = qemu.argv(VmSpec(), IMAGE, Accel.TCG, WIRING)
    modes = {
        tuple(part for part in value.split(",") if part.startswith(("id=", "readonly=")))
        for value in option(argv, "-fsdev")
    }
    assert modes == {("id=source", "readonly=on"), ("id=out", "readonly=off")}


def test_each_port_has_the_socket_of_its_name() -> None:
    argv = qemu.serial_ports(WIRING.ports)
    assert "socket,id=kfabric.agent,fd=5" in option(argv, "-chardev")
    assert "virtserialport,chardev=kfabric.heartbeat,name=kfabric.heartbeat" in argv


def test_the_console_is_shared_with_nothing() -> None:
    argv = qemu.argv(VmSpec(), IMAGE, Accel.TCG, WIRING)
    assert option(argv, "-serial") == ["chardev:console"]
    assert sum("chardev=console" in word or "chardev:console" in word for word in argv) == 1


def test_parameters_of_the_spec_come_last_on_the_kernel_command_line() -> None:
    """The kernel takes the last of two, so that a spec can override ours."""
    spec = VmSpec(cmdline=("panic=5", "idle=poll"))
    assert qemu.cmdline(spec).split()[-2:] == ["panic=5", "idle=poll"]


@pytest.mark.parametrize("kernel", [*versions.load(ROOT).kernels])
def test_soft_lockup_is_found_before_its_guest_is_silent_for_too_long(kernel: str) -> None:
    """The guest's last words have the stack; without one of its CPUs it may send no heartbeat.

    The kernel looks every 2/5 of the threshold, and reports a CPU that is stuck for twice as long.
    """
    spec = VmSpec().on(versions.load(ROOT).find(kernel))
    words = [word for word in qemu.cmdline(spec).split() if word.startswith("watchdog_thresh=")]
    seconds = int(words[-1].partition("=")[2])
    assert seconds * (2 + 0.4) < spec.deadlines.silence
    assert 10 < seconds <= 60, "more than the default, and a value that the kernel takes"


def test_qemu_arguments_of_the_spec_are_passed_on() -> None:
    argv = qemu.argv(VmSpec(qemu=("-device", "virtio-net-pci")), IMAGE, Accel.TCG, WIRING)
    assert argv[-2:] == ["-device", "virtio-net-pci"]


def test_a_comma_in_a_path_is_doubled() -> None:
    """QEMU would parse the text after it as another option."""
    assert qemu.quote(Path("/a,b/c")) == "/a,,b/c"
    shared = option(qemu.share("tag", Path("/a,b"), read_only=True), "-fsdev")[0]
    assert "path=/a,,b,security_model" in shared


def test_more_directories_are_mounted_read_only_in_their_order() -> None:
    """Before the checkout, which one of them may contain; only the last is writable."""
    spec = VmSpec(shares=(Path("/home/me"), Path("/srv/b")))
    argv = qemu.argv(spec, IMAGE, Accel.TCG, WIRING)
    assert [value for value in option(argv, "-fsdev") if "id=share" in value] == [
        f"local,id=share{number},path={path},security_model=none,readonly=on,multidevs=remap"
        for number, path in enumerate(spec.shares)
    ]
    assert qemu.mounts(spec, WIRING.source, WIRING.out) == [
        ("share0", "/home/me", "ro,cache=loose"),
        ("share1", "/srv/b", "ro,cache=loose"),
        ("source", "/src", "ro,cache=loose"),
        ("out", "/b/out", "rw"),
    ]
