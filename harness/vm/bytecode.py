# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compiles the checkout's Python for the guests' Python: guests cannot write bytecode.

Each guest would have to compile it again, ten times as slowly under TCG. A guest of another
suite has another Python, whose bytecode only the build root's Python can write.
"""

import compileall
import contextlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from kfabric.root import python_path
from kfabric.vm import apt, supply
from kfabric.vm.headers import Headers
from kfabric.vm.spec import Image

FOLDERS = ("harness", "kfabric_py")
SECONDS = 300.0
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


def packages(source: Path, image: Image) -> None:
    """Compile the checkout's packages for tests and agent."""
    headers = _headers(source, image)
    paths = [str(source / folder) for folder in FOLDERS]
    if headers.at_home:
        for path in paths:
            compileall.compile_dir(path, quiet=2)
    else:
        _run(headers, source, source, ["python3", "-m", "compileall", "-qq", *paths])


def tests(source: Path, image: Image, paths: Sequence[str], directory: Path) -> None:
    """Compile tests; ``paths`` are pytest's, relative to ``directory``.

    pytest itself does it, since its bytecode has rewritten assertions. Errors are ignored
    here: they occur in the guest again, and are reported there.
    """
    headers = _headers(source, image)
    python = sys.executable if headers.at_home else "python3"
    argv = [python, "-m", "pytest", "-p", "kfabric.runner.plugin", "-p", "no:cacheprovider"]
    # Plugins with compiled parts only load in the host's Python.
    argv += [] if headers.at_home else ["-p", "no:hypothesispytest"]
    _run(headers, source, directory, [*argv, "--collect-only", "-q", *paths])


def _headers(source: Path, image: Image) -> Headers:
    if image.version.suite == apt.SUITE:
        return Headers(Path("/"))
    return supply.of(source, image.version, lambda line: None).headers(image.release)


def _run(headers: Headers, source: Path, directory: Path, argv: Sequence[str]) -> None:
    """Run the guests' Python with the packages of our own environment."""
    own = [python_path(source), *filter(None, [os.environ.get("PYTHONPATH")])]
    # These packages are pure Python, so any Python can import them.
    own += [] if headers.at_home else [sysconfig.get_path("purelib")]
    inside = ["sh", "-euc", 'cd "$0"; exec "$@"', str(directory), *argv]
    env = {name: text for name, text in os.environ.items() if name != _NO_BYTECODE}
    # Missing bytecode only costs time, so a host that is too busy to compile may still test.
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
