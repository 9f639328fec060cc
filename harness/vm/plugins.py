# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compiles the plugin, once for each of its versions."""

from pathlib import Path

from kfabric.vm import cache, tools

SOURCE = Path(__file__).with_name("plugin.c")
GCC = ("gcc", "-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden")
NAME = "plugin.so"


def ensure() -> Path:
    """The plugin's file, compiled if it is not in the cache.

    Raises SetupError.
    """
    places = cache.root() / "steer"
    target = places / cache.key([SOURCE.read_bytes(), " ".join(GCC).encode()])
    with cache.locked(places / "lock"):
        if not target.exists():
            tools.require(GCC[:1])
            with cache.building(target) as scratch:
                argv = [*GCC, "-o", str(scratch / NAME), str(SOURCE)]
                tools.run(argv, "the plugin for QEMU does not compile")
    return target / NAME
