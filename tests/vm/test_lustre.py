# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The command of examples/lustre, with a tree that stands in for Lustre's (tests/data/lustre)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from kfabric.root import ROOT, python_path
from kfabric.vm import cache

STAND_IN = ROOT / "tests/data/lustre"
SECONDS = 900.0


@pytest.fixture
def lustre(tmp_path: Path) -> Iterator[Path]:
    """A tree of the test's own, whose built copy goes with it."""
    place = tmp_path / "lustre"
    shutil.copytree(STAND_IN, place)
    yield place
    shutil.rmtree(ROOT / "build/lustre" / cache.key([bytes(place)]))


def lnet(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; its output is shown, too."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples/lustre/lnet.py", *words],
        env={**os.environ, "PYTHONPATH": python_path(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    print(done.stdout, done.stderr)
    return done


def files(tree: Path) -> dict[Path, bytes]:
    """What is in a tree."""
    return {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def test_network_is_built_measured_and_watched(lustre: Path) -> None:
    """The table has the selftest's figures, each side has a verdict, and the tree stays."""
    before = files(lustre)
    done = lnet(lustre, "--net", "kfi", "--seconds", "1")
    # The modules of the tree sleep nowhere: nothing could be judged.
    assert done.returncode in (ExitStatus.OK, ExitStatus.NOT_VERIFIED)
    assert [line for line in done.stdout.splitlines() if line.startswith("kfi  ")] == [
        "kfi         2.50      1.25"
    ]
    for side in ("lnet0", "lnet1"):
        assert f"kfi in {side}: " in done.stdout
    assert files(lustre) == before


def test_data_that_differ_are_an_error(lustre: Path) -> None:
    """Nothing is measured then, and the program's own words are shown."""
    lst = lustre / "lnet/utils/lst.sh"
    lst.write_text(lst.read_text().replace("Total 0", "Total 1"))
    done = lnet(lustre, "--net", "tcp", "--seconds", "1")
    assert done.returncode == ExitStatus.TEST_FAILED
    assert "LNet failed: tcp in lnet0 has ended" in done.stderr
    assert "Total 1 error nodes in ours" in done.stderr
    assert "MiB/s" not in done.stdout


def test_failure_of_the_build_is_shown(lustre: Path) -> None:
    """With what the tree's own script has printed."""
    (lustre / "configure.in").write_text("#!/bin/sh\necho no such header\nexit 1\n")
    done = lnet(lustre, "--net", "tcp")
    assert done.returncode == ExitStatus.SETUP
    assert "no such header" in done.stderr
    assert "./configure failed in " in done.stderr


def test_directory_without_lustre_is_refused(tmp_path: Path) -> None:
    """At once."""
    done = lnet(tmp_path)
    assert done.returncode == ExitStatus.USAGE
    assert f"no source tree of Lustre: {tmp_path} has no autogen.sh" in done.stderr
