# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compiles plugins for QEMU's TCG, once for each of their versions."""

from pathlib import Path

from kfabric.vm import argv, cache, tools

HEADER = Path(__file__).with_name("tcg_plugin.h")


def gcc() -> list[str]:
    """The compiler, with what it needs but for the two files.

    QEMU 9 and later refuse version 1 of the interface, and older ones know no other. What is used
    of it is the same in all versions.
    """
    version = 2 if argv.major() >= 9 else 1
    return [
        *("gcc", "-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden"),
        *(f"-I{HEADER.parent}", f"-DINTERFACE={version}"),
    ]


def ensure(source: Path) -> Path:
    """A plugin's file, compiled if it is not in the cache.

    Raises SetupError.
    """
    places, command = cache.root() / "plugins", gcc()
    inputs = [source.read_bytes(), HEADER.read_bytes(), " ".join(command).encode()]
    target = places / cache.key(inputs)
    name = f"{source.stem}.so"
    with cache.locked(places / "lock"):
        if not target.exists():
            tools.require(command[:1])
            with cache.building(target) as scratch:
                compiling = [*command, "-o", str(scratch / name), str(source)]
                tools.run(compiling, f"{source.name}, a plugin for QEMU, does not compile")
    return target / name
