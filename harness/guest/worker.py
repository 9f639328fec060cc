# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The module that pytest-xdist runs in a guest in place of its own xdist.remote.

Its source travels to the guest. It then runs the guest's own copy of
xdist.remote, after taking back two things that only suit a process on the host:
the host's sys.path, and a temporary directory that the guest does not have.
"""

from __future__ import annotations

from typing import Any

BROKEN = 1
"""Exit status of a test process in which pytest came to no end."""

GUEST_ARGUMENTS = (
    # The tree is mounted read-only, so nothing can be cached in it.
    *("-p", "no:cacheprovider"),
    # The plugin, not the library: it imports all of hypothesis, which takes longer
    # than the guest's boot, for every session whether a test uses it or not.
    *("-p", "no:hypothesispytest"),
    # A test that names no limit of its own gets one; the user's own comes later.
    "--timeout=60",
)


def run(channel: Any) -> None:
    """Run one test session for the controller at the other end of `channel`."""
    import atexit
    import importlib.util
    import os
    import sys
    import traceback

    inputs, arguments, _options, _host_path = channel.receive()
    mended = (inputs, [*GUEST_ARGUMENTS, *arguments], {"basetemp": None}, sys.path)
    # xdist.remote reads its start-up message, from the channel, at module level.
    channel.receive = lambda timeout=None: mended
    # Found but not imported: pytest wants to see plugins before they are.
    package = importlib.util.find_spec("xdist")
    assert package is not None and package.submodule_search_locations is not None
    path = f"{package.submodule_search_locations[0]}/remote.py"
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    try:
        exec(code, {"__name__": "__channelexec__", "__file__": path, "channel": channel})
    except BaseException:
        # The host's xdist does not listen any more once it has been told that all is done.
        traceback.print_exc()
        atexit.register(os._exit, BROKEN)
        raise


if __name__ == "__channelexec__":
    run(channel)  # type: ignore[name-defined]  # noqa: F821  # put there by execnet
