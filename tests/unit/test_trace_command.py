# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The command line of ``kfabric trace``, before anything is traced."""

from __future__ import annotations

import argparse
import ctypes
import io
import json
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from rich.console import Console
from rich.live import Live
from slow_steps import impatient

from kfabric import names
from kfabric.errors import ExitStatus, SetupError, UsageError
from kfabric.recording.records import Recording
from kfabric.report.source import save
from kfabric.terminal import streams
from kfabric.trace import command, guest, watch
from kfabric.trace.bpf import mapped, ring_bytes
from kfabric.trace.scope import Scope, add_scope_options, scope_of
from kfabric.trace.summary import SUMMARY, Summary
from kfabric.vm.userbuild import UserModuleError


def parse(*words: str) -> Scope:
    """The scope that options give."""
    parser = argparse.ArgumentParser()
    add_scope_options(parser)
    return scope_of(parser.parse_args(words))


@pytest.mark.parametrize(
    "scope",
    [
        Scope(),
        Scope(modules=("rdma_rxe", "ib_core"), publish=("f", "g"), take=("h",)),
        Scope(queue="log_wait+0x8", pid=17, stacks=False),
    ],
)
def test_scope_is_handed_on_whole(scope: Scope) -> None:
    """Host and guest parse the same scope."""
    assert parse(*scope.argv()) == scope


def test_processes_choose_the_queues_unless_something_else_does() -> None:
    """A module or a queue is chosen by name."""
    assert Scope().by_tree and Scope(pid=3).by_tree
    assert not Scope(modules=("9p",)).by_tree and not Scope(queue="log_wait").by_tree


@pytest.mark.parametrize(
    ("queue", "address"),
    [
        ("ffffffffc0a8e2c0", 0xFFFFFFFFC0A8E2C0),
        ("0xffffffffc0a8e2c0", 0xFFFFFFFFC0A8E2C0),
        ("0x1F", 0x1F),
        ("1f", 0x1F),
        ("log_wait", None),
        ("log_wait+0x8", None),
        ("face", None),
        ("add_wait_queue_x", None),
        ("", None),
    ],
)
def test_queue_is_an_address_if_it_looks_like_one(queue: str, address: int | None) -> None:
    """With 0x or as the kernel writes it; a symbol may have sixteen letters, too."""
    assert Scope(queue=queue).address == address


def test_module_may_be_written_as_its_file() -> None:
    """The kernel knows no dash."""
    assert parse("--module", "ib-core").modules == ("ib_core",)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--here",),
        ("--module", "9pnet"),
        ("--module", "9pnet", "--queue", "log_wait", "--", "true"),
        ("--module=a", "--module=b", "--module=c", "--module=d", "--module=e", "--", "true"),
    ],
)
def test_senseless_words_are_refused(words: tuple[str, ...]) -> None:
    """At once, and not after a guest has booted."""
    with pytest.raises(SystemExit) as caught:
        command._parse(words)
    assert caught.value.code == 2


def test_commands_own_options_are_its_own() -> None:
    """After the two dashes there are no options of ours."""
    args = command._parse(("--module=9pnet", "--", "find", "/usr", "-name", "*.py"))
    assert args.command == ["find", "/usr", "-name", "*.py"]
    words = command._argv(args, scope_of(args), Path("/out"))
    assert words[-5:] == ["--", "find", "/usr", "-name", "*.py"]
    assert "--output=/out" in words and "--module=9pnet" in words


@pytest.mark.parametrize("quiet", [False, True])
def test_line_about_the_compiler_is_shown_unless_the_user_wants_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    quiet: bool,
) -> None:
    """Compiling takes minutes in a guest on a busy host, without any other output."""
    if quiet:
        monkeypatch.setenv(names.QUIET, "1")
    else:
        monkeypatch.delenv(names.QUIET, raising=False)

    def compile_and_fail(*_: object, compiling: Callable[[], None], **__: object) -> None:
        compiling()
        raise guest.ProbeError("it does not load")

    monkeypatch.setattr(guest, "Tracer", compile_and_fail)
    monkeypatch.setattr(guest.signal, "pthread_sigmask", lambda *_: None)
    args = command._parse(("--module=9pnet", "--", "true"))
    _, _, *words = command._argv(args, scope_of(args), tmp_path)
    guest.main(words)
    line = "kfabric: probes: compiling; this takes long, but only once for each kernel\n"
    assert (
        capsys.readouterr().err == f"{'' if quiet else line}kfabric: not traced: it does not load\n"
    )


@pytest.mark.parametrize("quiet", [False, True])
def test_tracer_that_loads_slowly_is_shown_unless_the_user_wants_no_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    quiet: bool,
) -> None:
    """A guest on a busy host takes half a minute, although nothing is compiled."""

    def load(*_: object, **__: object) -> None:
        assert shown()
        raise guest.ProbeError("it does not load")

    shown = impatient(monkeypatch, guest)
    monkeypatch.setattr(guest, "Tracer", load)
    monkeypatch.setattr(guest.signal, "pthread_sigmask", lambda *_: None)
    guest.main([f"--output={tmp_path}", *["--quiet"] * quiet])
    line = "" if quiet else "kfabric: the tracer is loading\n"
    assert capsys.readouterr().err == f"{line}kfabric: not traced: it does not load\n"


@pytest.mark.parametrize(
    ("words", "line", "status"),
    [
        (
            ["--duration=60", "--", "sleep", "60"],
            "interrupted after 3.2 s, before sleep had ended; what follows is of this time",
            ExitStatus.INTERRUPTED,
        ),
        ([], "interrupted after 3.2 s; what follows is of this time", 0),
        (["--duration=0.001", "--", "sleep", "60"], "", guest.TIMED_OUT),
    ],
)
def test_interrupted_trace_is_called_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    line: str,
    status: int,
) -> None:
    """Its table looks like that of a command that has ended; a limit is no interrupt."""
    tracer = MagicMock(load_seconds=1.0, seconds={}, t_start=0, **{"rows.return_value": []})
    tracer.losses.return_value = {}
    tracer.stop.return_value = Summary(seconds=3.2)
    tracer.__enter__.return_value = tracer
    tracer.scope.by_tree = False
    got = SimpleNamespace(si_signo=signal.SIGINT) if line else None
    monkeypatch.setattr(guest, "Tracer", lambda *_, **__: tracer)
    monkeypatch.setattr(guest.signal, "pthread_sigmask", lambda *_: None)
    monkeypatch.setattr(guest.signal, "sigtimedwait", lambda *_: got)
    assert guest.main([f"--output={tmp_path}", *words]) == status
    assert capsys.readouterr().err == (f"kfabric: {line}\n" if line else "")


@pytest.mark.parametrize("word", ["./my_mod", "my_mod/", "."])
def test_module_with_a_slash_is_a_directory(word: str) -> None:
    """It is built for the guest, and no module has such a name."""
    args = command._parse((f"--module={word}", "--module=ext4", "--", "true"))
    assert args.module == Path(word)
    assert scope_of(args).modules == ("ext4",)


@pytest.mark.parametrize(
    "words", [("--module=./a", "--module=./b", "--", "true"), ("--here", "--module=./a")]
)
def test_directories_that_cannot_be_built_are_refused(words: tuple[str, ...]) -> None:
    """There is room for one, and only in a guest."""
    with pytest.raises(SystemExit) as caught:
        command._parse(words)
    assert caught.value.code == 2


@pytest.fixture
def in_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current directory has two that can be built, and one that cannot."""
    for name in ("nfs/Makefile", "my_mod/Kbuild", "docs/page.md"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("in_tree")
@pytest.mark.parametrize(
    ("words", "directory", "modules"),
    [
        (("--module=nfs", "--", "true"), "nfs", []),
        (("--module=my_mod", "--module=ext4", "--", "true"), "my_mod", ["ext4"]),
        (("--module=docs", "--", "true"), None, ["docs"]),
        (("--module=./my_mod", "--module=my_mod", "--", "true"), "my_mod", ["my_mod"]),
        (("--here", "--module=nfs"), None, ["nfs"]),
    ],
    ids=["directory", "beside a name", "no Kbuild", "its name", "nothing is built here"],
)
def test_module_that_can_be_built_here_is_a_directory_without_a_slash(
    words: tuple[str, ...], directory: str | None, modules: list[str]
) -> None:
    """As for every other command with --module; a directory with a slash leaves names alone."""
    args = command._parse(words)
    assert args.module == (Path(directory) if directory else None)
    assert args.modules == modules


@pytest.mark.usefixtures("in_tree")
def test_two_directories_without_a_slash_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Both may have been meant as the names of modules."""
    with pytest.raises(SystemExit):
        command._parse(("--module=nfs", "--module=my_mod", "--", "true"))
    assert "--module takes one directory, not nfs and my_mod" in capsys.readouterr().err


def test_built_modules_are_traced_if_nothing_else_is_chosen(tmp_path: Path) -> None:
    """By the names that the kernel gives them."""
    env = {names.MODULE_DIR: str(tmp_path)}
    (tmp_path / names.MODULE_ORDER).write_text("my-core\ntop\n")
    assert command._of_built(Scope(), env).modules == ("my_core", "top")
    assert command._of_built(Scope(queue="log_wait"), env) == Scope(queue="log_wait")
    assert command._of_built(Scope(modules=("ext4",)), env) == Scope(modules=("ext4",))
    assert command._of_built(Scope(), {}) == Scope()
    (tmp_path / names.MODULE_ORDER).write_text("a b c d e")
    with pytest.raises(UserModuleError, match="5 modules were built"):
        command._of_built(Scope(), env)


@pytest.mark.parametrize(("mib", "cpus", "pages"), [(32, 2, 4096), (32, 3, 2048), (0.001, 4, 1)])
def test_rings_are_powers_of_two_of_pages(mib: float, cpus: int, pages: int) -> None:
    """All together not more than was asked for, but a page each."""
    assert ring_bytes(mib, cpus) == pages * mmap.PAGESIZE


def test_mapped_counters_are_read_where_they_are(tmp_path: Path) -> None:
    """Later counts are visible in the mapped memory, too: nothing is copied."""
    path = tmp_path / "map"
    path.write_bytes(bytes(2 * mmap.PAGESIZE))

    class Table:
        Leaf = ctypes.c_uint64

        def __init__(self, fd: int) -> None:
            self.map_fd = fd

    entries = mmap.PAGESIZE // 8 + 1
    with path.open("r+b") as file:
        counters = mapped(Table(file.fileno()), entries)
        assert len(counters) == entries and not any(counters)
        file.seek(mmap.PAGESIZE)
        file.write((17).to_bytes(8, "little"))
        file.flush()
        assert counters[-1] == 17


def test_follower_hands_on_whole_lines_only(tmp_path: Path) -> None:
    """The file grows while it is read, and may end in the middle of a line."""
    path = tmp_path / "live.jsonl"
    lines: list[dict[str, Any]] = []
    came = threading.Event()

    def hand(line: dict[str, Any]) -> None:
        lines.append(line)
        came.set()

    with streams.Follower(path, hand):
        path.write_text(json.dumps({"n": 1}) + "\n" + json.dumps({"n": 2}) + '\n{"n"')
        assert came.wait(10)
        came.clear()
        with path.open("a") as file:
            file.write(": 3}\n")
        assert came.wait(10)
    assert lines[0] == {"n": 2} and lines[-1] == {"n": 3}


def test_earlier_recording_goes_when_the_new_one_comes_and_nothing_else(tmp_path: Path) -> None:
    """A directory may hold other things."""
    for name in ("recording.json", "summary.json", "notes.txt"):
        (tmp_path / name).write_text("old")
    with command._new_recording(tmp_path) as new:
        (new / "recording.json").write_text("new")
        assert (tmp_path / "recording.json").read_text() == "old"
        command._move(new, tmp_path)
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == {"recording.json": "new", "notes.txt": "old"}


def test_trace_that_fails_leaves_the_earlier_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a complete recording replaces it."""
    for name in ("recording.json", "summary.json", "report.html"):
        (tmp_path / name).write_text("old")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(names.PROGRAMS, "/named")

    def here(*_: object) -> int:
        raise SetupError("not traced")

    monkeypatch.setattr(watch, "here", here)
    with pytest.raises(SetupError, match="not traced"):
        command.main(["--here", f"--output={tmp_path}", "true"])
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == dict.fromkeys(("recording.json", "summary.json", "report.html"), "old")


def test_second_trace_into_a_directory_is_refused(tmp_path: Path) -> None:
    """The first one keeps it until it has ended."""
    with command._new_recording(tmp_path):
        with pytest.raises(UsageError, match="another kfabric trace writes to"):
            with command._new_recording(tmp_path):
                pass
    with command._new_recording(tmp_path):
        pass


def test_files_of_a_trace_that_was_killed_are_removed(tmp_path: Path) -> None:
    """By the next one into the same directory."""
    (tmp_path / ".new-killed").mkdir()
    (tmp_path / ".new-killed/recording.bin").write_text("half")
    with command._new_recording(tmp_path) as new:
        assert [path.name for path in tmp_path.iterdir()] == [new.name]


def test_table_leaves_standard_output_to_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that the output of a traced command can be piped."""
    new, output = tmp_path / "new", tmp_path / "output"
    output.mkdir()
    save(Recording(()), new)
    (new / SUMMARY).write_text(json.dumps(asdict(Summary())))
    command._finish(new, output, 0)
    told = capsys.readouterr()
    assert told.out == "" and "complete: no record was lost" in told.err
    assert (output / SUMMARY).exists()


def here(code: str, show: watch.Show) -> int:
    """Run a Python on this machine, as if by root."""
    return watch.here([sys.executable, "-c", code], "", show)


def test_tracer_of_this_machine_keeps_its_programs_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no image beside which they could be; a place that is named already stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(names.PROGRAMS, "")
    monkeypatch.delenv(names.PROGRAMS)
    told: list[str | None] = []

    def here(*_: object) -> int:
        told.append(os.environ.get(names.PROGRAMS))
        return 0

    monkeypatch.setattr(watch, "here", here)
    for _ in range(2):
        assert command.main(["--here", f"--output={tmp_path}", "true"]) != 0  # no summary
        monkeypatch.setenv(names.PROGRAMS, "/named")
    assert told == [str(tmp_path / "kfabric/programs"), "/named"]


def test_program_here_keeps_its_streams_and_status(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """What it prints comes out where it was printed."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    assert here(code, streams.copy) == 7
    assert capfdbinary.readouterr() == (b"out\n", b"err\n")


def test_output_after_an_interrupt_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The program ends by itself, and is heard to its end."""

    def interrupted(output: streams.Output) -> None:
        assert next(output) == (True, b"out\n")
        gate.write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr("os.geteuid", lambda: 0)
    os.mkfifo(gate := tmp_path / "gate")
    code = f"import os; os.write(1, b'out\\n'); open({str(gate)!r}).read(); print('rest')"
    assert here(code, interrupted) == 0
    assert capfdbinary.readouterr().out == b"rest\n"


def test_only_root_watches_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is started."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(SetupError, match="not root"):
        watch.here(["/absent"], "why", streams.copy)


def test_lines_above_a_table_are_whole() -> None:
    """Of each stream on its own; the last one may lack its end."""
    console = Console(file=io.StringIO(), width=80)
    output = [(True, b"fi"), (False, b"err\n"), (True, b"rst\nla"), (True, b"st")]
    watch.print_above(cast(Live, SimpleNamespace(console=console)), iter(output))
    assert cast(io.StringIO, console.file).getvalue() == "err\nfirst\nlast\n"
