# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compiles plugins for QEMU's TCG, once for each of their versions."""

from pathlib import Path

from kfabric.vm import cache, tools

HEADER = Path(__file__).with_name("tcg_plugin.h")
GCC = (
    *("gcc", "-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden"),
    f"-I{HEADER.parent}",
)


def ensure(source: Path) -> Path:
    """A plugin's file, compiled if it is not in the cache.

    Raises SetupError.
    """
    places = cache.root() / "plugins"
    inputs = [source.read_bytes(), HEADER.read_bytes(), " ".join(GCC).encode()]
    target = places / cache.key(inputs)
    name = f"{source.stem}.so"
    with cache.locked(places / "lock"):
        if not target.exists():
            tools.require(GCC[:1])
            with cache.building(target) as scratch:
                argv = [*GCC, "-o", str(scratch / name), str(source)]
                tools.run(argv, f"{source.name}, a plugin for QEMU, does not compile")
    return target / name
