# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Executions: what is recorded of a guest, how it is kept, and where its replay goes."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfabric import names
from kfabric.errors import GuestLost, SetupError, UsageError
from kfabric.guest import symbols as guest_symbols
from kfabric.replay import (
    again,
    command,
    counter,
    execution,
    frames,
    gdb,
    material,
    moments,
    record,
    symbols,
)
from kfabric.replay import qemu as qemu_process
from kfabric.replay.again import NoMoment
from kfabric.replay.execution import About, Execution
from kfabric.replay.frames import Kind, Row
from kfabric.replay.gdb import Stop
from kfabric.replay.moments import Moment
from kfabric.replay.qemu import DISK, FROZEN, LOG, OUTPUT, ROOT, Ends, Hardware, Mode, argv
from kfabric.replay.record import Errand
from kfabric.replay.symbols import Loaded
from kfabric.vm import argv as qemu
from kfabric.vm import disk, plugins
from kfabric.vm.errand import STATUS, Order
from kfabric.vm.qmp import QmpLink

HARDWARE = Hardware(Path("/boot/linux"), Path("/boot/initrd"), "quiet", 640)
ENDS = Ends(Path("/tmp/line"), 8, Path("/tmp/gdb"))
KALLSYMS = """\
ffffffff81000000 T _stext
ffffffff81000010 t wait
ffffffff81000020 D some_data
ffffffff81000030 t twice
ffffffff81000040 t twice
ffffffffc0001000 t ring\t[bell]
"""


def about(**fields: object) -> About:
    """What ran; the image exists as long as the tests do."""
    known: dict[str, object] = {
        **{"what": "test_a", "status": 1},
        **{"release": "6.1", "qemu": qemu.version(), "image": __file__, "kernel": __file__},
        **{"initrd": __file__, "cmdline": "quiet", "memory_mib": 640},
    }
    return About(**{**known, **fields})  # type: ignore[arg-type]


@pytest.fixture
def kept(tmp_path: Path) -> Execution:
    """An execution, packed."""
    for name in (LOG, ROOT, DISK):
        (tmp_path / name).write_text(name * 1000)
    (tmp_path / execution.OUT).mkdir()
    (tmp_path / execution.OUT / names.KALLSYMS).write_text(KALLSYMS)
    made = Execution(tmp_path, about())
    made.pack()
    return made


@pytest.mark.parametrize("mode", Mode)
def test_recorded_guest_has_nothing_that_qemu_cannot_replay(mode: Mode, tmp_path: Path) -> None:
    """One CPU, disks whose requests are recorded, and neither shares nor ports nor a network."""
    words = argv(HARDWARE, tmp_path, mode, ENDS)
    assert words[words.index("-smp") + 1] == "1"
    assert not [word for word in words if word.startswith(("virtio-9p", "virtio-serial"))]
    assert words[words.index("-net") + 1] == "none"
    devices = [words[at + 1] for at, word in enumerate(words) if word == "-device"]
    disks = [device for device in devices if device.startswith("virtio-blk")]
    assert len(disks) == 2 and all("ioeventfd=off" in disk for disk in disks)
    assert sum("driver=blkreplay" in word for word in words) == 2


def test_recording_goes_on_from_the_frozen_guest(tmp_path: Path) -> None:
    """The others do not: one makes it, and a replay begins where the recording began."""
    words = {mode: " ".join(argv(HARDWARE, tmp_path, mode, ENDS)) for mode in Mode}
    assert f"-loadvm {FROZEN}" in words[Mode.RECORD]
    assert "-loadvm" not in words[Mode.FREEZE] + words[Mode.REPLAY]
    assert "rrsnapshot" not in words[Mode.FREEZE]


@pytest.mark.parametrize("mode", [Mode.FREEZE, Mode.RECORD])
def test_recorded_guest_never_waits_for_us(mode: Mode, tmp_path: Path) -> None:
    """Its line takes all that it writes, read or not: QEMU does not record the end of a wait."""
    words = argv(HARDWARE, tmp_path, mode, ENDS)
    assert f"pipe,path={ENDS.line},id=line" in words
    line, text = tmp_path / "line", b"x" * (1 << 20)
    with qemu_process.open_line(line, tmp_path / OUTPUT):
        theirs = os.open(f"{line}.out", os.O_RDWR | os.O_NONBLOCK)
        assert os.write(theirs, text) == len(text)
        os.close(theirs)
    assert (tmp_path / OUTPUT).read_bytes() == text


def test_execution_is_as_it_was_once_it_is_unpacked(kept: Execution, tmp_path: Path) -> None:
    """All three large files; nothing but the packed ones stays in its directory."""
    place = tmp_path / "place"
    place.mkdir()
    assert not (tmp_path / LOG).exists()
    Execution.read(tmp_path).unpack(place)
    assert {path.name: path.read_text() for path in place.iterdir()} == {
        name: name * 1000 for name in (LOG, ROOT, DISK)
    }


@pytest.mark.parametrize("text", [None, "", "[]", '{"what": "test_a"}'])
def test_directory_without_an_execution_is_wrong_usage(text: str | None, tmp_path: Path) -> None:
    """An empty one, or one whose file has other contents."""
    if text is not None:
        (tmp_path / execution.ABOUT).write_text(text)
    with pytest.raises(UsageError, match="has no execution"):
        Execution.read(tmp_path)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"qemu": "QEMU emulator version 1.0"}, "another QEMU: QEMU emulator version 1.0"),
        ({"image": "/nowhere/root.img"}, "/nowhere/root.img does not exist"),
        ({"kernel": "/nowhere/linux"}, "/nowhere/linux does not exist"),
    ],
)
def test_what_a_replay_needs_is_checked_first(
    fields: dict[str, object], what: str, kept: Execution, tmp_path: Path
) -> None:
    """Another version of QEMU, or no image: no guest is started."""
    with pytest.raises(SetupError, match=what):
        Execution(tmp_path, about(**fields)).unpack(tmp_path)


def test_guest_gets_the_directories_without_what_is_left_out(tmp_path: Path) -> None:
    """And a directory inside of one of them, with its own parts left out."""
    tree = tmp_path / "tree"
    for path in ("a/code.py", "build/mod/mod.ko", "build/mod/src/mod.c", ".git/objects"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(path)
    built = tree / "build/mod"
    target = tmp_path / DISK
    order: Order = {
        "name": "n",
        "ns": 1,
        "seed": "00",
        "directories": [],
        "commands": [],
        "env": {},
        "cwd": "/",
    }
    material.make(target, order, [tree, built], [tree / "build", built / "src"])
    raw = tmp_path / "raw"
    material.convert(target, raw, "raw")
    back = tmp_path / "back"
    back.mkdir()
    disk.copy(raw, str(tree), back)
    found = {str(path.relative_to(back / "tree")) for path in back.rglob("*") if path.is_file()}
    assert found == {"a/code.py", "build/mod/mod.ko"}
    listed = subprocess.run(["qemu-img", "snapshot", "-l", target], capture_output=True, check=True)
    assert FROZEN.encode() in listed.stdout


def test_results_come_home_with_the_status(tmp_path: Path) -> None:
    """The files that a guest has left, at the same place; no status is None."""
    out = tmp_path / "run/out"
    out.mkdir(parents=True)
    (out / "story.txt").write_text("lost")
    made = tmp_path / DISK
    for status in (None, -9):
        tree = tmp_path / "disk"
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(out, tree / str(out)[1:])
        if status is not None:
            (tree / STATUS).write_text(str(status))
        raw = tmp_path / "made.raw"
        raw.unlink(missing_ok=True)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", tree, raw, "16m"], check=True)
        material.convert(raw, made, "qcow2")
        shutil.rmtree(out)
        assert material.results(made, out) == status
        assert (out / "story.txt").read_text() == "lost"


def test_recording_that_qemu_cannot_replay_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last one that cannot be replayed is the error; a new one begins without the old files."""
    ends: list[Exception | list[str]] = [GuestLost("it stands still"), ["console.log"], []]
    tried: list[bool] = []

    def once(_errand: object, _saved: object, directory: Path, _seconds: float) -> Execution:
        tried.append(directory.exists())
        directory.mkdir(exist_ok=True)
        return Execution(directory, about())

    def again_(_execution: Execution, _seconds: float) -> list[str]:
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    monkeypatch.setattr(record, "_ensure_frozen", lambda _: None)
    monkeypatch.setattr(record, "_once", once)
    monkeypatch.setattr(again, "replay", again_)
    errand = cast(Errand, None)
    record.record(errand, tmp_path / "place", 1.0)
    assert tried == [False] * 3 and not ends and (tmp_path / "place").exists()
    ends = [["console.log"]] * 9
    with pytest.raises(GuestLost, match=r"console\.log would differ"):
        record.record(errand, tmp_path / "other", 1.0)
    assert len(ends) == 9 - record._TRIES and not (tmp_path / "other").exists()


def test_recording_of_a_test_that_passed_is_not_replayed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing of it is kept."""
    passed = Execution(tmp_path, about(status=0))
    monkeypatch.setattr(record, "_ensure_frozen", lambda _: None)
    monkeypatch.setattr(record, "_once", lambda *_: passed)
    monkeypatch.setattr(again, "replay", lambda *_: pytest.fail("it was replayed"))
    assert record.record(cast(Errand, None), tmp_path, 1.0) is passed


def test_process_without_cpu_time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks count, not seconds; one that computes never stands still."""
    pulse = qemu_process._Pulse(os.getpid())
    used = 0
    monkeypatch.setattr(pulse, "_ticks", lambda: used)
    assert [pulse.stopped() for _ in range(qemu_process.LOOKS)].index(True) == (
        qemu_process.LOOKS - 1
    )
    for _ in range(3 * qemu_process.LOOKS):
        used += 1
        assert not pulse.stopped()


def test_cpu_time_is_that_of_the_process() -> None:
    """In ticks, with that of the kernel."""
    pulse = qemu_process._Pulse(os.getpid())
    before = pulse._ticks()
    while pulse._ticks() == before:
        pass


def test_moment_is_the_last_call_or_one_with_a_number() -> None:
    """As the user writes it, and as it is shown."""
    assert Moment.parse("last call of wait") == Moment("wait")
    assert Moment.parse("last of wait") == Moment("wait")
    assert Moment.parse("call 12 of my.fn") == Moment("my.fn", 12)
    assert Moment.parse("last visit of wait+0x1f") == Moment("wait", 0, 0x1F)
    assert Moment.parse("visit 7 of wait+0x1f") == Moment("wait", 7, 0x1F)
    assert str(Moment("wait")) == "last call of wait"
    assert str(Moment("wait", 7, 0x1F)) == "visit 7 of wait+0x1f"
    assert str(Moment("wait", 3)) == "call 3 of wait"


def test_moment_may_be_named_after_another_one() -> None:
    """Of any kind, and as it is shown."""
    for words in (
        "last call of ring before wait 7",
        "next visit of wait+0x1f after call 3 of ring",
        "last call of ring before next call of wait after at 0.012 ms of python3/125",
    ):
        assert str(Moment.parse(words)) == words
    ring = Moment.parse("next call of ring after wait 7")
    assert (ring.function, ring.number, ring.after, ring.beside) == (
        *("ring", 0, True),
        Moment.parse("wait 7"),
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "wait", "call 0 of wait", "first of wait", "last of a b"),
        *("next call of wait", "next call of wait before wait 7", "last call of wait after wait 7"),
        "last call of wait before dawn",
    ],
)
def test_other_words_are_no_moment(text: str) -> None:
    """They are refused while the command line is read."""
    with pytest.raises(ValueError, match="is not like"):
        Moment.parse(text)
    with pytest.raises(argparse.ArgumentTypeError):
        command._moment(text)


def test_stop_is_a_hardware_breakpoint_behind_the_calls_before() -> None:
    """A guest that is replayed must not be changed."""
    passed = "ignore $bpnum 2 - ($pc == 0x1000)"
    assert Stop(0x1000, 2).commands() == ["hbreak *0x1000", passed, "continue"]


def test_function_that_the_guest_lacks_is_wrong_usage(kept: Execution) -> None:
    """With the name that was meant; a name that two have is none."""
    assert moments.find(kept, "ring") == 0xFFFFFFFFC0001000
    with pytest.raises(UsageError) as caught:
        moments.find(kept, "rings")
    assert "did you mean ring?" in caught.value.line()
    with pytest.raises(UsageError, match="2 functions of the name twice"):
        moments.find(kept, "twice")


def test_execution_without_symbols_says_so(kept: Execution) -> None:
    """No module was loaded."""
    (kept.directory / execution.OUT / names.KALLSYMS).unlink()
    with pytest.raises(SetupError, match="it has no symbols"):
        moments.find(kept, "ring")


def test_place_is_shown_if_the_guest_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of the execution it is somewhere else."""
    text = f"noise\n{gdb._HERE}\n0x10\n#0  wait ()\n#1  0x00007f3270c8c350 in ?? ()\n"
    monkeypatch.setattr(gdb, "_run", lambda _commands, _seconds: text)
    assert gdb.look([], Stop(0x10, 1), 1.0) == "#0  wait ()\n"
    assert gdb.look([], Stop(0x20, 1), 1.0) == ""
    monkeypatch.setattr(gdb, "_run", lambda _commands, _seconds: "Connection refused\n")
    with pytest.raises(SetupError, match="did not get there"):
        gdb.look([], Stop(0x10, 1), 1.0)


@pytest.mark.parametrize(
    ("frames", "note"),
    [
        ("#0  my_put () at /src/my.c:65\n", gdb._UNKNOWN),
        ("#0  0x0 in my_put (ch=0x5) at /src/my.c:65\n[Inferior 1 detached]\n", gdb._UNKNOWN),
        ("#0  my_put () at /src/my.c:65\n#1  0xffffffff810cd417 in kthread ()\n", ""),
        ("#0  0x00007f3270c8c350 in ?? ()\n", ""),
    ],
)
def test_missing_callers_of_a_module_are_named(
    monkeypatch: pytest.MonkeyPatch, frames: str, note: str
) -> None:
    """A function of a module has been called by something."""
    monkeypatch.setattr(gdb, "_run", lambda *_: f"{gdb._HERE}\n0x10\n{frames}")
    shown = gdb.look([], Stop(0x10, 1), 1.0)
    assert shown.endswith(note) and (gdb._UNKNOWN in shown) is bool(note)


class Called:
    """A guest in whose replays a function is called so often, and that QEMU stops late.

    Attributes:
        total: calls of the function.
        late: calls from the one that QEMU was to stop at to the one that it does stop at.
        begun: how often it was replayed.
        awake: it is kept awake.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, total: int, late: int = 0) -> None:
        self.total, self.late, self.begun, self._calls = total, late, 0, 0
        self.awake = False
        monkeypatch.setattr(again, "replaying", self.replaying)
        monkeypatch.setattr(gdb, "connecting", lambda *_: [])

    @contextlib.contextmanager
    def replaying(self, _: Execution, function: int = 0, near: int = 0) -> Iterator[Any]:
        """As that of the module."""
        self.begun += 1
        self._calls = 0
        count = SimpleNamespace(near=near, calls=lambda: self._calls)
        machine = SimpleNamespace(
            finish=self._finish,
            stop_after=self._stop_after,
            kept_awake=self.kept_awake,
            debugger="",
        )
        yield SimpleNamespace(machine=machine, place=None, counter=count)

    @contextlib.contextmanager
    def kept_awake(self) -> Iterator[None]:
        """As that of the machine."""
        self.awake = True
        yield
        self.awake = False

    def _finish(self, _: float) -> None:
        self._calls = self.total

    def _stop_after(self, count: Any, _: float) -> bool:
        self._calls = min(self.total, count.near + self.late)
        return bool(self.total >= count.near)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("last call of ring before call 3 of wait", 5),
        ("next call of ring after call 3 of wait", 6),
        ("last call of ring before last call of wait", 5),
    ],
)
def test_call_before_another_moment_is_counted_up_to_it(
    monkeypatch: pytest.MonkeyPatch, kept: Execution, words: str, number: int
) -> None:
    """W1: five calls of ring come before the third call of wait, the last one."""
    asked: list[dict[str, int]] = []
    stops: list[Stop] = []

    @contextlib.contextmanager
    def replaying(_: Execution, function: int = 0, **looking: int) -> Iterator[Any]:
        asked.append({"function": function, **looking})
        counted = SimpleNamespace(calls=lambda: 0 if "near" in looking else 3, others=lambda: 5)
        machine = SimpleNamespace(
            finish=lambda _: None, kept_awake=contextlib.nullcontext, debugger=""
        )
        yield SimpleNamespace(machine=machine, place=None, counter=counted)

    def look(_commands: object, stop: Stop, _seconds: float) -> str:
        stops.append(stop)
        return "#0  ring ()\n"

    monkeypatch.setattr(again, "replaying", replaying)
    monkeypatch.setattr(gdb, "connecting", lambda *_: [])
    monkeypatch.setattr(gdb, "look", look)
    assert again.look(kept, Moment.parse(words), 1.0) == "#0  ring ()\n"
    ring, wait = moments.find(kept, "ring"), moments.find(kept, "wait")
    assert {"function": wait, "other": ring, "at": 3} in asked
    assert stops == [Stop(ring, number - 1)]


def test_call_that_does_not_come_again_is_named_with_its_moment() -> None:
    """Its number is ours, so that it was called "less often" would tell nothing."""
    error = again._too_few(Moment.parse("next call of ring after wait 7"))
    assert error.what == "the guest has not called ring after 'wait 7'"


def test_function_that_was_not_called_has_no_moment(
    monkeypatch: pytest.MonkeyPatch, kept: Execution
) -> None:
    """Nothing is shown then."""
    monkeypatch.setattr(gdb, "look", lambda *_: "")
    Called(monkeypatch, 0)
    with pytest.raises(NoMoment, match="has not called ring"):
        again.look(kept, Moment("ring"), 1.0)
    with pytest.raises(NoMoment, match="less often"):
        again.look(kept, Moment("ring", 3), 1.0)
    Called(monkeypatch, 50)
    with pytest.raises(NoMoment, match="less often"):
        again.look(kept, Moment("ring", 100), 1.0)


@pytest.mark.parametrize(
    ("total", "late", "begun", "left"),
    [(5, 0, 2, 4), (2000, 0, 2, 16), (2000, 9, 2, 7), (2000, 16, 3, 1008), (2000, 1500, 4, 1999)],
)
def test_few_calls_are_left_for_the_debugger(
    monkeypatch: pytest.MonkeyPatch, kept: Execution, total: int, late: int, begun: int, left: int
) -> None:
    """W1: it never goes past the moment; if QEMU has, the guest is replayed from further away."""
    guest = Called(monkeypatch, total, late)
    stops: list[Stop] = []

    def look(_commands: object, stop: Stop, _seconds: float) -> str:
        stops.append(stop)
        return "#0"

    monkeypatch.setattr(gdb, "look", look)
    assert again.look(kept, Moment("ring"), 1.0) == "#0"
    assert (guest.begun, stops) == (begun, [Stop(0xFFFFFFFFC0001000, left)])


@pytest.mark.parametrize("moment", [None, Moment("ring", 1)])
def test_guest_is_kept_awake_while_gdb_has_it(
    monkeypatch: pytest.MonkeyPatch, kept: Execution, moment: Moment | None
) -> None:
    """Otherwise QEMU may sleep while the replay waits for it."""
    guest = Called(monkeypatch, 5)
    seen: list[bool] = []

    def look(*_: object) -> str:
        seen.append(guest.awake)
        return "#0"

    monkeypatch.setattr(gdb, "look", look)
    monkeypatch.setattr(again, "_terminal", look)
    again.debug(kept, moment, 1.0)
    again.look(kept, Moment("ring", 1), 1.0)
    assert seen == [True, True] and not guest.awake


def test_machine_that_is_kept_awake_is_asked_until_the_end() -> None:
    """Again and again, and not once QEMU has ended."""
    asked = threading.Semaphore(0)
    running = {"status": "running"}
    answers: list[object] = [running, running, None]

    def execute(_command: str, _seconds: float) -> object:
        asked.release()
        return answers.pop(0) if answers else running

    machine = object.__new__(qemu_process.Machine)
    machine._qmp = cast(QmpLink, SimpleNamespace(execute=execute))
    with machine.kept_awake():
        assert all(asked.acquire(timeout=60) for _ in range(3))
        for thread in threading.enumerate():
            if thread.name == "awake":
                thread.join(60)
        assert not asked.acquire(blocking=False)


def test_counter_of_calls_compiles_with_the_layout_that_the_host_reads(tmp_path: Path) -> None:
    """The plugin's board is two numbers."""
    source = tmp_path / "layout.c"
    size, where = f"sizeof(struct board) == {counter.BOARD.size}", "offsetof(struct board, stopped)"
    text = f'#include "{counter.SOURCE}"\n_Static_assert({size} && {where} == 8, "");\n'
    source.write_text(text)
    argv = [*plugins.gcc(), "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "so"), str(source)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_debugger_reads_the_symbols_of_kernel_and_modules(tmp_path: Path) -> None:
    """Functions with their addresses; nm reads the file, too."""
    kallsyms, file = tmp_path / "kallsyms", tmp_path / symbols.FILE
    kallsyms.write_text(KALLSYMS)
    file.write_bytes(symbols.elf(symbols.functions(kallsyms)))
    done = subprocess.run(["nm", file], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()) == {
        "ffffffff81000000 T _stext",
        "ffffffff81000010 T wait",
        "ffffffff81000030 T twice",
        "ffffffff81000040 T twice",
        "ffffffffc0001000 A ring",
    }


def test_symbols_are_on_the_disk_before_the_module_can_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A guest that panics has written nothing since."""
    sections = tmp_path / "module/bell/sections"
    sections.mkdir(parents=True)
    (sections / ".text").write_text("0x1000\n")
    monkeypatch.setattr(guest_symbols, "SECTIONS", tmp_path / "module")
    monkeypatch.setenv(names.RECORDED, "1")
    monkeypatch.setenv(names.OUT, str(tmp_path))
    written: list[object] = []

    def sync() -> None:
        assert (tmp_path / names.KALLSYMS).stat().st_size
        written.append(json.loads((tmp_path / names.SECTIONS).read_text()))

    monkeypatch.setattr(os, "sync", sync)
    guest_symbols.leave("bell")
    assert written == [{"bell": {".text": 0x1000}}]


def test_debugger_reads_a_module_as_the_guest_had_it(tmp_path: Path) -> None:
    """Each section at its address, from a copy: a later build is another one."""
    places = {".text": 0x1000, ".data": 0x2000, ".symtab": 0x3000, "__versions": 1}
    (tmp_path / names.SECTIONS).write_text(json.dumps({"my_bell": places, "gone": {}}))
    built = tmp_path / "src/deep/my-bell.ko"
    built.parent.mkdir(parents=True)
    built.write_bytes(symbols.elf([("ring", 0x1000)]))
    kept = tmp_path / "kept"
    symbols.keep(tmp_path, [tmp_path / "src"], kept)
    built.unlink()
    ko = kept / "my_bell.ko"
    assert list(symbols.modules(tmp_path, kept)) == [Loaded(ko, places)]
    assert b" A ring" in subprocess.run(["nm", ko], capture_output=True, check=True).stdout
    assert Loaded(ko, places).command() == f'add-symbol-file "{ko}" 0x1000 -s .data 0x2000'


def test_callers_are_found_as_the_kernel_finds_them(tmp_path: Path) -> None:
    """readelf reads the rows: offsets, an interrupt's registers, and the end of the stack."""
    rows = [
        Row(0x1000, Kind.CALL, register=5, offset=8, base=0),
        Row(0x1001, Kind.CALL, register=5, offset=16, base=1, saved=-16),
        Row(0x1010, Kind.REGISTERS, register=5, offset=0),
        Row(0x1020, Kind.END),
        Row(0x1030, Kind.CALL, register=4, offset=16, base=1, saved=-16),
        Row(0x1040, Kind.END),
    ]
    file = tmp_path / symbols.FILE
    file.write_bytes(symbols.elf([], frames.debug_frame(rows)))
    argv = ["readelf", "--debug-dump=frames-interp", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert not done.stderr
    found = {
        words[0][-4:]: words
        for line in done.stdout.splitlines()
        if (words := line.split()) and re.fullmatch(r"0{12}10\d\d", words[0])
    }
    assert found["1000"][1] == "rsp+8" and found["1000"][-1] == "c-8"
    assert found["1001"][1] == "rsp+16" and "c-16" in found["1001"]
    assert found["1010"][1] == "rsp+0" and {"c+128", "c+152"} <= set(found["1010"])
    assert found["1020"][-1] == "u"
    assert found["1030"][1] == "rbp+16"


@pytest.mark.parametrize(
    ("release", "bits", "kind"),
    [
        ("6.1.0-56-amd64", 5, Kind.CALL),
        ("6.1.0-56-amd64", 5 | 1 << 8, Kind.REGISTERS),
        ("6.1.0-56-amd64", 5 | 1 << 10, Kind.END),
        ("6.12.1", 5 | 2 << 8, Kind.CALL),
        ("6.12.1", 5 | 4 << 8, Kind.IRET),
        ("6.12.1", 1 << 8, Kind.END),
    ],
)
def test_rows_of_the_kernel_are_read(release: str, bits: int, kind: Kind) -> None:
    """struct orc_entry of arch/x86/include/asm/orc_types.h, which 6.4 has changed."""
    entries = bytes(6) + frames.ENTRY.pack(24, -16, bits)
    row = frames._row(0x1000, entries, 1, frames._kinds(release))
    assert row.kind is kind
    if kind is not Kind.END:
        assert (row.register, row.offset, row.saved) == (5, 24, -16)
