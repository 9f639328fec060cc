# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: healthy wake-ups of kfabric's own wait sets, recorded by kfabric's probes.

Two kernel threads wake each other in turn by completions of the mock provider; each sleeps in
kfi_wait(). Prints one JSON line; leaves the recording.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from harness import names
from harness.gallery.guest import draining
from harness.guest import modules
from harness.guest.modules import ModuleError, Modules
from harness.probes.loader import Probe, ProbeError

PLACE = "mock"
NAME = "kfi_wait"
_COMMAND = Path("/sys/kernel/debug/kfi_bench")


def main() -> int:
    """Run the ping-pong, and print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    args = parser.parse_args()
    try:
        seconds = run(Path(os.environ[names.OUT]) / PLACE, args.rounds)
    except (ModuleError, ProbeError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"variant": "healthy", "name": NAME, "seconds": seconds}), flush=True)
    return 0


def run(directory: Path, rounds: int) -> float:
    """Let two threads wake each other, `rounds` times in all; return the seconds.

    Raises ModuleError or ProbeError.
    """
    ours = Modules.from_environment()
    with ours.loaded(("kfabric", "kfi_mock")):
        modules.insert(ours.file("kfi_bench"))
        try:
            with Probe() as probe:
                began = time.monotonic()
                with draining(probe.drain), _COMMAND.open("wb", buffering=0) as file:
                    file.write(f"pingpong kfi normal {rounds // 2} 0 1 -1".encode())
                seconds = time.monotonic() - began
                probe.stop(directory)
        finally:
            modules.remove("kfi_bench")
    return round(seconds, 3)


if __name__ == "__main__":
    sys.exit(main())
