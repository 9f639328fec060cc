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
from collections.abc import Iterator, Sequence
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
        argv = ["python3", "-m", "compileall", "-qq", *paths]
        # Missing bytecode only costs time, so a host that is too busy to compile may still test.
        with (
            _running(headers, source, source, argv) as process,
            contextlib.suppress(subprocess.TimeoutExpired),
        ):
            process.wait(SECONDS)


@contextlib.contextmanager
def tests(source: Path, image: Image, paths: Sequence[str], directory: Path) -> Iterator[None]:
    """Compile tests while the block runs; ``paths`` are pytest's, relative to ``directory``.

    pytest itself does it, since its bytecode has rewritten assertions. It is ahead of the guests,
    which boot first; a file that they need earlier is only slower. Errors are ignored here: they
    occur in the guest again, and are reported there.
    """
    headers = _headers(source, image)
    python = sys.executable if headers.at_home else "python3"
    argv = [python, "-m", "pytest", "-p", "kfabric.runner.plugin", "-p", "no:cacheprovider"]
    # Plugins with compiled parts only load in the host's Python.
    argv += [] if headers.at_home else ["-p", "no:hypothesispytest"]
    with _running(headers, source, directory, [*argv, "--collect-only", "-q", *paths]):
        yield


def _headers(source: Path, image: Image) -> Headers:
    if image.version.suite == apt.SUITE:
        return Headers(Path("/"))
    return supply.of(source, image.version, lambda line: None).headers(image.release)


@contextlib.contextmanager
def _running(
    headers: Headers, source: Path, directory: Path, argv: Sequence[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the guests' Python, with the packages of our own environment, until the block ends."""
    own = [python_path(source), *filter(None, [os.environ.get("PYTHONPATH")])]
    # These packages are pure Python, so any Python can import them.
    own += [] if headers.at_home else [sysconfig.get_path("purelib")]
    inside = ["sh", "-euc", 'cd "$0"; exec "$@"', str(directory), *argv]
    env = {name: text for name, text in os.environ.items() if name != _NO_BYTECODE}
    with subprocess.Popen(
        headers.command(inside, source),
        env={**env, "PYTHONPATH": os.pathsep.join(own)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
