# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric fuzz``: random calls on /dev/kfabric, from several threads and processes.

Boots a guest and plays random programs in it. Whatever a call is given, the kernel
must not complain, nothing may hang or be left behind, and each answer must be one
that docs/uapi.md allows. A program that breaks this is found, made as short as it
can be and left in DIR; --replay plays it again.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from harness.docs import results
from harness.docs.results import Measurement
from harness.errors import ExitStatus
from harness.fuzz import host
from harness.fuzz.program import Program, ProgramError
from harness.fuzz.session import Session
from harness.vm import prepare
from harness.vm.machine import Vm
from harness.vm.options import add_kernel_option
from harness.vm.spec import Variant, VmSpec

CORPUS = prepare.SOURCE / "tests/fuzz/corpus"
OUTPUT = prepare.SOURCE / "build/fuzz"
CALLS = 1_000_000
_MEMORY_MIB = 1536


def main(argv: Sequence[str]) -> int:
    """Play random programs, or some that were left; the exit status says whether any failed."""
    args = _parse(argv)
    measured = results.begin("fuzz", ["fuzz", *argv], args.results)
    output = args.output.resolve()

    def boot(name: str) -> Vm:
        spec = VmSpec(
            name=name,
            kernel=args.kernel,
            memory_mib=_MEMORY_MIB,
            variant=Variant(args.variant),
        )
        return prepare.vm(spec, directory=output / name, log=lambda line: None)

    with Session("guest", boot) as session:
        if args.distil:
            missing = host.distil(session, args.seed or 0, CORPUS)
            print(f"no program found for: {', '.join(missing) or 'none'}")
            return ExitStatus.OK
        if args.replay:
            return _replay(session, args.replay, args.times)
        return _hunt(session, args, output, measured)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kfabric fuzz", description=__doc__)
    add_kernel_option(parser)
    parser.add_argument("--calls", type=int, default=CALLS, help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="of an earlier run; default: a new one")
    parser.add_argument("--processes", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--replay", nargs="+", type=Path, metavar="FILE", help="play these")
    parser.add_argument("--times", type=int, default=0, help="how often each of FILE is played")
    parser.add_argument("--no-shrink", action="store_true", help="leave programs as they are")
    parser.add_argument(
        "--distil", action="store_true", help="write programs for calls that the corpus lacks"
    )
    variants = [variant.value for variant in Variant]
    parser.add_argument("--variant", choices=variants, default="test", help="of the modules")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="DIR")
    parser.add_argument(results.OPTION, action="store_true", help=results.HELP)
    return parser.parse_args(argv)


def _hunt(
    session: Session, args: argparse.Namespace, output: Path, measured: Measurement | None
) -> int:
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    prepare.say(f"seed {seed}")
    guest = f"--kernel {args.kernel} --variant {args.variant}"
    plan = host.Plan(seed, args.calls, args.processes, output, not args.no_shrink, guest)
    hunt = host.Hunt(plan, session)
    try:
        hunt.run()
    finally:
        print(f"seed {seed}")
        print("\n".join(hunt.summary()), flush=True)
    if measured:
        lines = [f"seed {seed}", *hunt.summary()]
        measured.write(args.kernel, "".join(f"- {line}\n" for line in lines))
    return hunt.status


def _replay(session: Session, files: Sequence[Path], times: int) -> int:
    """Play programs of files, each until it fails or was played often enough."""
    status = ExitStatus.OK
    for file in files:
        try:
            program = Program.parse(file.read_text())
        except (OSError, ProgramError) as error:
            print(f"{file}: {error}")
            return ExitStatus.USAGE
        failure = host.replay(session, program, times=times)
        print(f"{file}: {failure.text if failure else 'well'}")
        if failure:
            status = ExitStatus.TEST_FAILED
    return status
