# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The module that pytest-xdist runs in a guest in place of its own xdist.remote.

execnet sends its source to the guest. There it runs the guest's copy of xdist.remote,
without two settings for processes on the host: the host's sys.path, and a temporary
directory that does not exist in the guest.
"""

from typing import Any

BROKEN = 1
"""Exit status of a test process in which pytest raised an exception."""

GUEST_ARGUMENTS = (
    # The tree is mounted read-only, so there can be no cache in it.
    *("-p", "no:cacheprovider"),
    # The plugin imports all of hypothesis for every session, which takes longer than the
    # guest's boot. Tests can still use the library.
    *("-p", "no:hypothesispytest"),
    # The default time limit; a limit on the command line comes later, and wins.
    "--timeout=60",
)

CAPTURE = "--capture=fd"
"""It comes after pytest's -s: output that is not captured is lost in a guest."""


def run(channel: Any) -> None:
    """Run one test session for the controller at the other end of `channel`."""
    import atexit
    import importlib.util
    import os
    import sys
    import traceback

    inputs, arguments, _options, _host_path = channel.receive()
    arguments = [*GUEST_ARGUMENTS, *arguments, CAPTURE]
    settings = (inputs, arguments, {"basetemp": None}, sys.path)
    # xdist.remote reads its start-up message, from the channel, at module level.
    channel.receive = lambda timeout=None: settings
    # Found but not imported, since pytest rewrites plugins at their import.
    package = importlib.util.find_spec("xdist")
    assert package is not None and package.submodule_search_locations is not None
    path = f"{package.submodule_search_locations[0]}/remote.py"
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    try:
        exec(code, {"__name__": "__channelexec__", "__file__": path, "channel": channel})
    except BaseException:
        # The host's xdist no longer listens once the session's end was reported.
        traceback.print_exc()
        atexit.register(os._exit, BROKEN)
        raise


if __name__ == "__channelexec__":
    run(channel)  # type: ignore[name-defined]  # noqa: F821  # put there by execnet
