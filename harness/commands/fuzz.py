# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Make random calls on /dev/kfabric, from several threads and processes.

Boots a guest and runs random programs in it. Whatever arguments a call is given, the kernel must
not report an error, no thread may hang, nothing may leak, and each answer must be one that
docs/uapi.md allows. A program that breaks this is found, shortened and saved in DIR; --replay
runs it again.
"""

import argparse
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from kfabric.docs import results
from kfabric.docs.results import Measurement
from kfabric.errors import ExitStatus, UsageError
from kfabric.fuzz import campaign
from kfabric.fuzz.program import Program
from kfabric.fuzz.session import Session
from kfabric.terminal.arguments import Parser, existing_file, whole, writable
from kfabric.vm import prepare
from kfabric.vm.machine import Vm
from kfabric.vm.options import add_kernel_option, add_variant_option, kernel_option
from kfabric.vm.spec import Variant, VmSpec

CORPUS = prepare.SOURCE / "tests/fuzz/corpus"
OUTPUT = prepare.SOURCE / "build/fuzz"
CALLS = 1_000_000
_MEMORY_MIB = 1536


def main(argv: Sequence[str]) -> int:
    """Run random programs, or saved ones; the exit status says whether any failed."""
    args = _parse(argv)
    programs = {file: _read(file) for file in args.replay or ()}
    measured = results.begin("fuzz", ["fuzz", *argv], args.results)
    output = writable(args.output)

    def boot(name: str) -> Vm:
        variant = Variant(args.variant)
        spec = VmSpec(name=name, kernel=args.kernel, memory_mib=_MEMORY_MIB, variant=variant)
        return prepare.vm(spec, directory=output / name, log=lambda line: None)

    with Session("guest", boot) as session:
        if args.distil:
            missing = campaign.distil(session, args.seed or 0, CORPUS)
            print(f"no program found for: {', '.join(missing) or 'none'}")
            return ExitStatus.OK
        if programs:
            return _replay(session, programs, args.times)
        return _run(session, args, output, measured)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="kfabric fuzz", description=__doc__)
    add_kernel_option(parser)
    add = parser.add_argument
    add("--calls", type=whole(1), default=CALLS, help="at least so many calls")
    add("--seed", type=whole(0), help="repeat the run with this seed; default: a new one")
    add("--processes", type=whole(1, 64), default=3, help="processes at a time")
    mode = parser.add_mutually_exclusive_group()
    words = "run these programs; default: random ones"
    mode.add_argument("--replay", nargs="+", type=existing_file, metavar="FILE", help=words)
    words = "write programs for the calls that the corpus lacks"
    mode.add_argument("--distil", action="store_true", help=words)
    add(
        "--times",
        type=whole(1),
        default=0,
        help="how often each FILE runs; default: once, more often if it has several threads",
    )
    add("--no-shrink", action="store_true", help="do not shorten programs that fail")
    add_variant_option(parser, "build of the modules", "test")
    add("--output", type=Path, default=OUTPUT, metavar="DIR", help="default: build/fuzz")
    add(results.OPTION, action="store_true", help=results.HELP)
    return parser.parse_args(argv)


def _run(
    session: Session, args: argparse.Namespace, output: Path, measured: Measurement | None
) -> int:
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    prepare.say(f"seed {seed}")
    guest = f"{kernel_option(args.kernel)} --variant {args.variant}"
    plan = campaign.Plan(seed, args.calls, args.processes, output, not args.no_shrink, guest)
    run = campaign.Campaign(plan, session)
    try:
        run.run()
    finally:
        lines = [f"seed {seed}", *run.summary()]
        print("\n".join(lines), flush=True)
    if measured:
        kernel = prepare.guest_image(kernel=args.kernel).release
        text = "".join(f"- {line}\n" for line in lines)
        measured.write(kernel, text.replace(f"{prepare.SOURCE}/", ""))
    return run.status


def _read(file: Path) -> Program:
    """Read a program. Raises UsageError."""
    try:
        return Program.parse(file.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} is no program: {error}") from None


def _replay(session: Session, programs: Mapping[Path, Program], times: int) -> int:
    """Run the programs of files."""
    status = ExitStatus.OK
    for file, program in programs.items():
        failure = campaign.replay(session, program, times=times)
        print(f"{file}: {failure.text if failure else 'did not fail'}")
        if failure:
            status = ExitStatus.TEST_FAILED
    return status
