# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In a guest: one side of LNet, which does what it is told on standard input.

    python3 side.py TREE NET DRIVER ADDRESS

TREE is a built source tree of Lustre, NET is kfi, o2ib or tcp, DRIVER is the module for it, and
ADDRESS is ours on the wire.
Each order is a line, and its answer a line of JSON. At their end everything is unloaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from kfabric.guest import modules, topology

#: Our first device, as kfilnd and lnetctl want it to be called.
CXI = "cxi0"
SELFTEST = "lnet_selftest"
#: Messages under way at a time.
CONCURRENCY = 8
#: Seconds for each program, beside measuring.
PROGRAM_SECONDS = 120.0
#: What "lst stat" says of a group: what it has received, and what it has sent.
BANDWIDTH = re.compile(r"^\[([RW])\] Avg: +([\d.]+) +MiB/s", re.MULTILINE)
#: The server receives what is written, and sends what is read.
OF_SERVER = {"write": "R", "read": "W"}


class Failed(Exception):
    """One of Lustre's programs has failed."""


class Lnet:
    """LNet with one network, up for as long as the context lasts.

    :param tree: a built source tree.
    :param net: the network.
    :param driver: the module for it.
    :param address: ours on the wire, IPv4.
    """

    def __init__(self, tree: Path, net: str, driver: str, address: str) -> None:
        self._tree = tree
        self._net = net
        self._driver = driver
        self._address = address
        libraries = {str(path.parent) for path in tree.rglob("liblnetconfig.so*")}
        self._environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(sorted(libraries))}

    @contextlib.contextmanager
    def up(self) -> Iterator[None]:
        """Load the modules, and add the network."""
        with contextlib.ExitStack() as stack:
            enter = stack.enter_context
            netdev = enter(topology.wire_netdev(self._address))
            enter(topology.rdma_link(netdev))
            if self._net == "kfi":
                enter(modules.Modules.from_environment().loaded())
            modules.need(["sunrpc"])
            for name in ("libcfs", "lnet", self._driver):
                enter(self._loaded(name))
            self._run("lnetctl", "lnet", "configure")
            stack.callback(self._run, "lnetctl", "lnet", "unconfigure")
            interface = CXI if self._net == "kfi" else netdev.name
            self._run("lnetctl", "net", "add", "--net", self._net, "--if", interface)
            enter(self._loaded(SELFTEST))
            yield

    def nid(self) -> str:
        """Our own address in the network."""
        text = self._run("lnetctl", "net", "show", "--net", self._net)
        return text.partition(" nid: ")[2].split()[0]

    def ping(self, nid: str) -> None:
        """Have another side answer."""
        if f"nid: {nid}" not in self._run("lnetctl", "ping", nid):
            raise Failed(f"{nid} does not answer")

    def brw(self, nid: str, way: str, seconds: str) -> float:
        """Move 1 MiB at a time from ("read") or to another side, and compare the data; MiB/s."""
        with self._session(nid):
            self._lst(
                *("add_test", "--batch", "bulk", "--concurrency", str(CONCURRENCY)),
                *("--from", "ours", "--to", "theirs"),
                *("brw", way, "check=full", "size=1M"),
            )
            self._lst("run", "bulk")
            words = ("stat", "--bw", "--delay", seconds, "--count", "1", "theirs")
            text = self._run("lst", *words, measuring=int(seconds))
            self._lst("stop", "bulk")
            errors = self._lst("show_error", "ours", "theirs")
        if errors.count("Total 0 error nodes") != 2:
            raise Failed(errors)
        return float(dict(BANDWIDTH.findall(text))[OF_SERVER[way]])

    @contextlib.contextmanager
    def _session(self, nid: str) -> Iterator[None]:
        self._environment["LST_SESSION"] = str(os.getpid())
        self._lst("new_session", "kfabric")
        try:
            self._lst("add_group", "ours", self.nid())
            self._lst("add_group", "theirs", nid)
            self._lst("add_batch", "bulk")
            yield
        finally:
            self._lst("end_session")

    @contextlib.contextmanager
    def _loaded(self, name: str) -> Iterator[None]:
        (file,) = self._tree.rglob(f"{name}.ko")
        modules.insert(file)
        try:
            yield
        finally:
            modules.remove(name)

    def _lst(self, *words: str) -> str:
        return self._run("lst", *words)

    def _run(self, name: str, *words: str, measuring: int = 0) -> str:
        """Run one of Lustre's programs; what it has printed."""
        (program,) = self._tree.glob(f"lnet/utils/.libs/{name}")
        done = subprocess.run(
            [program, *words],
            check=False,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PROGRAM_SECONDS + measuring,
        )
        if done.returncode:
            raise Failed(f"{name} {' '.join(words)}: {done.stdout.strip()}")
        return done.stdout


def main(tree: str, net: str, driver: str, address: str) -> None:
    """Bring LNet up, and answer the orders."""
    lnet = Lnet(Path(tree), net, driver, address)
    orders: dict[str, Callable[..., object]] = {
        "nid": lnet.nid,
        "ping": lnet.ping,
        "brw": lnet.brw,
    }
    with lnet.up():
        print(json.dumps("up"), flush=True)
        for line in sys.stdin:
            name, *words = line.split()
            print(json.dumps(orders[name](*words)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
