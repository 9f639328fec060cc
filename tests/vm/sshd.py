# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A simulated second machine: an sshd on 127.0.0.1 with its own key, port and users.

Nothing is installed, and nobody else can log in: if there is no sshd, that of Debian's
package is unpacked into a directory of the test.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from kfabric.guest.waiting import wait_until

NAME = "other"
PACKAGES = ("openssh-server", "libwrap0")
SECONDS = 60.0

# The user that sshd drops its rights to, and its directory, exist nowhere else.
_INSIDE = """
mount --bind "$1/passwd" /etc/passwd
mount -t tmpfs tmpfs /run
mkdir /run/sshd
shift
exec "$@"
"""
_USERS = """root:*:0:0:root:{home}:/bin/sh
sshd:*:65533:65534::/run/sshd:/usr/sbin/nologin
"""
_SERVER = """ListenAddress 127.0.0.1
Port {port}
HostKey {place}/host
AuthorizedKeysFile {place}/key.pub
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
SetEnv XDG_CACHE_HOME={cache}
"""
_CLIENT = """Host {name}
HostName 127.0.0.1
Port {port}
User root
IdentityFile {place}/key
IdentitiesOnly yes
UserKnownHostsFile {place}/known
StrictHostKeyChecking accept-new
"""


def find(place: Path) -> tuple[str, str] | str:
    """The sshd and the directory of its libraries, or why there is none."""
    if found := shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin"):
        return found, ""
    apt = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *PACKAGES]
    try:
        subprocess.run(apt, cwd=place, check=True, capture_output=True, timeout=SECONDS)
        for package in place.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, place], check=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return f"there is no sshd, and Debian's cannot be had: {error}"
    return f"{place}/usr/sbin/sshd", f"{place}/usr/lib/x86_64-linux-gnu"


@contextlib.contextmanager
def machine(place: Path, sshd: str, libraries: str) -> Iterator[Path]:
    """Run it; yields the file for ``ssh -F``, in which its name is NAME."""
    port = _write(place)
    argv = ["unshare", "--mount", "sh", "-euc", _INSIDE, "sh", str(place)]
    argv += [sshd, "-D", "-e", "-f", str(place / "sshd_config")]
    env = {**os.environ, **({"LD_LIBRARY_PATH": libraries} if libraries else {})}
    with (place / "log").open("w") as log:
        process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stderr=log)
        try:
            wait_until(lambda: _listens(process, port), "an sshd that listens", SECONDS)
            yield place / "ssh_config"
        finally:
            process.kill()
            process.wait()


def _write(place: Path) -> int:
    """Make keys and files; returns the port."""
    for name in ("host", "key"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)]
        subprocess.run(argv, check=True, timeout=SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    home = str(Path.home())
    cache = os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
    (place / "passwd").write_text(_USERS.format(home=home))
    (place / "sshd_config").write_text(_SERVER.format(port=port, place=place, cache=cache))
    (place / "ssh_config").write_text(_CLIENT.format(name=NAME, port=port, place=place))
    return port


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, "sshd has ended"
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1.0).close()
        return True
    return False
