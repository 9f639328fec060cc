# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A guest with everything loaded: our modules, and an RDMA link that stays.

    python3 -m harness.guest.ready

says what there is; then a shell begins in it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from harness.guest import leaks, modules, topology

# What is made here stays: nobody ends it, not even the end of this process.
_KEPT = contextlib.ExitStack()


def prepare() -> topology.RdmaLink:
    """Load our modules and make a link, which stays.

    :raises OSError: something does not load, or there is no link; with the kernel's words.
    """
    modules.Modules.from_environment().load()
    return _KEPT.enter_context(topology.rxe_on_dummy())


def leave(status: int) -> NoReturn:
    """End this process; an ordinary end might take the link down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> int:
    """Prepare; 1, and the reason on standard error, if that fails."""
    try:
        link = prepare()
    except OSError as error:
        print(error.strerror or error, file=sys.stderr)
        return 1
    print(f"{leaks.DEVICE} is there; {link.name} is an RDMA link at {link.address}")
    return 0


if __name__ == "__main__":
    leave(main())
