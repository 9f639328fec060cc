# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Two ibv_rc_pingpong -e on an rxe link of their own: verbs traffic without kfabric.

    python3 -m harness.guest.rc_pingpong --iterations 997

Each side sleeps in a completion channel until the other has sent.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from harness.guest.modules import need
from harness.guest.topology import RdmaLink, rxe_on_dummy
from harness.guest.waiting import wait_until

PORT = 18515
_LISTENING = "0A"
_SYS = Path("/sys/class/infiniband")


def main() -> int:
    """Make the link, play, and take it down; 0 if both sides were content."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=997)
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S")
    args = parser.parse_args()
    need(["rdma_rxe", "ib_uverbs"])
    with rxe_on_dummy() as link:
        return play(link, args.iterations, args.timeout)


def play(link: RdmaLink, iterations: int, timeout: float) -> int:
    """Play on a link; the exit status of the first side that was not content."""
    words = ["ibv_rc_pingpong", "-e", "-d", link.name, "-g", str(gid_index(link))]
    words += ["-p", str(PORT), "-n", str(iterations)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        try:
            wait_until(listening, f"port {PORT} listens", 30.0)
            client = subprocess.run([*words, "127.0.0.1"], timeout=timeout, check=False)
            return server.wait(timeout) or client.returncode
        finally:
            server.kill()


def gid_index(link: RdmaLink) -> int:
    """Where the link's IPv4 address is in its GID table."""
    digits = "".join(f"{int(part):02x}" for part in link.address.split("."))
    wanted = f"0000:0000:0000:0000:0000:ffff:{digits[:4]}:{digits[4:]}"
    table = _SYS / link.name / "ports/1/gids"
    index = 0
    while (table / str(index)).read_text().strip() != wanted:
        index += 1
    return index


def listening() -> bool:
    """Does anybody listen at our port?"""
    for name in ("tcp", "tcp6"):
        lines = Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        for _, local, _, state, *_ in map(str.split, lines):
            if local.endswith(f":{PORT:04X}") and state == _LISTENING:
                return True
    return False


if __name__ == "__main__":
    sys.exit(main())
