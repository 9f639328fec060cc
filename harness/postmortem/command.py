# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Show the wait queues and the sleeping threads of a guest that has panicked.

VMCORE is the file that kfabric test --vmcore or kfabric run --vmcore left, or its directory. The
guest's kernel has to be one that is built here (--kernel debug), because the types of others are
not known.
"""

from collections.abc import Sequence
from pathlib import Path

from kfabric.errors import ExitStatus, SetupError
from kfabric.postmortem import dump, show
from kfabric.terminal.arguments import Parser
from kfabric.vm import cache, prepare, tools, vmcore

DEBUG = "vmlinux.debug"


def main(argv: Sequence[str]) -> int:
    """Print the panic, the queues with their sleepers, and other threads in the modules."""
    parser = Parser(prog="kfabric post-mortem", description=__doc__)
    parser.add_argument("vmcore", type=Path, metavar="VMCORE", help="file or directory")
    parser.add_argument(
        "--all", action="store_true", help="show all threads, not only those in the modules"
    )
    args = parser.parse_args(argv)
    core = args.vmcore / vmcore.NAME if args.vmcore.is_dir() else args.vmcore
    files = debug_files(core, cache.root() / "kernels")
    tools.install(prepare.SOURCE, "postmortem", "drgn cannot be installed")
    names = frozenset(map(dump.module_name, files[1:]))
    reader = dump.Reader(dump.open_dump(core, files), names)
    panic, queues, threads = reader.panic(), reader.queues(), list(reader.threads(args.all))
    print(*show.lines(panic, queues, threads, reader.errors), sep="\n")
    return ExitStatus.OK


def debug_files(core: Path, kernels: Path) -> list[Path]:
    """The files with debug information: those of the dump's kernel, then its modules.

    Args:
        core: the dump.
        kernels: the directory of the kernels that were built here.

    Raises:
        SetupError: there is no dump, or a file is missing.
    """
    about = vmcore.about(core)
    for path in sorted(kernels.glob(f"*/{DEBUG}")):
        if (path.parent / "release").read_text().strip() == about.release:
            return [path, *(ko for place in about.modules for ko in _modules(Path(place)))]
    hint = "only kernels that are built here have one: --kernel debug"
    raise SetupError(f"there is no {DEBUG} for {about.release}", hint)


def _modules(place: Path) -> list[Path]:
    """The modules before they were stripped. Raises SetupError."""
    found = sorted((place / "src").rglob("*.ko"))
    if not found:
        hint = "the modules that ran in the guest are needed"
        raise SetupError(f"{place} has no modules any more", hint)
    return found
