# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What `kfabric new` writes builds, passes, and notices the bug that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from tests.vm import commands

RUN_SECONDS = 400.0

each_kind = pytest.mark.parametrize("options", [(), ("--kfabric",)], ids=["plain", "kfabric"])


def kfabric(place: Path, *words: str) -> commands.Done:
    """Run a command in a directory."""
    return commands.kfabric(*words, seconds=RUN_SECONDS, cwd=place)


def files(place: Path) -> dict[Path, bytes]:
    """All files below a directory."""
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


@each_kind
def test_new_module_builds_and_passes_at_once(tmp_path: Path, options: tuple[str, ...]) -> None:
    """With the command that is printed; nothing is written below the directory."""
    done = kfabric(tmp_path, "new", "my-mod", *options)
    assert done.returncode == ExitStatus.OK
    before = files(tmp_path)
    _, _, *command = done.stdout.splitlines()[-1].split()
    assert command == ["test", "--module", "my-mod"]
    own = [f"--kfabric-dir={tmp_path}/guests", f"--junitxml={tmp_path}/junit.xml"]
    done = kfabric(tmp_path, *command, "--vms=1", *own)
    assert done.returncode == ExitStatus.OK
    assert "2 passed" in done.stdout
    assert files(tmp_path / "my-mod") == before


def test_its_test_notices_a_reader_that_is_not_woken(tmp_path: Path) -> None:
    """The only wake-up is gone."""
    kfabric(tmp_path, "new", "my_mod")
    source = tmp_path / "my_mod/my_mod.c"
    text = source.read_text()
    wake = "\twake_up_interruptible(&my_mod_readers);\n"
    assert wake in text
    source.write_text(text.replace(wake, ""))
    own = [f"--kfabric-dir={tmp_path}/guests", f"--junitxml={tmp_path}/junit.xml"]
    done = kfabric(tmp_path, "test", "--module", "my_mod", "--vms=1", *own)
    assert done.returncode == ExitStatus.TEST_FAILED
    assert (
        "test_reader_wakes_up" in done.stdout and "the call has not returned after " in done.stdout
    )


def test_trace_of_a_directory_is_of_the_module_in_it(tmp_path: Path) -> None:
    """It is built and loaded, and its queue is in the table: a signal ends the only read."""
    kfabric(tmp_path, "new", "my_mod")
    command = ("sh", "-c", "timeout 1 head -c 1 /dev/my_mod; true")
    output = f"--output={tmp_path}/trace"
    done = kfabric(tmp_path, "trace", "--module", "./my_mod", output, "--", *command)
    assert done.returncode == ExitStatus.OK
    assert "my_mod_readers [my_mod]" in done.stderr
