# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Wrong input is one line with the right exit status, before anything is built or booted."""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from rich import box
from rich.console import Console
from rich.table import Table

from kfabric import cli
from kfabric.errors import ExitStatus, UsageError
from kfabric.recording.records import Recording, head_of
from kfabric.terminal import tables
from kfabric.terminal.arguments import Parser, results_directory
from kfabric.top import command as top
from kfabric.vm import accel, image, kbuild
from kfabric.vm.machine import Vm

ROOT = Path(__file__).resolve().parents[2]
USAGE, SETUP = ExitStatus.USAGE, ExitStatus.SETUP
TRUE = ["--", "true"]

# Words of the command line, exit status, a text of the line. {dir} is a directory of the test.
Case = tuple[list[str], ExitStatus, str]
COMMANDS: list[Case] = [
    (["tset"], USAGE, "no such command: tset; did you mean test?"),
    (["post_mortem"], USAGE, "did you mean post-mortem?"),
    (["xyzzy"], USAGE, "see kfabric --help"),
    (["--nonesuch"], USAGE, "no such command: --nonesuch"),
    ([""], USAGE, "no such command"),
    (["ru\nn"], USAGE, "did you mean run?"),
]
GUEST: list[Case] = [
    (["--cpus", "0"], USAGE, "--cpus: 0 is not from 1 to 255"),
    (["--cpus", "-1"], USAGE, "--cpus: -1 is not from 1"),
    (["--cpus", "1000"], USAGE, "--cpus: 1000 is not from 1"),
    (["--cpus", "two"], USAGE, "--cpus: 'two' is no whole number"),
    (["--memory", "10"], USAGE, "--memory: 10 is not at least 256"),
    (["--memory", "-1"], USAGE, "--memory: -1 is not at least"),
    (["--memory", "1.5"], USAGE, "--memory: '1.5' is no whole number"),
    (["--memory", "2G"], USAGE, "--memory: '2G' is no whole number"),
    (["--kernel", "6.66"], USAGE, "no such kernel: 6.66; vm/versions.toml has 6.1,"),
    (["--kdir", "{dir}/nowhere"], USAGE, "no kernel to boot: {dir}/nowhere is no directory"),
    (["--kdir", "{dir}/plain"], USAGE, "no kernel to boot: {dir}/plain is no directory"),
    (["--kdir", "{dir}/empty"], USAGE, "no kernel to boot: {dir}/empty has no .config"),
    (["--kdir"], USAGE, "--kdir: expected one argument"),
    (["--variant", "both"], USAGE, "--variant: invalid choice: 'both' (choose from 'prod'"),
    (["--nonesuch"], USAGE, "unrecognized arguments: --nonesuch"),
    (["--append"], USAGE, "--append: expected one argument"),
    (["--packages", "Strace"], USAGE, "'Strace' is no name of a Debian package; names are"),
    (["--packages", ""], USAGE, "'' is no name of a Debian package"),
    (["--kernel-modules", "loop,,fuse"], USAGE, "'' is no name of a kernel module; names are"),
    (["--kernel-modules", "./null_blk.ko"], USAGE, "'./null_blk.ko' is no name of a kernel module"),
]
TIMEOUTS: list[Case] = [
    (["--timeout", "0"], USAGE, "--timeout: '0' is not more than 0"),
    (["--timeout", "-1"], USAGE, "--timeout: '-1' is not from 0"),
    (["--timeout", "nan"], USAGE, "--timeout: 'nan' is no number"),
    (["--timeout", "inf"], USAGE, "--timeout: 'inf' is not from 0"),
    (["--timeout", "soon"], USAGE, "--timeout: 'soon' is no number"),
]
DURATIONS: list[Case] = [
    (["--duration", "-1"], USAGE, "--duration: '-1' is not from 0"),
    (["--duration", "nan"], USAGE, "--duration: 'nan' is no number"),
    (["--duration", "1s"], USAGE, "--duration: '1s' is no number"),
]
RUN: list[Case] = [
    *GUEST,
    *TIMEOUTS,
    ([], USAGE, "required: CMD"),
    (["--module", "a", "--module", "b"], USAGE, "--module takes one directory, not a and b"),
]
TRACE: list[Case] = [
    *GUEST,
    *TIMEOUTS,
    *DURATIONS,
    ([], USAGE, "a guest has nothing to trace without CMD"),
    (["--here"], USAGE, "nothing to trace: give CMD, --module, --queue or --pid"),
    (["--module", "a", "--queue", "b"], USAGE, "--module and --queue exclude each other"),
    ([f"--module=m{n}" for n in range(5)], USAGE, "at most 4 modules"),
    (["--no-stacks", "--user-stacks"], USAGE, "--no-stacks and --user-stacks exclude each other"),
    (["--module", "a b"], USAGE, "--module: 'a b' is no name of a module or a function"),
    (["--module", "../nowhere"], USAGE, "nowhere is no directory"),
    (["--module=./a", "--module=./b"], USAGE, "--module takes one directory, not ./a and ./b"),
    (["--module", ""], USAGE, "--module: '' is no name"),
    (["--event", "f()"], USAGE, "--event: 'f()' is no name of a module or a function"),
    (["--take", "*p"], USAGE, "--take: '*p' is no name"),
    (["--pid", "0"], USAGE, "--pid: 0 is not at least 1"),
    (["--pid", "self"], USAGE, "--pid: 'self' is no whole number"),
    (["--here", "--pid", "999999999"], USAGE, "there is no process 999999999"),
    (["--ring", "0"], USAGE, "--ring: '0' is not more than 0"),
    (["--ring", "-1"], USAGE, "--ring: '-1' is not from 0"),
    (["--ring", "big"], USAGE, "--ring: 'big' is no number"),
    (["--output", "/proc/nowhere"], USAGE, "cannot write to /proc/nowhere"),
    (["--output", "{dir}/plain"], USAGE, "cannot write to {dir}/plain"),
]
TOP: list[Case] = [
    *GUEST,
    *TIMEOUTS,
    *DURATIONS,
    ([], USAGE, "a new guest has no objects without CMD"),
    (["--interval", "0"], USAGE, "--interval: '0' is not more than 0"),
    (["--interval", "-1"], USAGE, "--interval: '-1' is not from 0"),
    (["--interval", "often"], USAGE, "--interval: 'often' is no number"),
]
TEST: list[Case] = [
    (["nonexistent.py"], USAGE, "no such test: nonexistent.py; not in "),
    (["nonexistent"], USAGE, "no such test: nonexistent"),
    (["--quick", "{dir}/test_there.py"], USAGE, "wrong usage: --quick chooses the tests itself"),
    (["tests/unit/test_fuz.py"], USAGE, "did you mean test_fuzz?"),
    (["{dir}/my_mod"], USAGE, "{dir}/my_mod has a Kbuild; did you mean --module {dir}/my_mod?"),
    (["-x", "{dir}/my_old_mod"], USAGE, "my_old_mod has a Makefile; did you mean --module "),
    (["-x", "nonexistent"], USAGE, "no such test: nonexistent"),
    (["--tb=short", "nonexistent"], USAGE, "no such test: nonexistent"),
    (["--nonesuch", "nonexistent.py"], USAGE, "no such test: nonexistent.py"),
    (["-k", "lost", "nonexistent"], USAGE, "no such test: nonexistent"),
    (["nonexistent.py::test_one"], USAGE, "no such test: nonexistent.py::test_one"),
    (["{dir}/test_there.py::test_tow"], USAGE, "did you mean test_two?"),
    (["{dir}/test_thare.py"], USAGE, "did you mean test_there?"),
    (["--module", "a", "--module", "b"], USAGE, "--module takes one directory, not a and b"),
    (["--modulee", "{dir}"], USAGE, "unknown option --modulee; did you mean --module?"),
    (["--verify-wakups"], USAGE, "did you mean --verify-wakeups?"),
    (["{dir}/test_there.py::TestThree::test_four"], USAGE, "no such test: "),
    (["--vms", "-1"], USAGE, "--vms: -1 is not at least 0"),
    (["--vms", "many"], USAGE, "--vms: 'many' is no whole number"),
    (["--vms", "0"], USAGE, "at least one guest is needed"),
    (["--kernel", "6.66"], USAGE, "no such kernel: 6.66"),
    (["--kernel", "6.1", "--matrix"], USAGE, "--matrix: not allowed with argument --kernel"),
    (["--kdir", "{dir}/empty"], USAGE, "no kernel to boot: {dir}/empty has no .config"),
    (["--tx"], USAGE, "--tx: expected one argument"),
    (["--packages", "strace gdb"], USAGE, "'strace gdb' is no name of a Debian package"),
    (["--kernel-modules", "nfs/nfs"], USAGE, "'nfs/nfs' is no name of a kernel module"),
    (["--until-fail", "0"], USAGE, "--until-fail: 0 is not at least 1"),
    (["--until-fail", "ever"], USAGE, "--until-fail: 'ever' is no whole number"),
    (["--until-pass", "-1"], USAGE, "--until-pass: -1 is not at least 1"),
    (["--until-pass", "2", "--until-fail", "2"], USAGE, "not allowed with argument --until-pass"),
    (["--shard", "2"], USAGE, "--shard: '2' is not K/N, such as 1/4"),
    (["--shard", "1/x"], USAGE, "--shard: '1/x' is not K/N"),
    (["--shard", "0/4"], USAGE, "--shard: '0/4': K must be from 1 to N"),
    (["--shard", "5/4"], USAGE, "--shard: '5/4': K must be from 1 to N"),
    (["--origin", "my-ci"], USAGE, "--origin: 'my-ci' is not of the characters a-z 0-9 _"),
    (["--output", "/proc/nowhere"], USAGE, "cannot write to /proc/nowhere"),
    (["--output", "{dir}/plain"], USAGE, "cannot write to {dir}/plain"),
    (["--output", "{dir}"], USAGE, "{dir} has files that are not kfabric's"),
]
MERGE: list[Case] = [
    ([], USAGE, "required: DIR"),
    (["{dir}/nowhere"], USAGE, "cannot merge: {dir}/nowhere is no directory"),
    (["{dir}/plain"], USAGE, "cannot merge: {dir}/plain is no directory"),
    (["{dir}/empty"], USAGE, "cannot merge: no results: {dir}/empty"),
    (["--every", "{dir}/empty"], USAGE, "unrecognized arguments: --every"),
]
REPORT: list[Case] = [
    ([], USAGE, "required: DIR"),
    (["{dir}/nowhere"], USAGE, "no recording: {dir}/nowhere/recording.json: No such file"),
    (["{dir}/empty"], USAGE, "no recording: {dir}/empty/recording.json: No such file"),
    (["{dir}/plain"], USAGE, "no recording: {dir}/plain/recording.json: Not a directory"),
    (["{dir}/no-keys"], USAGE, "bad recording head: it has no 'tallies'"),
    (["{dir}/list"], USAGE, "bad recording head: "),
    (["{dir}/no-json"], USAGE, "{dir}/no-json cannot be read: Expecting"),
    (["{dir}/no-records"], USAGE, "no-records/recording.bin: No such file"),
    (["{dir}/broken"], USAGE, "broken record stream at byte 0"),
    (["--every", "{dir}/empty"], USAGE, "unrecognized arguments: --every"),
]
POST_MORTEM: list[Case] = [
    ([], USAGE, "required: VMCORE"),
    (["{dir}/nowhere"], USAGE, "there is no {dir}/nowhere"),
    (["{dir}/empty"], USAGE, "there is no {dir}/empty/vmcore"),
    (["{dir}/dump"], SETUP, "{dir}/dump/vmcore.json is not there"),
]
REPLAY: list[Case] = [
    ([], USAGE, "required: DIR"),
    (["{dir}/nowhere"], USAGE, "{dir}/nowhere has no execution"),
    (["{dir}/empty"], USAGE, "{dir}/empty has no execution"),
    (["{dir}/empty", "--timeout", "0"], USAGE, "--timeout"),
    (["{dir}/empty", "--back-to", "call 0 of f"], USAGE, "'call 0 of f' is not like 'last call"),
    (["{dir}/empty", "--back-to", "f"], USAGE, "--back-to: 'f' is not like 'last call of f'"),
]
FUZZ: list[Case] = [
    (["--calls", "-5"], USAGE, "--calls: -5 is not at least 1"),
    (["--calls", "0"], USAGE, "--calls: 0 is not at least 1"),
    (["--calls", "1e6"], USAGE, "--calls: '1e6' is no whole number"),
    (["--processes", "0"], USAGE, "--processes: 0 is not from 1"),
    (["--seed", "-1"], USAGE, "--seed: -1 is not at least 0"),
    (["--seed", "x"], USAGE, "--seed: 'x' is no whole number"),
    (["--times", "0", "--replay", "{dir}/plain"], USAGE, "--times: 0 is not at least 1"),
    (["--replay"], USAGE, "--replay: expected at least one argument"),
    (["--replay", "{dir}/nowhere"], USAGE, "--replay: there is no file '{dir}/nowhere'"),
    (["--replay", "{dir}/plain"], USAGE, "{dir}/plain is no program: "),
    (["--replay", "{dir}/bytes"], USAGE, "{dir}/bytes is no program: "),
    (["--replay", "{dir}/plain", "--distil"], USAGE, "not allowed with argument --replay"),
    (["--kernel", "6.66"], USAGE, "no such kernel: 6.66"),
    (["--variant", "both"], USAGE, "--variant: invalid choice: 'both'"),
    (["--output", "{dir}/plain/fuzz"], USAGE, "cannot write to {dir}/plain/fuzz"),
]
GALLERY: list[Case] = [
    (["nonesuch"], USAGE, "no such entry: nonesuch; there are "),
    (["baton-singal"], USAGE, "did you mean baton-signal?"),
    (["--rounds", "-1"], USAGE, "--rounds: -1 is not at least 0"),
    (["--rounds", "all"], USAGE, "--rounds: 'all' is no whole number"),
    (["--healthy", "sick"], USAGE, "--healthy: invalid choice: 'sick'"),
    (["--output", "{dir}/plain"], USAGE, "cannot write to {dir}/plain"),
]
LOADED = "--variant test -- sh -c 'python3 -m kfabric.guest.ready"
OTHERS: dict[str, list[Case]] = {
    "demo": [
        (["--fault", "bad"], USAGE, "--fault: invalid choice: 'bad' (choose from 'lost', "),
        (["--messages", "1"], USAGE, "--messages: 1 is not at least 2"),
        (["--messages", "many"], USAGE, "--messages: 'many' is no whole number"),
        (["--output", "/proc/nowhere"], USAGE, "cannot write to /proc/nowhere"),
        (["--output", "{dir}"], USAGE, "{dir} has files that are not kfabric's"),
        (["lost"], USAGE, "unrecognized arguments: lost"),
    ],
    "bench": [
        (["--output", "/proc/nowhere"], USAGE, "cannot write to /proc/nowhere"),
        (["fast"], USAGE, "action: invalid choice: 'fast' (choose from 'measure', 'gate', "),
        (["gate", "{dir}"], USAGE, "there is no file"),
        (["compare"], USAGE, "compare takes two reports, and nothing else takes any"),
        (["--update"], USAGE, "--update is for gate"),
    ],
    "shell": [
        ([], USAGE, f"is not a terminal; use kfabric run {LOADED} && CMD'"),
        (["--cpus", "0"], USAGE, "--cpus: 0 is not from 1"),
    ],
    "modules": [
        (["--variant", "both"], USAGE, "--variant: invalid choice: 'both'"),
        (["--kernel", "6.66"], USAGE, "no such kernel: 6.66"),
        (["verbs"], USAGE, "unrecognized arguments: verbs"),
    ],
    "vm": [
        ([], USAGE, "required: action"),
        (["destroy"], USAGE, "invalid choice: 'destroy' (choose from 'build', 'list', 'clean')"),
        (["build", "--kernel", "6.66"], USAGE, "no such kernel: 6.66"),
        (["build", "--packages", "a b"], USAGE, "'a b' is no name of a Debian package"),
    ],
    "prove": [
        (["--mode", "fast"], USAGE, "--mode: invalid choice: 'fast'"),
        (["--bound", "-1"], USAGE, "--bound: -1 is not from 0 to 99"),
        (["--seconds", "0"], USAGE, "--seconds: '0' is not more than 0"),
        (["--file", "none.c"], USAGE, "--file: there is no file 'none.c'"),
        (["--mode", "pct", "--bound", "2"], USAGE, "--bound is for the mode bound, not pct"),
        (["--replay", "0x1"], USAGE, "--replay needs one scenario and one memory model"),
        (["cq-one-reader", "--results"], USAGE, "--results is for all scenarios of kfabric"),
    ],
    "mutants": [
        (["nonesuch"], USAGE, "no such mutant: nonesuch; see tests/mutants"),
        (["nonesuch-*"], USAGE, "no such mutant: nonesuch-*"),
        (["--jobs", "0"], USAGE, "--jobs: 0 is not at least 1"),
        (["--jobs", "all"], USAGE, "--jobs: 'all' is no whole number"),
        (["--limit", "0"], USAGE, "--limit: '0' is not more than 0"),
    ],
    "share": [
        (["--limit", "-1"], USAGE, "--limit: '-1' is not from 0"),
        (["--limit", "hour"], USAGE, "--limit: 'hour' is no number"),
        (["half"], USAGE, "unrecognized arguments: half"),
    ],
    "docs": [
        (["--fast"], USAGE, "unrecognized arguments: --fast"),
        (["README.md"], USAGE, "unrecognized arguments: README.md"),
    ],
    "setup": [
        (["host"], USAGE, "unrecognized arguments: host"),
        (["--force"], USAGE, "unrecognized arguments: --force"),
    ],
    "new": [
        ([], USAGE, "required: NAME"),
        (["a b"], USAGE, "'a b' is no name for a module"),
        (["1st"], USAGE, "'1st' is no name for a module"),
        (["../a"], USAGE, "../a is a path, not a name"),
        (["while"], USAGE, "while is a keyword of C"),
        (["m" * 56], USAGE, "has 56 letters; the limit is 55"),
        (["a", "--kfabrik"], USAGE, "unrecognized arguments: --kfabrik"),
    ],
    "check": [
        (["mypi"], USAGE, "no such check: mypi; did you mean mypy?"),
        (["xyzzy"], USAGE, "no such check: xyzzy; there are ruff, "),
        (["--fix"], USAGE, "unrecognized arguments: --fix"),
    ],
}


def of(command: str, cases: Sequence[Case], tail: Sequence[str] = ()) -> list[Case]:
    """Cases of a subcommand; those with any words get its CMD, too."""
    return [
        ([command, *words, *(tail if words else ())], status, text) for words, status, text in cases
    ]


CASES: list[Case] = [
    *COMMANDS,
    *of("run", RUN, TRUE),
    *of("trace", [case for case in TRACE if case[0] != ["--here"]], TRUE),
    *of("trace", [case for case in TRACE if case[0] == ["--here"]]),
    *of("top", TOP, TRUE),
    *of("test", TEST),
    *of("merge", MERGE),
    *of("report", REPORT),
    *of("post-mortem", POST_MORTEM),
    *of("replay", REPLAY),
    *of("fuzz", FUZZ),
    *of("gallery", GALLERY),
    *(case for command, cases in OTHERS.items() for case in of(command, cases)),
]


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would build, boot or start a program fails the test."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("something was built, booted or started")

    monkeypatch.setattr(image, "ensure", refuse)
    monkeypatch.setattr(kbuild, "ensure", refuse)
    monkeypatch.setattr(accel, "choose", refuse)
    monkeypatch.setattr(Vm, "start", refuse)
    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("KFABRIC_KERNEL", "KFABRIC_PACKAGES", "KFABRIC_KERNEL_MODULES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with files that are not what they should be."""
    place = tmp_path_factory.mktemp("bad")
    good = json.dumps(head_of(Recording(())))
    heads = {"no-keys": "{}", "list": "[]", "no-json": "?", "no-records": good, "broken": good}
    for name in ("empty", "dump", *heads):
        (place / name).mkdir()
    for name, head in heads.items():
        (place / name / "recording.json").write_text(head)
        if name != "no-records":
            (place / name / "recording.bin").write_bytes(b"\xff" if name == "broken" else b"")
    (place / "dump/vmcore").write_text("")
    for name, file in (("my_mod", "Kbuild"), ("my_old_mod", "Makefile")):
        (place / name).mkdir()
        (place / name / file).write_text("obj-m += my_mod.o\n")
    (place / "plain").write_text("plain text\n")
    (place / "bytes").write_bytes(b"\xff\xfe")
    (place / "test_there.py").write_text("def test_one(): ...\ndef test_two(): ...\n")
    return place


def called(argv: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """The exit status and the output of `kfabric` with these words."""
    try:
        status: Any = cli.main(argv)
    except SystemExit as end:
        status = end.code
    return status, *capsys.readouterr()


@pytest.mark.parametrize(("words", "status", "text"), CASES, ids=[" ".join(c[0]) for c in CASES])
def test_bad_input_is_one_line_with_its_status(
    words: list[str],
    status: ExitStatus,
    text: str,
    place: Path,
    nothing_runs: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At once: nothing is built, booted or started."""
    argv = [word.replace("{dir}", str(place)) for word in words]
    found, out, err = called(argv, capsys)
    assert (found, out) == (status, "")
    assert err.startswith("kfabric") and err.count("\n") == 1, err
    assert text.replace("{dir}", str(place)) in err


def test_directory_of_results_is_used_again(tmp_path: Path) -> None:
    """One that is new or empty becomes one; files of the user are never mixed with ours."""
    new, full = tmp_path / "new", tmp_path / "full"
    full.mkdir()
    (full / "out").write_text("the user's")
    assert results_directory(new, tmp_path) == new
    (new / "console.log").write_text("a result")
    assert results_directory(new, tmp_path) == new
    with pytest.raises(UsageError, match="has files that are not kfabric's"):
        results_directory(full, tmp_path)
    assert [path.name for path in full.iterdir()] == ["out"]
    assert results_directory(None, full) == results_directory(full, full) == full


def test_many_bad_inputs_of_every_command_are_tried() -> None:
    """The table does not shrink unseen."""
    assert len({tuple(case[0]) for case in CASES}) >= 80
    assert {case[0][0] for case in CASES} >= set(cli.COMMANDS)


@pytest.mark.parametrize(
    ("name", "value", "status", "text"),
    [
        ("KFABRIC_KERNEL", "6.66", USAGE, "6.66, which $KFABRIC_KERNEL names"),
        ("KFABRIC_KERNEL", "/nowhere", USAGE, "no kernel to boot: /nowhere is no directory"),
        ("KFABRIC_PACKAGES", "Strace", USAGE, "'Strace' is no name of a Debian package"),
        ("KFABRIC_KERNEL_MODULES", "a b", USAGE, "'a b' is no name of a kernel module"),
        ("XDG_CACHE_HOME", "/proc", SETUP, "cannot make /proc/kfabric: No such file"),
        ("XDG_CACHE_HOME", "/dev/null", SETUP, "cannot make /dev/null/kfabric: Not a directory"),
        ("XDG_CACHE_HOME", "/tmp/a b", SETUP, "cannot handle a character in /tmp/a b/kfabric"),
    ],
)
def test_bad_environment_is_one_line_with_its_status(
    name: str,
    value: str,
    status: ExitStatus,
    text: str,
    nothing_runs: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The cache's directory is made before anything else."""
    monkeypatch.setenv(name, value)
    found, out, err = called(["run", *TRUE], capsys)
    assert (found, out) == (status, "")
    assert err.startswith("kfabric: ") and err.count("\n") == 1 and text in err


def test_checkout_with_a_space_in_its_path_is_refused(tmp_path: Path) -> None:
    """By the set-up, before it makes anything."""
    place = tmp_path / "a checkout"
    (place / "vm").mkdir(parents=True)
    shutil.copy(ROOT / "vm/bootstrap.sh", place / "vm")
    done = subprocess.run(
        ["sh", "vm/bootstrap.sh", "host"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (SETUP, "")
    assert done.stderr.count("\n") == 1 and f"a character in {place};" in done.stderr
    assert not (place / "build").exists()


@pytest.fixture
def parser_of(
    monkeypatch: pytest.MonkeyPatch, nothing_runs: None
) -> Callable[[str], argparse.ArgumentParser]:
    """Finds the parser of a subcommand."""

    def find(name: str) -> argparse.ArgumentParser:
        found: list[argparse.ArgumentParser] = []

        def parse(self: Parser, *_: object) -> NoReturn:
            found.append(self)
            raise SystemExit

        monkeypatch.setattr(Parser, "parse_known_args", parse)
        with pytest.raises(SystemExit):
            cli.main([name])
        return found[0]

    return find


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_states_defaults_and_choices_without_markup(
    name: str, parser_of: Callable[[str], argparse.ArgumentParser]
) -> None:
    """Of each option with a value; those that may be repeated have none at first."""
    parser = parser_of(name)
    text = parser.format_help()
    assert "`" not in text and ":mod:" not in text and ":class:" not in text
    formatter = parser.formatter_class(prog=parser.prog)
    for action in parser._actions:
        shown = formatter._get_help_string(action) or ""
        assert shown, action
        for choice in action.choices or ():
            assert action.metavar is None or str(choice) in shown, action
        if action.option_strings and action.nargs != 0 and action.default != []:
            assert "default: " in shown and "default: 0" not in shown, action


def test_lines_of_a_table_have_no_trailing_blanks() -> None:
    """Unless it goes to a terminal."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("first")
    table.add_column("second")
    table.add_row("a", "")
    console = Console(file=io.StringIO(), width=80)
    tables.show(console, table)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert [line for line in lines if "first" in line or "a" in line]
    assert lines == [line.rstrip() for line in lines]


def test_top_builds_the_modules_for_its_guest(nothing_runs: None) -> None:
    """A guest without them has no objects to show."""
    assert top._parse(TRUE).variant == "prod"
