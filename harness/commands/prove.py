# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Play every interleaving of small scenarios of the wait core, or of any wait code.

The C files are compiled, unchanged, for user space against a shim of the kernel's primitives. A
model checker then plays the executions of each scenario. A finding is printed as a table with a
column for each thread. The exit status is 3 if a fault was found, 4 if an exploration that was to
be complete is not.

With --barriers, every barrier, acquire and release of the core is weakened in turn, and the
scenarios are played until one finds it. The exit status is 4 if none does.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from kfabric.docs import results
from kfabric.docs.results import Measurement
from kfabric.errors import ExitStatus, UsageError, needs_checkout
from kfabric.prove import barriers, build, session, show, variants
from kfabric.prove.build import Sources
from kfabric.prove.run import Mode
from kfabric.prove.session import MEMORIES, Plan
from kfabric.terminal.arguments import Parser, existing_file, positive, whole, writable
from kfabric.vm import source

OUTPUT = source.results() / "prove"
MODES = [mode.value for mode in Mode if mode not in (Mode.ENUMERATE, Mode.REPLAY)]


def main(argv: Sequence[str]) -> int:
    """Explore the scenarios; the exit status says what was found."""
    args = _parse(argv)
    sources = _sources(args)
    session.check_names(sources, args.names)
    if args.list:
        scenarios = session.chosen(session.listing(sources), args.names)
        if args.json:
            print(session.as_json(scenarios))
        else:
            show.listing(scenarios)
        return ExitStatus.OK
    section = "prove_barriers" if args.barriers else "prove"
    measured = results.begin(section, ["prove", *argv], args.results)
    if args.barriers:
        return _weaken(args, measured)
    return session.play(_plan(args, sources), writable(args.output), measured)


def _limit(text: str) -> tuple[str | None, float]:
    """Read T, or MODEL=T."""
    model, named, seconds = text.rpartition("=")
    if named and model not in MEMORIES:
        raise argparse.ArgumentTypeError(f"{model!r} is none of {', '.join(MEMORIES)}")
    return model or None, positive(seconds)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="kfabric prove", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="scenarios, or patterns: 'poll-*'; default: all")
    add("--list", action="store_true", help="print the scenarios, explore nothing")
    add(
        "--mode",
        choices=MODES,
        metavar="MODE",
        help=f"{', '.join(MODES)}; default: dpor, and bound for scenarios that have one",
    )
    add("--bound", type=whole(0, 99), metavar="K", help="at most K preemptions; default: no limit")
    words = "memory model: sc, tso, pso, weak or all"
    add("--memory", choices=(*MEMORIES, "all"), help=f"{words}; default: sc")
    add("--seed", type=whole(0), default=1, help="of the modes random and pct")
    words = "at most N executions of each scenario; default: no limit"
    add("--executions", type=whole(1), metavar="N", help=words)
    words = "at most so long for each scenario, or under one memory model"
    words += f"; default: {session.SECONDS:g}"
    add("--seconds", type=_limit, action="append", default=[], metavar="[MODEL=]T", help=words)
    add("--replay", metavar="SCHEDULE", help="play one execution of one scenario again")
    words = f"at most {session.QUICK_EXECUTIONS:,} executions of each scenario"
    add("--quick", action="store_true", help=words)
    words = "write the counterexample of one scenario as a guest test, test_*.py"
    add("--export", type=Path, metavar="FILE", help=words)
    words = "have the verdict judge each N-th execution; 0: none"
    add("--records", type=whole(0), default=0, metavar="N", help=words)
    words = "a C file to test instead of kfabric; needs --scenario"
    add("--file", type=existing_file, action="append", default=[], metavar="FILE", help=words)
    words = "a C file with scenarios, for --file"
    add("--scenario", type=existing_file, action="append", default=[], metavar="FILE", help=words)
    words = "weaken each barrier of the core in turn; --memory: default all but sc"
    add("--barriers", action="store_true", help=words)
    add("--json", action="store_true", help="print the results as JSON")
    add("--output", type=Path, default=OUTPUT, metavar="DIR", help="default: build/prove")
    add(results.OPTION, action="store_true", help=results.HELP)
    return _checked(parser.parse_args(argv))


def _checked(args: argparse.Namespace) -> argparse.Namespace:
    """Refuse options that contradict each other. Raises UsageError."""
    if bool(args.file) != bool(args.scenario):
        given, missing = ("--file", "--scenario") if args.file else ("--scenario", "--file")
        raise UsageError(f"{given} needs {missing}")
    if args.bound is not None and args.mode not in (None, Mode.BOUND.value):
        raise UsageError(f"--bound is for the mode bound, not {args.mode}")
    others = (args.file, args.mode, args.replay, args.quick, args.records, args.json, args.export)
    if args.barriers and (any(others) or args.bound is not None):
        raise UsageError("--barriers plays the scenarios of kfabric in their own mode, as a table")
    if args.replay and (len(args.names) != 1 or args.memory == "all"):
        raise UsageError("--replay needs one scenario and one memory model")
    if args.replay and (args.mode or args.bound is not None):
        raise UsageError("--replay plays one execution: --mode and --bound choose several")
    if args.results and (args.file or args.names):
        raise UsageError(f"{results.OPTION} is for all scenarios of kfabric")
    if args.results and not args.barriers and args.memory != "all":
        raise UsageError(f"{results.OPTION} needs --memory all")
    if args.export:
        _check_export(args)
    return args


def _memories(args: argparse.Namespace, default: Sequence[str]) -> Sequence[str]:
    """The memory models to explore."""
    if args.memory is None:
        return default
    return MEMORIES if args.memory == "all" else (args.memory,)


def _weaken(args: argparse.Namespace, measured: Measurement | None) -> int:
    """Weaken each barrier; OK if a scenario finds each."""
    weakened, faulty = barriers.play(
        source.SOURCE,
        args.names,
        _memories(args, barriers.MEMORIES),
        args.executions or variants.EXECUTIONS,
    )
    table, line = barriers.table(weakened), barriers.totals(weakened, faulty)
    show.show(show.console(barriers.WIDTH), [table, line])
    if measured:
        measured.write("none", f"{results.markdown(table)}\n- {line}\n")
    return ExitStatus.OK if all(one.found for one in weakened) else ExitStatus.NOT_VERIFIED


def _check_export(args: argparse.Namespace) -> None:
    """Refuse what no guest test can play. Raises UsageError."""
    if len(args.names) != 1 or args.file or args.list or args.json:
        raise UsageError("--export is for one scenario of kfabric, without --list and --json")
    if args.memory not in (None, "sc"):
        raise UsageError("--export needs --memory sc: a test cannot hold a store buffer")
    if not args.export.match("test_*.py"):
        raise UsageError(f"--export {args.export}: the name of a guest test is test_*.py")
    writable(args.export.parent)


def _sources(args: argparse.Namespace) -> Sources:
    """What is compiled. Raises UsageError."""
    if args.file:
        files, scenarios = (tuple(map(Path.resolve, paths)) for paths in (args.file, args.scenario))
        return Sources(files, scenarios, kfabric=False, base=Path.cwd())
    if not (source.SOURCE / build.SCENARIOS).is_dir():
        raise needs_checkout("kfabric prove without --file")
    return build.of_kfabric(source.SOURCE)


def _plan(args: argparse.Namespace, sources: Sources) -> Plan:
    words = [word for path in args.file for word in ("--file", str(path))]
    words += [word for path in args.scenario for word in ("--scenario", str(path))]
    mode = Mode(args.mode) if args.mode else None
    return Plan(
        sources,
        args.names,
        Mode.BOUND if args.bound is not None else mode,
        args.bound,
        _memories(args, ("sc",)),
        args.seed,
        args.executions or 0,
        dict(args.seconds),
        args.replay or "",
        args.quick,
        args.records,
        words,
        args.json,
        args.export,
    )
