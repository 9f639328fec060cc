# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guest side: healthy wake-ups of kfabric's own wait sets, under kfabric's probe.

Two kernel threads wake each other in turn by completions of the mock provider;
each sleeps in kfi_wait(). Prints one JSON line; leaves the recording.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path

from harness import names
from harness.guest import modules
from harness.guest.modules import ModuleError, Modules
from harness.probes.loader import Probe, ProbeError

PLACE = "mock"
NAME = "kfi_wait"
_COMMAND = Path("/sys/kernel/debug/kfi_bench")
_DRAIN_SECONDS = 0.05


def main() -> int:
    """Play; what went wrong with the machine is told in words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    args = parser.parse_args()
    try:
        seconds = play(Path(os.environ[names.OUT]) / PLACE, args.rounds)
    except (ModuleError, ProbeError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"play": "healthy", "name": NAME, "seconds": seconds}), flush=True)
    return 0


def play(directory: Path, rounds: int) -> float:
    """Let two threads wake each other, ``rounds`` times in all; how many seconds it took.

    Raises ModuleError or ProbeError.
    """
    ours = Modules.from_environment()
    with ours.loaded(("kfabric", "kfi_mock")):
        modules.insert(ours.file("kfi_bench"))
        try:
            with Probe() as probe:
                seconds = _ping_pong(probe, rounds // 2)
                probe.stop(directory)
        finally:
            modules.remove("kfi_bench")
    return round(seconds, 3)


def _ping_pong(probe: Probe, rounds: int) -> float:
    """Play, and drain the probe meanwhile."""
    done = threading.Event()

    def drain() -> None:
        while not done.wait(_DRAIN_SECONDS):
            probe.drain()

    thread = threading.Thread(target=drain)
    thread.start()
    began = time.monotonic()
    try:
        with _COMMAND.open("wb", buffering=0) as file:
            file.write(f"pingpong kfi normal {rounds} 0 1 -1".encode())
    finally:
        done.set()
        thread.join()
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
