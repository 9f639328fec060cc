# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The errand: PID 1 of a guest whose execution is recorded. It runs commands, and ends the guest.

QEMU records what comes from outside, and replays it. Ports and shared directories of the agent
cannot be recorded, so this guest has a serial line and a second disk. It is frozen when it has
booted. One byte on the line lets it go on: it mounts the disk, whose file ORDER says what to do.
Output goes to the line. An error ends this process, and so the guest.
"""

import json
import os
import subprocess
import termios
import time
import tty
from typing import TypedDict

from kfabric.vm.agent import become, power_off

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
    """Run one after the other; the first that fails is the last."""
    env: dict[str, str]
    """Added to the environment of each."""
    cwd: str


def main() -> None:
    """Wait for the disk, do what it says, and power off; called by the guest's init."""
    line = _open_line()
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
    status = _run(order, line)
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


def _run(order: Order, line: int) -> int:
    """Run the commands; the last status, negative for a signal."""
    status = 0
    for argv in order["commands"]:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=line,
            stderr=line,
            env={**os.environ, **order["env"]},
            cwd=order["cwd"],
            start_new_session=True,
            check=False,
        )
        status = done.returncode
        if status:
            break
    return status
