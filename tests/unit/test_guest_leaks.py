# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a test leaves behind is counted without the harness's own share, and is named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kfabric.guest import leaks, modules
from kfabric.guest.session import Session

FIRST = "cq id=13 parent=12 set=0 pid=156 comm=python3 waits=0 asleep=1\n"
SECOND = "cq id=21 parent=12 set=0 pid=812 comm=my\\040ulp waits=4 asleep=0\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with kfabric loaded, nothing of it used, and no RDMA links."""
    module = tmp_path / "module/kfabric"
    (module / "holders").mkdir(parents=True)
    (module / "refcnt").write_text("0\n")
    (tmp_path / "objects").write_text(FIRST)
    monkeypatch.setattr(modules, "SYS_MODULE", str(tmp_path / "module"))
    monkeypatch.setattr(leaks, "OBJECTS", tmp_path / "objects")
    monkeypatch.setattr(leaks, "INFINIBAND", str(tmp_path / "none"))
    monkeypatch.setattr(modules, "_own_references", [])
    return tmp_path


def watched_by(references: int, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session whose probe holds this many references to kfabric."""
    session = Session()
    recorder: Any = SimpleNamespace(probe=SimpleNamespace(references=references))
    monkeypatch.setattr(session, "_recorder", recorder)
    return session


def test_references_of_the_probe_are_no_leak(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe of --verify-wakeups was attached after the first census."""
    before = leaks.take()
    (system / "module/kfabric/refcnt").write_text("8\n")
    watched_by(8, monkeypatch)
    assert leaks.since(before, deadline=0.0) == []


def test_probe_that_lets_go_hides_no_leak(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three references of a test stay although the probe has dropped its eight."""
    (system / "module/kfabric/refcnt").write_text("8\n")
    session = watched_by(8, monkeypatch)
    before = leaks.take()
    monkeypatch.setattr(session, "_recorder", None)
    (system / "module/kfabric/refcnt").write_text("3\n")
    assert leaks.since(before, deadline=0.0) == ["users of kfabric: 0 before, 3 after"]


def test_leaked_object_is_named_with_its_opener(system: Path) -> None:
    """Class, id, process; an object that was there before is not named."""
    before = leaks.take()
    (system / "objects").write_text(FIRST + SECOND)
    assert leaks.since(before, deadline=0.0) == [
        "kfabric's objects of class cq: 1 before, 2 after (cq 21, opened by my ulp/812)"
    ]


def test_many_leaked_objects_are_counted(system: Path) -> None:
    """The first five have names."""
    before = leaks.take()
    more = [SECOND.replace("id=21", f"id={number}") for number in range(21, 28)]
    (system / "objects").write_text(FIRST + "".join(more))
    (line,) = leaks.since(before, deadline=0.0)
    assert line.count("opened by my ulp/812") == 5
    assert line.endswith(" and 2 more)")


def test_sleeper_is_named_by_its_object(system: Path) -> None:
    """A thread that still sleeps keeps the object, whose line says where it is."""
    (system / "objects").write_text(FIRST.replace("asleep=1", "asleep=0"))
    before = leaks.take()
    (system / "objects").write_text(FIRST)
    assert leaks.since(before, deadline=0.0) == [
        "threads asleep on kfabric's objects: 0 before, 1 after (cq 13, opened by python3/156)"
    ]
