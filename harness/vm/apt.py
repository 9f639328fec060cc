# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Debian packages through the host's own apt: archives, candidates, userlands."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree

from kfabric.errors import SetupError
from kfabric.vm import tools

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
HINT = "check /etc/apt/sources.list* and the network, then run apt-get update"
# mmdebstrap mounts /proc, /sys and /dev in the tree. In namespaces of its own, no other process
# sees these mounts, and a killed build has unmounted them before the tree is removed.
_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def archives(suite: str = SUITE) -> list[str]:
    """One-line sources of a Debian suite, derived from the host's own; raises SetupError."""
    fmt = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    wanted = ["Created-By: Packages", "Origin: Debian", "Architecture: amd64"]
    lines = _read(["apt-get", "indextargets", "--format", fmt, *wanted])
    suites = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
    found = [f"deb {line}" for line in lines if line.split()[1] in suites]
    if not found:
        raise SetupError(f"apt has no package source for Debian {SUITE}", HINT)
    alone = suite in ROLLING or "-" in suite
    kept = [line for line in found if not alone or line.split()[2] == SUITE]
    return [re.sub(rf"(?<=\s){SUITE}(?=[\s-])", suite, line) for line in kept]


def options(suite: str) -> list[str]:
    """The apt.conf lines for a suite, with the host's proxies and the like."""
    lines = _read(["apt-config", "dump", "--no-empty", "--format", '%F "%v";%n', "Acquire"])
    access = [line for line in lines if re.match(r"Acquire::(http|https|ftp|socks)::", line)]
    timeouts = [f'{name} "{value}";' for name, value in TIMEOUTS.items()]
    # A mirror may be out of date by weeks; the signatures are still checked.
    late = ['Acquire::Check-Valid-Until "false"'] if suite in ROLLING else []
    return ['Apt::Install-Recommends "false"', *access, *timeouts, *late]


def depends(package: str) -> list[str]:
    """Names that the candidate version of a package depends on."""
    lines = _read(["apt-cache", "depends", package])
    return [line.split()[1] for line in lines if line.strip().startswith("Depends:")]


def names(root: Path) -> list[str]:
    """The names of all packages that the lists of a Debian tree have."""
    status = f"Dir::State::Status={root}/var/lib/dpkg/status"
    return _read(["apt-cache", "-o", f"Dir={root}", "-o", status, "pkgnames"])


def install(packages: list[str]) -> None:
    """Install packages on the host; raises SetupError."""
    argv = ["install", "-q", "-y", "--no-install-recommends", *packages]
    _apt_get(argv, None, f"cannot install {' '.join(packages)}")


def download(package: str, directory: Path) -> Path:
    """Fetch the candidate version of a package, without installing it; raises SetupError."""
    argv = ["download", "-q", "-o", "APT::Sandbox::User=root", package]
    _apt_get(argv, directory, f"cannot download {package}")
    return next(directory.glob(f"{package}_*.deb"))


def debootstrap(
    suite: str, root: Path, packages: Sequence[str], more: Sequence[str], archives: Sequence[str]
) -> None:
    """Unpack and configure packages of a suite, with their dependencies, in a directory.

    Args:
        more: further options of mmdebstrap.
        archives: package sources in apt's one-line format.
    """
    argv = [*_NAMESPACES, "mmdebstrap", "--verbose", "--mode=root", "--format=directory"]
    # An incomplete result is discarded, so syncing each file is unnecessary.
    argv += ["--dpkgopt=force-unsafe-io"]
    argv += [f"--aptopt={line}" for line in options(suite)]
    argv += [*more, f"--include={','.join(packages)}", suite, str(root), "-"]
    (temporary := root.with_name("tmp")).mkdir()
    tools.run(argv, "mmdebstrap fails", HINT, stdin="\n".join(archives), TMPDIR=str(temporary))
    rmtree(temporary)


def _apt_get(argv: list[str], cwd: Path | None, failure: str) -> None:
    timeouts = [word for name, value in TIMEOUTS.items() for word in ("-o", f"{name}={value}")]
    argv = ["apt-get", *timeouts, *argv]
    # A killed harness must not leave the host's packages half installed.
    tools.run(argv, failure, HINT, cwd=cwd, outlives=True, DEBIAN_FRONTEND="noninteractive")


def _read(argv: list[str]) -> list[str]:
    done = subprocess.run(argv, check=False, text=True, capture_output=True)
    if done.returncode:
        raise SetupError(f"{argv[0]} fails: {done.stderr.strip()[-200:]}", HINT)
    return done.stdout.splitlines()
