# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs the tools that make trees and images; they die with us."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree

from harness.errors import SetupError
from harness.vm import apt

SECONDS = 900.0
INSTALL_SECONDS = 900.0
# mmdebstrap mounts /proc, /sys and /dev in the tree: nobody else sees that, and
# when the first process is killed, all of it is gone before the tree is removed.
OWN_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def debootstrap(
    suite: str, root: Path, packages: Sequence[str], more: Sequence[str], archives: Sequence[str]
) -> None:
    """Unpack and configure packages of a suite, and what they depend on, into a directory.

    :param more: further options of mmdebstrap.
    :param archives: where apt finds them, in its one-line format.
    :raises SetupError: mmdebstrap cannot.
    """
    argv = [*OWN_NAMESPACES, "mmdebstrap", "--verbose", "--mode=root", "--format=directory"]
    # The result is thrown away unless it is complete: no need to sync each file.
    argv += ["--dpkgopt=force-unsafe-io"]
    argv += [f"--aptopt={line}" for line in apt.options(suite)]
    argv += [*more, f"--include={','.join(packages)}", suite, str(root), "-"]
    (temporary := root.with_name("tmp")).mkdir()
    run(argv, "mmdebstrap fails", apt.HINT, stdin="\n".join(archives), TMPDIR=str(temporary))
    rmtree(temporary)


def install(source: Path, part: str, failure: str) -> None:
    """Install on this machine what only a part of the harness needs; it says what it does.

    :param part: vm/packages-PART.txt and vm/requirements-PART.txt name it.
    :param failure: what it means if that fails, one line.
    :raises SetupError: it cannot be installed.
    """
    argv = [str(source / "vm/bootstrap.sh"), "host", part]
    if subprocess.run(argv, timeout=INSTALL_SECONDS, check=False).returncode:
        raise SetupError(failure, "its reason stands above")


def run(
    argv: Sequence[str],
    what: str,
    hint: str = "",
    stdin: str = "",
    accept: tuple[int, ...] = (0,),
    **environment: str,
) -> None:
    """Run a tool; what it says is shown only if it fails.

    :param what: what it means if it fails, one line.
    :param accept: exit statuses that are no failure.
    :raises SetupError: it is missing, failed, or took too long.
    """
    try:
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", "--", *argv],
            check=False,
            input=stdin,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
        )
    except FileNotFoundError:
        raise SetupError(f"{argv[0]} is not installed", "run make setup") from None
    except subprocess.TimeoutExpired:
        raise SetupError(f"{what}: not done after {SECONDS:g} s", hint) from None
    if done.returncode not in accept:
        lines = [line[:200] for line in done.stdout.splitlines()[-20:]]
        raise SetupError(what, hint, console="\n".join(lines))
