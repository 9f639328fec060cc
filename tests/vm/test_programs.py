# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The tracer is compiled in the first guest only, and a spoilt cache is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kfabric.trace.summary import SUMMARY, Summary, decode
from kfabric.vm import accel, prepare
from kfabric.vm.machine import Vm
from kfabric.vm.spec import VmSpec

SECONDS = 240.0
COMPILED, LOADED = "compile and load", "load"
SLOW = "kfabric: the tracer is loading\n"
"""Shown on a busy host, and nothing that these tests are about."""

Trace = Callable[..., tuple[Summary, str]]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, empty."""
    place = tmp_path / "programs"
    monkeypatch.setattr(Vm, "_programs", place)
    return place


@pytest.fixture
def trace(programs: Path, tmp_path: Path) -> Trace:
    """Trace a command in a new guest; the summary, and standard error."""
    image = prepare.guest_image()
    choice = accel.choose(image).accel

    def run(name: str, *options: str) -> tuple[Summary, str]:
        vm = Vm(VmSpec(name=name), image, choice, tmp_path / name, prepare.SOURCE)
        with vm:
            place = vm.out / "trace"
            argv = ["python3", "-m", "kfabric.trace.guest", f"--output={place}", *options]
            done = vm.run([*argv, "--", "ls", "/"], timeout=SECONDS)
            assert done.rc == 0, done.err
            summary = decode(json.loads((place / SUMMARY).read_text()))
        return summary, done.err.decode().replace(SLOW, "")

    return run


def test_only_the_first_guest_compiles(trace: Trace) -> None:
    """The second loads the same program with another scope, without stacks, in other rings."""
    first, said = trace("one")
    assert said.startswith("kfabric: probes: compiling; ")
    assert COMPILED in first.steps
    assert LOADED not in first.steps
    second, said = trace("two", "--module=ext4", "--event=vfs_read", "--no-stacks", "--ring=4")
    assert LOADED in second.steps
    assert COMPILED not in second.steps
    assert said == ""
    assert first.rows


def test_damaged_program_is_compiled_again_and_replaced(trace: Trace, programs: Path) -> None:
    """A line says so, and the next guest has a sound one."""
    trace("one")
    (kept,) = programs.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole.replace(b'"code": "', b'"code": "00', 1))
    damaged, said = trace("two")
    assert COMPILED in damaged.steps
    assert "is not used: it is damaged" in said
    sound, said = trace("three")
    assert LOADED in sound.steps
    assert said == ""
