# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric post-mortem VMCORE``: the wait queues of a guest that has panicked, and who slept.

VMCORE is what ``kfabric test --vmcore`` or ``run --vmcore`` left, or the directory that it is
in. It takes a kernel that is built here ("debug"): others' types are not known.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.errors import ExitStatus, SetupError
from harness.postmortem import dump, show
from harness.vm import cache, prepare, tools, vmcore

DEBUG = "vmlinux.debug"


def main(argv: Sequence[str]) -> int:
    """Print the panic, the queues, their sleepers, and other threads that are in the modules."""
    parser = argparse.ArgumentParser(prog="kfabric post-mortem", description=__doc__)
    parser.add_argument("vmcore", type=Path, metavar="VMCORE")
    parser.add_argument("--all", action="store_true", help="all threads, whatever they are in")
    args = parser.parse_args(argv)
    core = args.vmcore / vmcore.NAME if args.vmcore.is_dir() else args.vmcore
    files = debug_files(core, cache.root() / "kernels")
    tools.install(prepare.SOURCE, "postmortem", "drgn cannot be installed")
    names = frozenset(map(dump.module_name, files[1:]))
    reader = dump.Reader(dump.open_dump(core, files), names)
    panic, queues, threads = reader.panic(), reader.queues(), list(reader.threads(args.all))
    print(*show.lines(panic, queues, threads, reader.troubles), sep="\n")
    return ExitStatus.OK


def debug_files(core: Path, kernels: Path) -> list[Path]:
    """The kernel that the dump is of and its modules, with debug information.

    :param kernels: where those that are built here are kept.
    :raises SetupError: there is no dump, or nothing that tells how to read it.
    """
    about = vmcore.about(core)
    for path in sorted(kernels.glob(f"*/{DEBUG}")):
        if (path.parent / "release").read_text().strip() == about.release:
            modules = [ko for place in about.modules for ko in _modules(Path(place))]
            return [path, *modules]
    hint = "only kernels that are built here have one: --kernel debug"
    raise SetupError(f"there is no {DEBUG} for {about.release}", hint)


def _modules(place: Path) -> list[Path]:
    """Those that were not stripped. Raises SetupError."""
    found = sorted((place / "src").rglob("*.ko"))
    if not found:
        raise SetupError(
            f"{place} has no modules any more", "those that ran in the guest are needed"
        )
    return found
