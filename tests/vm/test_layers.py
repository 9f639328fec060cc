# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests with packages and kernel modules that their image does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from kfabric.vm import layer, prepare
from kfabric.vm.layer import NoSuchModule
from kfabric.vm.spec import Extras
from tests.vm.commands import kfabric

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


def test_guest_has_the_package_and_the_module() -> None:
    words = ["--packages=strace", "--kernel-modules=null_blk"]
    done = kfabric("run", *words, "--", "sh", "-euc", BOTH, seconds=SECONDS)
    assert done.returncode == ExitStatus.OK
    assert done.stdout.startswith("hello\n")
    assert 'write(1, "hello\\n", 6)' in done.stdout


def test_module_to_load_is_put_into_the_image(tmp_path: Path) -> None:
    """No other option is needed."""
    directory = tmp_path / "theirs"
    directory.mkdir()
    (directory / "test_null.py").write_text(TESTS)
    words = ["--vms=1", f"--junitxml={tmp_path}/junit.xml", f"--kfabric-dir={tmp_path}/guests"]
    words += ["--modprobe=null_blk", "--", "test_null.py"]
    done = kfabric("test", *words, seconds=SECONDS, cwd=directory)
    assert done.returncode == ExitStatus.OK
    assert "1 passed" in done.stdout
