# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Prepares a guest for a shell: loads our modules, and makes an RDMA link that stays.

    python3 -m harness.guest.ready

prints the device and the link.
"""

import contextlib
import os
import sys
from typing import NoReturn

from harness.guest import leaks, modules, topology

# The link outlives this process, so the stack is never closed.
_KEPT = contextlib.ExitStack()


def prepare() -> topology.RdmaLink:
    """Load our modules and make a link, which stays.

    Raises:
        OSError: A module or the link failed; the text has the kernel's messages.
    """
    modules.Modules.from_environment().load()
    return _KEPT.enter_context(topology.rxe_on_dummy())


def leave(status: int) -> NoReturn:
    """End this process without cleanup, which might delete the link."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> int:
    """Prepare; 1, with the reason on standard error, if that fails."""
    try:
        link = prepare()
    except OSError as error:
        print(error.strerror or error, file=sys.stderr)
        return 1
    print(f"{leaks.DEVICE} is there; {link.name} is an RDMA link at {link.address}")
    return 0


if __name__ == "__main__":
    leave(main())
