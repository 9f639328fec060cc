# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The text about a dump, and the files to read one; tests/debug reads a real one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kfabric.errors import SetupError, UsageError
from kfabric.postmortem import command, dump, show
from kfabric.postmortem.show import Panic, Queue, Sleeper, Thread

READER = Thread(41, "reader", "S", ("schedule", "kfi_waitq_sleep [kfabric]"))
PANIC = Panic("6.1.1-debug", "Kernel panic - not syncing: no reason")
TITLE = "linux 6.1.1-debug: Kernel panic - not syncing: no reason"


def test_queue_is_followed_by_its_sleepers_and_their_stacks() -> None:
    queue = Queue("CQ", 7, 0, 12, (Sleeper(READER, 1, 12),), foreign=1)
    assert show.lines(PANIC, [queue], [READER]) == [
        TITLE,
        "CQ 7: 1 waiting, nothing ready, 12 publications, 1 entries of others",
        "    thread reader/41 sleeps; last looked after publication 12",
        "      schedule",
        "      kfi_waitq_sleep [kfabric]",
    ]


def test_sleeper_beside_something_ready_is_pointed_at() -> None:
    """A lost wake-up looks like that."""
    queue = Queue("wait set", 2, 1, 3, (Sleeper(READER, 0, 2),), readable=("CQ 4",))
    found = show.lines(PANIC, [queue], [])
    assert found[1] == "wait set 2: 1 waiting, 1 ready (CQ 4), 3 publications"
    assert found[2].endswith("THOUGH SOMETHING IS READY")


def test_who_waits_for_more_than_there_is_may_sleep() -> None:
    """A read of eight entries, or a threshold, is not due yet."""
    found = show.lines(PANIC, [Queue("CQ", 2, 1, 3, (Sleeper(READER, 8, 2),))], [])
    assert found[2] == "    thread reader/41 sleeps for 8; last looked after publication 2"


def test_thread_that_panicked_is_told_first_and_once() -> None:
    thread = Thread(43, "sh", "R", ("panic", "kfi_oops [kfabric]"))
    found = show.lines(Panic("6.1.1-debug", "why", thread), [], [thread])
    assert found[1:] == [
        "    thread sh/43 runs",
        "      panic",
        "      kfi_oops [kfabric]",
        show.NOTHING,
    ]


def test_threads_on_no_queue_come_last() -> None:
    other = Thread(42, "rmmod", "D", ("kfi_exit [kfabric]",))
    found = show.lines(PANIC, [Queue("EQ", 1, 0, 1)], [other])
    assert found[1:] == [
        "EQ 1: no thread waiting, nothing ready, 1 publication",
        "on none of these queues:",
        "    thread rmmod/42 sleeps, deaf to signals",
        "      kfi_exit [kfabric]",
    ]


def test_what_cannot_be_read_is_said() -> None:
    """The kernel may have been in the middle of anything."""
    found = show.lines(PANIC, [], [], ["queue 3: no such memory"])
    assert found == [TITLE, show.NOTHING, "not readable: queue 3: no such memory"]


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """A dump of a kernel that is in the cache, and of modules that were built for it."""
    kernel = tmp_path / "kernels/debug-1"
    place = tmp_path / "modules/src/kmod"
    for directory in (kernel, place, tmp_path / "guest"):
        directory.mkdir(parents=True)
    (kernel / "vmlinux.debug").touch()
    (kernel / "release").write_text("6.1.1-debug\n")
    (place / "kfabric.ko").touch()
    about = {"release": "6.1.1-debug", "modules": [str(tmp_path / "modules")]}
    (tmp_path / "guest/vmcore").touch()
    (tmp_path / "guest/vmcore.json").write_text(json.dumps(about))
    return tmp_path / "guest/vmcore"


def test_kernel_and_modules_with_their_types_are_found(core: Path, tmp_path: Path) -> None:
    """By the release: several kernels may have been built."""
    assert command.debug_files(core, tmp_path / "kernels") == [
        tmp_path / "kernels/debug-1/vmlinux.debug",
        tmp_path / "modules/src/kmod/kfabric.ko",
    ]


def test_dump_of_another_kernel_is_refused(core: Path, tmp_path: Path) -> None:
    """A stock one, say: nobody here has its types."""
    (tmp_path / "kernels/debug-1/release").write_text("6.1.2-debug\n")
    with pytest.raises(SetupError, match=r"no vmlinux\.debug for 6\.1\.1-debug") as error:
        command.debug_files(core, tmp_path / "kernels")
    assert "--kernel debug" in error.value.hint


def test_modules_that_are_gone_are_an_error(core: Path, tmp_path: Path) -> None:
    """And no list of threads in which the interesting ones are missing."""
    (tmp_path / "modules/src/kmod/kfabric.ko").unlink()
    with pytest.raises(SetupError, match="has no modules any more"):
        command.debug_files(core, tmp_path / "kernels")


def test_missing_dump_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no .*vmcore"):
        command.debug_files(tmp_path / "vmcore", tmp_path)


def test_dump_that_was_not_finished_is_an_error(core: Path, tmp_path: Path) -> None:
    (tmp_path / "guest/vmcore.json").unlink()
    with pytest.raises(SetupError, match=r"vmcore\.json is not there"):
        command.debug_files(core, tmp_path / "kernels")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"release": "6.1", "modules": 1}'])
def test_broken_description_is_an_error(core: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "guest/vmcore.json").write_text(text)
    with pytest.raises(SetupError, match=r"vmcore\.json is not as it was written"):
        command.debug_files(core, tmp_path / "kernels")


def test_missing_drgn_is_an_error(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra of the installed tool."""
    monkeypatch.setitem(sys.modules, "drgn", None)
    with pytest.raises(SetupError, match="drgn is not installed") as caught:
        dump.open_dump(core, [])
    assert caught.value.hint == "pip install 'kfabric[post-mortem]'"
