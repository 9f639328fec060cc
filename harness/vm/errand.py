# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The errand: PID 1 of a guest whose execution is recorded. It runs commands, and ends the guest.

QEMU records what comes from outside, and replays it. Ports and shared directories of the agent
cannot be recorded, so this guest has a serial line and a second disk. It is frozen when it has
booted, with a Python that has the imports of a test process. One byte on the line lets it go on: it
mounts the disk, whose file ORDER says what to do. Output goes to the line. An error ends this
process, and so the guest.
"""

import json
import os
import subprocess
import termios
import time
import tty
from pathlib import Path
from typing import TypedDict

from kfabric.vm.agent import Prepared, become, power_off

LINE = "/dev/ttyS1"
DISK = "/dev/vdb"
PLACE = "/run/errand"
"""Where the disk is mounted."""
ORDER = "order.json"
"""File on the disk: an :class:`Order`."""
STATUS = "status"
"""File on the disk, written at the end: the status of the last command."""
READY = b"kfabric is ready\n"
"""Written to the line once the guest may be frozen."""
DONE = b"kfabric is done\n"
"""Written to the line once the commands have ended; the guest idles for IDLE_SECONDS."""
IDLE_SECONDS = 1.0
CODE = """
import os, runpy, sys
os.dup2(1, 2)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
*first, last = {commands!r}
for sys.argv in first:
    child = os.fork()
    if not child:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        sys.exit()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        os.kill(os.getpid(), -status)
    if status:
        sys.exit(status)
sys.argv = last
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Run by the prepared Python."""


class Order(TypedDict):
    """What a guest is to do."""

    name: str
    """Its host name."""
    ns: int
    """The wall clock at the beginning."""
    seed: str
    """Random bytes, in hexadecimal."""
    directories: list[str]
    """Paths on the disk that are mounted at the same paths of the guest."""
    commands: list[list[str]]
    """Modules of Python, each with its arguments; the first that fails is the last."""
    env: dict[str, str]
    """Added to the environment."""
    cwd: str


def main() -> None:
    """Wait for the disk, do what it says, and power off; called by the guest's init."""
    line = _open_line()
    prepared = Prepared(Path(__file__).with_name("warmup.py").read_text())
    os.write(line, READY)
    os.read(line, 1)
    os.mkdir(PLACE)
    _mount("-t", "ext4", "-o", "noatime", DISK, PLACE)
    with open(f"{PLACE}/{ORDER}", encoding="utf-8") as file:
        order: Order = json.load(file)
    become(order["name"], order["ns"], order["seed"])
    for path in order["directories"]:
        os.makedirs(path, exist_ok=True)
        _mount("--bind", PLACE + path, path)
    status = _run(order, prepared)
    with open(f"{PLACE}/{STATUS}", "w", encoding="ascii") as file:
        file.write(str(status))
    os.sync()
    os.write(line, DONE)
    termios.tcdrain(line)
    time.sleep(IDLE_SECONDS)
    power_off()


def _open_line() -> int:
    """The serial line, without the conversions of a terminal."""
    line = os.open(LINE, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    tty.setraw(line)
    *modes, _, _, characters = termios.tcgetattr(line)
    speed = termios.B115200
    termios.tcsetattr(line, termios.TCSANOW, [*modes, speed, speed, characters])
    return line


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _run(order: Order, prepared: Prepared) -> int:
    """Run the commands; the status of the last one, negative for a signal."""
    code = CODE.format(commands=order["commands"])
    errors, stderr = os.pipe()
    line = os.open(LINE, os.O_RDWR | os.O_NOCTTY)
    files = [line, line, stderr]
    pid = prepared.become(code, order["cwd"], {**os.environ, **order["env"]}, files)
    os.close(line)
    os.close(stderr)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with open(errors, encoding="utf-8", errors="replace") as file:
        if text := file.read():
            raise RuntimeError(f"the commands were not run:\n{text}")
    return status
