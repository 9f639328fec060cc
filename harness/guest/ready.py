# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Prepares a guest for a shell: loads our modules, and makes an RDMA link that stays.

    python3 -m kfabric.guest.ready

prints the device and the link.
"""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from kfabric.guest import leaks, modules, topology

# The link outlives this process, so the stack is never closed.
_KEPT = contextlib.ExitStack()


def prepare() -> topology.RdmaLink:
    """Load our modules and make a link, which stays.

    Raises:
        OSError: A module or the link failed; the text has the kernel's messages.
    """
    modules.Modules.from_environment().load()
    return _KEPT.enter_context(topology.rxe_on_dummy())


def leave_after(work: Callable[[], None]) -> NoReturn:
    """Work, then end this process without cleanup, which might delete the link.

    Its status is 1, with the reason on standard error, if the work raises an OSError.
    """
    status = 0
    try:
        work()
    except OSError as error:
        print(error.strerror or error, file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    """Prepare. Raises OSError."""
    link = prepare()
    print(f"{leaks.DEVICE} is there; {link.name} is an RDMA link at {link.address}")


if __name__ == "__main__":
    leave_after(main)
