# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs the external tools that make trees and images."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from kfabric.errors import SetupError

SECONDS = 900.0
END_SECONDS = 5.0
HINT = 'run "kfabric setup" as root'
END_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
"""Prefix of a command: the kernel kills it when the thread that started it ends."""


def install(source: Path, part: str, failure: str) -> None:
    """Install vm/packages-PART.txt and vm/requirements-PART.txt on this machine.

    For an installed tool, pip has to do the latter. If that fails, raises SetupError with the text
    ``failure``.
    """
    argv = [str(source / "vm/bootstrap.sh"), "host", part]
    if subprocess.run(argv, timeout=SECONDS, check=False).returncode:
        raise SetupError(failure, "the reason is printed above")


def require(programs: Iterable[str]) -> None:
    """Raise SetupError if this machine lacks some of these programs."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise SetupError(f"not in PATH: {', '.join(missing)}", HINT)


def run(
    argv: Sequence[str],
    failure: str,
    hint: str = "",
    stdin: str = "",
    accept: tuple[int, ...] = (0,),
    cwd: Path | None = None,
    outlives: bool = False,
    **environment: str,
) -> None:
    """Run a tool; raises SetupError with its output if it fails or takes too long.

    Args:
        failure: the error's text if it fails, one line.
        accept: exit statuses of success.
        outlives: let it finish even if this process is killed.
    """
    try:
        done = subprocess.run(
            [*(() if outlives else END_WITH_US), *argv],
            check=False,
            cwd=cwd,
            input=stdin,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
        )
    except FileNotFoundError:
        raise SetupError(f"{argv[0]} is not installed", HINT) from None
    except subprocess.TimeoutExpired:
        raise SetupError(f"{failure}: not done after {SECONDS:g} s", hint) from None
    if done.returncode not in accept:
        lines = [line[:200] for line in done.stdout.splitlines()[-20:]]
        raise SetupError(failure, hint, console="\n".join(lines))


def captured(
    argv: Sequence[str], seconds: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end; ``stdout`` of the result has both streams.

    If it takes too long, or this process is interrupted, all that the tool has started ends.
    """
    with subprocess.Popen(
        argv,
        cwd=cwd,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as tool:
        try:
            output, _ = tool.communicate(timeout=seconds)
        except BaseException:
            _end(tool)
            raise
    return subprocess.CompletedProcess(argv, tool.returncode, output)


def _end(tool: subprocess.Popen[str]) -> None:
    """End a tool's process group: politely first, since make removes unfinished files."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(tool.pid, signal.SIGTERM)
        try:
            tool.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(tool.pid, signal.SIGKILL)


def first_error(log: str) -> str:
    """The line of make's output that explains a failure best."""
    lines = log.strip().splitlines()
    for mark in (" error: ", "ERROR: ", "undefined reference", "No rule to make", "Error "):
        for line in lines:
            if mark in line:
                return line.strip().removesuffix(".  Stop.")
    return lines[-1].strip() if lines else "make fails without a message"
