# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compiles the checkout's Python for the Python of the guests, which cannot write it.

Under TCG that takes ten times as long, in each guest. A guest of another suite has
another Python than the host, whose bytecode it cannot use; the build root has it.
"""

from __future__ import annotations

import compileall
import contextlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from harness.vm import apt, supply
from harness.vm.headers import Headers
from harness.vm.spec import Image

PACKAGES = ("harness", "kfabric_py")
SECONDS = 300.0
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def packages(source: Path, image: Image) -> None:
    """Compile what tests and agent import of the checkout."""
    headers = _headers(source, image)
    if headers.at_home:
        for package in PACKAGES:
            compileall.compile_dir(source / package, quiet=2)
        return
    paths = [str(source / package) for package in PACKAGES]
    _run(headers, source, source, ["python3", "-m", "compileall", "-qq", *paths])


def tests(source: Path, image: Image, paths: Sequence[str], directory: Path) -> None:
    """Compile tests.

    It is pytest's own kind of bytecode, with rewritten assertions, so pytest has to
    make it. What goes wrong here goes wrong in the guest too, and is reported there.

    :param paths: for pytest, relative to ``directory``.
    """
    headers = _headers(source, image)
    python = sys.executable if headers.at_home else "python3"
    argv = [python, "-m", "pytest", "-p", "harness.runner.plugin", "-p", "no:cacheprovider"]
    # Those that are not plain Python are for the host's.
    argv += [] if headers.at_home else ["-p", "no:hypothesispytest"]
    _run(headers, source, directory, [*argv, "--collect-only", "-q", *paths])


def _headers(source: Path, image: Image) -> Headers:
    if image.version.suite == apt.SUITE:
        return Headers(Path("/"))
    return supply.of(source, image.version, lambda line: None).headers(image.release)


def _run(headers: Headers, source: Path, directory: Path, argv: Sequence[str]) -> None:
    """Run Python where guests have the same, with the packages of our own environment."""
    own = [str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
    # They are plain Python, so any Python takes them.
    own += [] if headers.at_home else [sysconfig.get_path("purelib")]
    inside = ["sh", "-euc", 'cd "$0"; exec "$@"', str(directory), *argv]
    env = {name: text for name, text in os.environ.items() if name != _NO_BYTECODE}
    # Without bytecode all is slower, and no more: a host that is too busy to compile
    # may still test.
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            headers.command(inside, source),
            env={**env, "PYTHONPATH": os.pathsep.join(own)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
