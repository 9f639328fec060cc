# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests with packages and kernel modules that their image does not have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from kfabric.root import python_path
from kfabric.vm import layer, prepare
from kfabric.vm.layer import NoSuchModule
from kfabric.vm.spec import Extras

ROOT = Path(__file__).parents[2]
KFABRIC = [sys.executable, "-m", "kfabric.cli"]
# The first use of each addition builds a layer.
SECONDS = 900.0
BOTH = """
modprobe null_blk nr_devices=1
test -b /dev/nullb0
strace -o /tmp/calls -e trace=write echo hello
cat /tmp/calls
"""
TESTS = """
from pathlib import Path


def test_module_is_loaded(module):
    assert module.loaded == ("null_blk",)
    assert Path("/dev/nullb0").is_block_device()
    module.unload()
    assert not Path("/dev/nullb0").exists()
"""


@pytest.fixture(scope="module", autouse=True)
def _kernel_has_the_module() -> None:
    try:
        layer.lacking(prepare.guest_image(), Extras(modules=("null_blk",)))
    except NoSuchModule as error:
        pytest.skip(error.line())


def run(*words: str, cwd: Path = ROOT) -> tuple[int, str]:
    """The exit status and the standard output of `kfabric`."""
    done = subprocess.run(
        [*KFABRIC, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": python_path(ROOT)},
        timeout=SECONDS,
        check=False,
    )
    print(done.stdout)
    return done.returncode, done.stdout


def test_guest_has_the_package_and_the_module() -> None:
    words = ["--packages=strace", "--kernel-modules=null_blk"]
    status, output = run("run", *words, "--", "sh", "-euc", BOTH)
    assert status == ExitStatus.OK
    assert output.startswith("hello\n")
    assert 'write(1, "hello\\n", 6)' in output


def test_module_to_load_is_put_into_the_image(tmp_path: Path) -> None:
    """No other option is needed."""
    directory = tmp_path / "theirs"
    directory.mkdir()
    (directory / "test_null.py").write_text(TESTS)
    words = ["--vms=1", f"--junitxml={tmp_path}/junit.xml", f"--kfabric-dir={tmp_path}/guests"]
    status, output = run("test", "--modprobe=null_blk", *words, "--", "test_null.py", cwd=directory)
    assert status == ExitStatus.OK
    assert "1 passed" in output
