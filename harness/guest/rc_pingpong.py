# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs two ibv_rc_pingpong -e on an rxe link: verbs traffic without kfabric.

    python3 -m kfabric.guest.rc_pingpong --iterations 997

Each side sleeps in a completion channel until the other side has sent.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import IO

from kfabric.guest.modules import need
from kfabric.guest.topology import RdmaLink, gid_addresses, rxe_on_dummy
from kfabric.guest.waiting import wait_until

PORT = 18515
_LISTENING = "0A"


def main() -> int:
    """Make a link and run both sides; 0 if both succeed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=997)
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S")
    args = parser.parse_args()
    need(["rdma_rxe", "ib_uverbs"])
    with rxe_on_dummy() as link:
        return play(link, args.iterations, args.timeout)


def play(
    link: RdmaLink, iterations: int, timeout: float, size: int = 4096, into: IO[str] | None = None
) -> int:
    """Run both sides on a link; the exit status of the first side that fails, or 0.

    Args:
        link: the link.
        iterations: messages of each side.
        timeout: in seconds.
        size: bytes of a message.
        into: gets what the client prints; None: standard output.
    """
    words = ["ibv_rc_pingpong", "-e", "-d", link.name, "-g", str(gid_index(link))]
    words += ["-p", str(PORT), "-n", str(iterations), "-s", str(size)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        try:
            wait_until(listening, f"port {PORT} listens", 30.0)
            client = subprocess.run(
                [*words, "127.0.0.1"], stdout=into, timeout=timeout, check=False
            )
            return server.wait(timeout) or client.returncode
        finally:
            server.kill()


def gid_index(link: RdmaLink) -> int:
    """The index of the link's IPv4 address in its GID table."""
    return gid_addresses(link.name)[link.address]


def listening() -> bool:
    """Does a socket listen at our port?"""
    for name in ("tcp", "tcp6"):
        lines = Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        for _, local, _, state, *_ in map(str.split, lines):
            if local.endswith(f":{PORT:04X}") and state == _LISTENING:
                return True
    return False


if __name__ == "__main__":
    sys.exit(main())
