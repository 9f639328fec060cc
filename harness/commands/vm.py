# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric vm build|clean``: the guest image in the cache."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness import setup
from harness.errors import ExitStatus
from harness.vm import image


def main(argv: Sequence[str]) -> int:
    """Build the image (and print where it is) or remove it."""
    parser = argparse.ArgumentParser(prog="kfabric vm", description=__doc__)
    parser.add_argument("action", choices=["build", "clean"])
    if parser.parse_args(argv).action == "clean":
        image.clean()
    else:
        print(setup.guest_image().disk.parent)
    return ExitStatus.OK
