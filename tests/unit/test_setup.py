# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""vm/bootstrap.sh: which Debian packages the set-up installs, and from where."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kfabric.root import ROOT

SUITE = "bookworm-backports"
OLD, NEW = "1:7.2+dfsg-7", "1:10.0.2+ds-2~bpo12+1"

# What the tests replace of the host.
DPKG_QUERY = """#!/bin/sh
for name; do :; done
cat "$STUBS/$name.dpkg" 2>/dev/null
"""
APT_GET = """#!/bin/sh
echo "$*" >>"$STUBS/calls"
case $* in
indextargets*) echo "bookworm main http://mirror.test/debian" ;;
esac
fails=$(cat "$STUBS/fails" 2>/dev/null)
[ -z "$fails" ] || case $* in *"$fails"*) exit 100 ;; esac
"""


class Host:
    """A set-up in an empty checkout, on a host whose packages are stubs."""

    def __init__(self, place: Path) -> None:
        self.top, self.stubs = place / "checkout", place / "stubs"
        (self.top / "vm").mkdir(parents=True)
        self.stubs.mkdir()
        shutil.copy(ROOT / "vm/bootstrap.sh", self.top / "vm")
        (self.top / "vm/packages-host.txt").write_text(
            f"patch  # a tool\nqemu>=1:8.1/{SUITE}  # a guest\n"
        )
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET)):
            (self.stubs / name).write_text(text)
            (self.stubs / name).chmod(0o755)

    def has(self, name: str, version: str) -> None:
        """The package is installed."""
        (self.stubs / f"{name}.dpkg").write_text(f"ii {version}")

    def fails(self, words: str) -> None:
        """Make apt-get fail for each command line with these words."""
        (self.stubs / "fails").write_text(words)

    def set_up(self) -> str:
        """Run the set-up; what it says."""
        env = {
            **os.environ,
            "PATH": f"{self.stubs}:{os.environ['PATH']}",
            "STUBS": str(self.stubs),
        }
        done = subprocess.run(
            ["sh", "vm/bootstrap.sh", "host"],
            cwd=self.top,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        return done.stderr

    def calls(self) -> list[str]:
        """apt-get's command lines since the last look."""
        path = self.stubs / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """One that has the tool, and no QEMU."""
    host = Host(tmp_path)
    host.has("patch", "2.7.6-7")
    return host


@pytest.mark.parametrize("installed", [None, OLD])
def test_missing_or_older_package_is_taken_from_its_suite(
    host: Host, installed: str | None
) -> None:
    """Of the host's own mirror."""
    if installed:
        host.has("qemu", installed)
    assert host.set_up() == f"kfabric: Debian packages: qemu>=1:8.1/{SUITE} \n"
    (install,) = [line for line in host.calls() if f"-t {SUITE}" in line]
    assert install.endswith(f"-t {SUITE} qemu")
    sources = (host.top / f"build/apt-{SUITE}.list").read_text()
    assert sources.endswith(f" http://mirror.test/debian {SUITE} main\n")


def test_newer_package_is_left_as_it_is(host: Host) -> None:
    """Wherever it came from: apt is not asked."""
    host.has("qemu", NEW)
    assert host.set_up() == "" and host.calls() == []


def test_suite_that_cannot_be_had_is_tried_once(host: Host) -> None:
    """Debian 12's own package is installed, or stays."""
    host.fails(f"apt-{SUITE}.list")
    assert f"kfabric: not in {SUITE}, so as Debian 12 has it: qemu\n" in host.set_up()
    (install,) = [line for line in host.calls() if line.startswith("install ")]
    assert install.endswith(" qemu") and f"-t {SUITE}" not in install
    host.has("qemu", OLD)
    assert host.set_up() == "" and host.calls() == []
