# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the host's own apt knows: archives, candidates, packages."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from harness.errors import SetupError

SUITE = "bookworm"
"""The host's."""
ROLLING = ("testing", "sid", "experimental")
"""Suites without updates and security fixes of their own."""
TIMEOUTS = {
    "DPkg::Lock::Timeout": "300",
    "Acquire::Retries": "1",
    "Acquire::http::Timeout": "30",
    "Acquire::https::Timeout": "30",
}
"""Seconds (and attempts) after which apt gives up on a lock or a server."""
COMMAND_SECONDS = 900.0
HINT = "check /etc/apt/sources.list* and the network, then run apt-get update"


def archives(suite: str = SUITE) -> list[str]:
    """One-line sources of a Debian suite, from where the host gets its own.

    :raises SetupError: the host's configuration has no source for its own suite.
    """
    alone = suite in ROLLING or "-" in suite
    kept = [line for line in _own_archives() if not alone or line.split()[2] == SUITE]
    return [re.sub(rf"(?<=\s){SUITE}(?=[\s-])", suite, line) for line in kept]


def _own_archives() -> list[str]:
    fmt = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    wanted = ["Created-By: Packages", "Origin: Debian", "Architecture: amd64"]
    lines = _read(["apt-get", "indextargets", "--format", fmt, *wanted])
    suites = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
    found = [f"deb {line}" for line in lines if line.split()[1] in suites]
    if not found:
        raise SetupError(f"apt has no package source for Debian {SUITE}", HINT)
    return found


def settings() -> list[str]:
    """The host's way to its archives (proxies and the like), as apt.conf lines."""
    lines = _read(["apt-config", "dump", "--no-empty", "--format", '%F "%v";%n', "Acquire"])
    wanted = re.compile(r"Acquire::(http|https|ftp|socks)::")
    own = [f'{name} "{value}";' for name, value in TIMEOUTS.items()]
    return [line for line in lines if wanted.match(line)] + own


def options(suite: str) -> list[str]:
    """What mmdebstrap's apt is told for a suite, as apt.conf lines."""
    # A mirror may be weeks behind; the signatures are checked all the same.
    late = ['Acquire::Check-Valid-Until "false"'] if suite in ROLLING else []
    return ['Apt::Install-Recommends "false"', *settings(), *late]


def depends(package: str) -> list[str]:
    """Names that the candidate version of a package depends on."""
    lines = _read(["apt-cache", "depends", package])
    return [line.split()[1] for line in lines if line.strip().startswith("Depends:")]


def install(packages: list[str]) -> None:
    """Install packages on the host.

    :raises SetupError: apt cannot.
    """
    argv = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages]
    _run(argv, None, f"cannot install {' '.join(packages)}")


def download(package: str, directory: Path) -> Path:
    """Fetch the candidate version of a package, without installing it."""
    argv = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package]
    _run(argv, directory, f"cannot download {package}")
    return next(directory.glob(f"{package}_*.deb"))


def _run(argv: list[str], cwd: Path | None, what: str) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = [word for name, value in TIMEOUTS.items() for word in ("-o", f"{name}={value}")]
    try:
        done = subprocess.run(
            [argv[0], *options, *argv[1:]],
            check=False,
            cwd=cwd,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"{what}: not done after {COMMAND_SECONDS:g} s", HINT) from None
    if done.returncode:
        raise SetupError(what, HINT, console="\n".join(done.stdout.splitlines()[-20:]))


def _read(argv: list[str]) -> list[str]:
    done = subprocess.run(argv, check=False, text=True, capture_output=True)
    if done.returncode:
        raise SetupError(f"{argv[0]} fails: {done.stderr.strip()[-200:]}", HINT)
    return done.stdout.splitlines()
