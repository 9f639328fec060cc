# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The command line of ``kfabric test``: its options, and the paths and options for pytest."""

import argparse
import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from kfabric.docs import results
from kfabric.errors import UsageError, near
from kfabric.runner import kcidb, shards
from kfabric.steer import search
from kfabric.terminal.arguments import Parser, whole
from kfabric.vm import prepare, userbuild, usermodule, usertests
from kfabric.vm.options import (
    VMCORE_HELP,
    add_image_options,
    add_kernel_option,
    add_machine_options,
)
from kfabric.vm.spec import VmSpec

TESTS = prepare.SOURCE / "tests"
# Guests wait more than they compute, but each needs more than a gigabyte: see fit().
GUESTS = 2

_DESCRIPTION = """\
kfabric test: runs tests on the host, tests that boot guests, and tests in guests.

Each part is a pytest run with its own closing line. Arguments are pytest's: paths choose the
tests (tests/unit, tests/browser, tests/vm, tests/wire, tests/debug and tests/model run on the
host, all others in guests), options go to all parts. Parts that boot guests run once for each
chosen kernel.
"""

# Options of pytest, its plugins and ours that take a separate value.
_TAKE_A_VALUE = frozenset(
    "-c -k -m -n -o -p -r -W --basetemp --capture --color --confcutdir --config-file --deselect "
    "--dist --durations --durations-min --ignore --ignore-glob --import-mode --junit-prefix "
    "--junit-xml --junitxml --kcidb --kfabric-dir --kfabric-shard --kfabric-silence --kfabric-tx "
    "--kfabric-vms --ktap --last-failed-no-failures --lfnf --log-cli-level --log-file "
    "--log-level --maxfail --maxprocesses --numprocesses --override-ini --pythonwarnings "
    "--rootdir --rsyncdir --show-capture --soak-hours --tb --timeout --timeout-method --tx "
    "--verbosity".split()
)
# How much of a word is the same in another one, if it was meant: one slip in a long word.
_CLOSE = 0.85
# The last letter of short options that take a separate value, such as -xk.
_LETTERS = frozenset("ckmnoprW")


class NoSuchTest(UsageError, label="no such test"):
    """A file, a directory or a test in a file that does not exist."""


def parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str], list[str]]:
    """Our options, the paths of the tests, and pytest's options with their values.

    Raises:
        NoSuchTest: a word that can only be a test does not exist.
        UsageError: options exclude each other.
    """
    parser = _parser()
    args, rest = parser.parse_known_args(list(argv))
    if args.vms == 0 and not args.tx:
        parser.error("at least one guest is needed")
    _require_guests_here(args)
    _require_no_slip(rest, [*parser.option_strings, usertests.VERIFY])
    paths, options = split([word for word in rest if word != "--"])
    if args.quick and (paths or args.matrix or args.module or args.modprobe):
        raise UsageError("--quick chooses the tests itself", "leave it out to name others")
    if not (args.module or args.modprobe):
        _require_no_module(paths)
    if args.vms is None:
        named = paths or [str(args.module)] * bool(args.module)
        args.vms = 1 if args.schedule or usertests.is_one(named) else GUESTS
    return args, paths, options


def _require_guests_here(args: argparse.Namespace) -> None:
    """Raise UsageError for guests that cannot be steered or recorded."""
    search.check_options(args)
    several = args.matrix or len(args.kernel) > 1
    for option in ("record", "schedule"):
        if getattr(args, option) and several:
            raise UsageError(f"--{option} takes one kernel", "leave the others out")
    if args.schedule and args.tx:
        raise UsageError("--schedule steers the guests of this machine alone", "leave out --tx")


def _parser() -> Parser:
    parser = Parser(
        prog="kfabric test",
        # What looks like one of our options may be one of the tests' own.
        allow_abbrev=False,
        description=_DESCRIPTION,
        epilog="For example: kfabric test --vms 2 tests/guest/test_wait_set.py -k lost. With "
        "--verify-wakeups, the wake-ups of each test in a guest are checked as well.",
    )
    usermodule.add_options(parser)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only the unit tests, and in guests those marked core",
    )
    add_image_options(parser)
    add_machine_options(parser, VmSpec().memory_mib)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="for all files of the run (docs/ci.md); default: build/test",
    )
    parser.add_argument("--vmcore", action="store_true", help=VMCORE_HELP)
    parser.add_argument(
        "--vms",
        type=whole(0),
        metavar="N",
        help="guests at a time; fewer if the host lacks memory (default: 2, and 1 for one test "
        "or with --schedule)",
    )
    parser.add_argument(
        "--tx",
        action="append",
        default=[],
        metavar="[N*]ssh=HOST",
        help="also N guests of another machine with the same checkout (docs/ci.md); with "
        "--vms 0 only those",
    )
    again = parser.add_mutually_exclusive_group()
    for option, end in (("--until-fail", "fails"), ("--until-pass", "passes")):
        text = f"play the tests until a round {end}, at most N rounds, and show the host's load"
        again.add_argument(option, type=whole(1), metavar="N", help=text)
    search.add_options(parser, again, "a test fails")
    parser.add_argument(
        "--record",
        action="store_true",
        help="play each test that failed in a guest once more, and keep its execution if it fails "
        "again, for kfabric replay (docs/replay.md); with --schedule also one that it found",
    )
    parser.add_argument(
        "--shard",
        type=shards.parse,
        metavar="K/N",
        help="run the K-th of N shards of the tests; kfabric merge merges the results",
    )
    parser.add_argument(
        "--origin",
        type=kcidb.origin,
        default=kcidb.ORIGIN,
        metavar="NAME",
        help="the CI system's name in the files for KCIDB",
    )
    kernels = add_kernel_option(parser, several=True)
    kernels.add_argument(
        "--matrix",
        action="store_true",
        help="run on each stock kernel; without paths: only tests in guests",
    )
    parser.add_argument(results.OPTION, action="store_true", help=results.HELP)
    return parser


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split pytest's arguments into paths of tests, and options with their values.

    Raises:
        NoSuchTest: a word that can only be a test does not exist.
    """
    paths: list[str] = []
    options: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if before in _TAKE_A_VALUE or word[:1] in ("-", "@"):
            options.append(word)
        elif file_of(word).exists():
            _require_test(word)
            paths.append(word)
        elif _takes_a_value(before) and not word.partition("::")[0].endswith(".py"):
            options.append(word)
        else:
            raise NoSuchTest(word, near(file_of(word).stem, _beside(word), f"not in {Path.cwd()}"))
    return paths, options


def _beside(path: str) -> list[str]:
    """The test files in the directory of a path; in ours, if it names none that exists."""
    directory = file_of(path).parent
    if "/" in path and directory.is_dir():
        return [file.stem for file in directory.glob("test_*.py")]
    return [file.stem for file in TESTS.glob("*/test_*.py")]


def _require_no_slip(words: Sequence[str], ours: Sequence[str]) -> None:
    """Raise UsageError for an option like one of ours: pytest would refuse it after the builds.

    Options after ``--`` are not looked at: the user's tests may define such a one.
    """
    for word in words[: words.index("--") if "--" in words else None]:
        name = word.partition("=")[0]
        if name.startswith("--") and name not in (*_TAKE_A_VALUE, *ours):
            if found := difflib.get_close_matches(name, ours, 1, _CLOSE):
                hint = f"did you mean {found[0]}? An option of your tests goes after --"
                raise UsageError(f"unknown option {name}", hint)


def _require_no_module(paths: Sequence[str]) -> None:
    """Raise UsageError for a module's directory: its tests would run without the module."""
    for path in paths:
        if file := userbuild.module_file(Path(path)):
            raise UsageError(f"{path} has a {file}", f"did you mean --module {path}?")


def _takes_a_value(option: str) -> bool:
    """Whether an option that we do not know may take the next word as its value."""
    if option.startswith("--"):
        return "=" not in option
    return option.startswith("-") and option[-1] in _LETTERS


def _require_test(path: str) -> None:
    """Raise NoSuchTest if a path names a test that its file does not mention."""
    file, _, names = path.partition("::")
    name = re.split(r"::|\[", names)[0]
    if name and Path(file).is_file():
        text = Path(file).read_text(errors="replace")
        if not re.search(rf"\b{re.escape(name)}\b", text):
            known = re.findall(r"^\s*(?:async )?(?:def|class) ([Tt]est\w*)", text, re.MULTILINE)
            raise NoSuchTest(path, near(name, known, f"not in {file}"))


def file_of(path: str) -> Path:
    """The file or directory of pytest's path, without the name of a test."""
    return Path(path.split("::")[0])
