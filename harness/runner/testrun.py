# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""kfabric test: runs tests on the host, tests that boot guests, and tests in guests.

Each part is a pytest run with its own closing line. Arguments are pytest's: paths choose the
tests (tests/unit, tests/browser, tests/vm, tests/wire, tests/debug and tests/model run on the
host, all others in guests), options go to all parts. Parts that boot guests run once for each
chosen kernel.
"""

import argparse
import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from rich.console import Console

from kfabric import names, root
from kfabric.docs import results
from kfabric.errors import ExitStatus, KfabricError, UsageError, near, needs_checkout, report
from kfabric.runner import junit, kcidb, matrix, rounds, shards
from kfabric.runner.matrix import Column
from kfabric.terminal import tables
from kfabric.terminal.arguments import Parser, results_directory, whole
from kfabric.vm import (
    bytecode,
    kbuild,
    layer,
    memory,
    prepare,
    source,
    tools,
    usermodule,
    usertests,
    versions,
)
from kfabric.vm.options import (
    KDIR_HELP,
    VMCORE_HELP,
    add_image_options,
    extras,
    kernel_help,
    kernel_name,
    kernel_tree,
)
from kfabric.vm.spec import Image, Variant, VmSpec
from kfabric.vm.userbuild import UserModuleError
from kfabric.vm.usermodule import UserModule
from kfabric.vm.versions import Version

TESTS = prepare.SOURCE / "tests"
UNIT = TESTS / "unit"
# Host tests that open reports and traces in a browser.
BROWSER = TESTS / "browser"
# Host tests that boot guests of their own, to test the harness or to drive a guest.
VM = TESTS / "vm"
MODEL = TESTS / "model"
# Like VM, with two guests on one wire, or on kernels that take long to build. These run only
# if they are named.
WIRE = TESTS / "wire"
DEBUG = TESTS / "debug"
GUEST = TESTS / "guest"
# Guests wait more than they compute, but each needs more than a gigabyte: see fit().
GUESTS = 2
# Processes for a whole part on the host; the tests of a file stay together, since they may
# share a guest.
WORKERS = 2
REPORTS = source.results() / "test"
# How long pytest may take to end its guests after Ctrl-C.
INTERRUPT_SECONDS = 60.0

# Our numbers for pytest's statuses. INTERRUPTED includes a file that cannot be imported.
_STATUSES: dict[int, ExitStatus] = {
    pytest.ExitCode.INTERRUPTED: ExitStatus.TEST_FAILED,
    pytest.ExitCode.INTERNAL_ERROR: ExitStatus.TEST_FAILED,
    pytest.ExitCode.USAGE_ERROR: ExitStatus.USAGE,
    pytest.ExitCode.NO_TESTS_COLLECTED: ExitStatus.TEST_FAILED,
}

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


# The last letter of short options that take a separate value, such as -xk.
_LETTERS = frozenset("ckmnoprW")


class NoSuchTest(UsageError, label="no such test"):
    """A file, a directory or a test in a file that does not exist."""


@dataclass(frozen=True)
class Part:
    """One pytest run."""

    name: str
    paths: tuple[str, ...]
    guests: int = 0
    """Guests of this machine."""
    workers: int = 0
    """Processes on the host; 0: pytest itself."""
    far: tuple[str, ...] = ()
    """execnet's specifications of more guests, on other machines."""
    mark: str = ""
    """Run only the tests with this mark."""
    output: Path = field(default_factory=lambda: REPORTS)
    """Directory of the run's files."""

    @property
    def boots(self) -> bool:
        """Whether it boots guests, so that the kernel matters."""
        return self.name not in ("unit", "browser")

    def report(self, kernel: str) -> Path:
        """The JUnit file; ``kernel`` is the user's name of it, or empty."""
        return self.output / f"{self.name}{f'-{versions.label(kernel)}' if kernel else ''}.xml"

    def argv(self, options: Sequence[str], kernel: str = "", release: str = "") -> list[str]:
        """The command line; ``release`` is that of the guests' kernel, for the report."""
        suite = f"{self.name} linux-{release}" if release else self.name
        argv = [sys.executable, "-m", "pytest", "-p", "kfabric.runner.plugin", "-rs"]
        argv += [f"--junitxml={self.report(kernel)}", "-o", f"junit_suite_name={suite}"]
        argv += [f"--ktap={self.report(kernel).with_suffix('.ktap')}"]
        argv += [f"--kcidb={self.report(kernel).with_suffix('.kcidb.json')}"]
        argv += ["--kfabric-vms", str(self.guests)] if self.guests else []
        argv += [f"--kfabric-tx={spec}" for spec in self.far]
        own = str(self.output / versions.label(kernel))
        argv += ["--kfabric-dir", own] if self.name == "guest" else []
        argv += ["-n", str(self.workers), "--dist", "loadfile"] if self.workers else []
        argv += ["-m", self.mark] if self.mark else []
        return [*argv, *options, *self.paths]


def main(argv: Sequence[str]) -> int:
    """Run the tests; returns the worst status of the parts."""
    args, rest = _parse(argv)
    paths, options = split(rest)
    if args.quick and (paths or args.matrix or args.module or args.modprobe):
        raise UsageError("--quick chooses the tests itself", "leave it out to name others")
    tested = usermodule.of(args, map(_file, paths))
    if root.INSTALLED and (args.results or not tested):
        raise needs_checkout(f"kfabric test {'--results' if tested else 'without a module'}")
    output = results_directory(args.output, REPORTS)
    if tested:
        # pytest runs in another directory.
        paths = ["::".join([str(_file(p).resolve()), *p.split("::")[1:]]) for p in paths]
        paths = paths or _tests(tested)
        if usertests.need_kfabric(map(_file, paths), tested.root, options):
            tested = replace(tested, kfabric=True)
        options += ["--kfabric-module", usermodule.to_json(tested), f"--rootdir={tested.root}"]
        # pytest would write it below the root.
        options += ["-o", f"cache_dir={output / 'pytest_cache'}"]
    # For all guests of the run, those that tests boot as well.
    os.environ.update(layer.environment(extras(args) | layer.of_environment()))
    known = versions.load(prepare.SOURCE)
    kernels = known.matrix() if args.matrix else args.kernel
    if args.matrix and not paths:
        paths = [str(GUEST)]
    ours = ["--kfabric-vmcore"] if args.vmcore else []
    ours += [f"--kfabric-shard={args.shard}"] if args.shard else []
    ours += [f"--kcidb-origin={args.origin}"]
    command = ["test", *argv]
    # A soak on several kernels writes rows of its own.
    tabled = len(kernels) > 1 and not any(word.startswith("--soak-hours") for word in options)
    measured = results.begin("matrix", command, args.results and tabled)
    if args.results:
        os.environ[names.RESULTS] = shlex.join(["kfabric", *command])
    chosen = quick(args.vms, args.tx) if args.quick else parts(paths, args.vms, args.tx)
    runs = Runs([], [])

    def once() -> rounds.Played:
        nonlocal runs
        runs = Runs([*ours, *options], kernels, tested, args.shard)
        for part in chosen:
            runs.all(replace(part, output=output))
            if pytest.ExitCode.USAGE_ERROR in runs.codes:
                break  # the other parts have the same options
        empty = set(runs.codes) == {pytest.ExitCode.NO_TESTS_COLLECTED}
        return rounds.Played(combine(runs.codes, filtered=bool(options)), runs.reports, empty)

    if most := args.until_fail or args.until_pass:
        status = rounds.Rounds(most, bool(args.until_pass), output).play(once)
    else:
        status = once().status
    if len(kernels) > 1 and runs.columns:
        columns = list(runs.columns.values())
        tables.show(Console(), matrix.show(columns))
        table = output / "matrix.md"
        table.write_text(matrix.markdown(columns))
        prepare.say(f"the same as Markdown: {table}")
        if measured:
            measured.write(", ".join(dict.fromkeys(runs.releases)), matrix.markdown(columns))
    return status


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
        elif _file(word).exists():
            _require_test(word)
            paths.append(word)
        elif _takes_a_value(before) and not word.partition("::")[0].endswith(".py"):
            options.append(word)
        else:
            files = [path.stem for path in TESTS.glob("*/test_*.py")]
            raise NoSuchTest(word, near(_file(word).stem, files, f"not in {Path.cwd()}"))
    return paths, options


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


class Runs:
    """The pytest runs of one call, on some kernels (none: the default), and their results."""

    def __init__(
        self,
        options: Sequence[str],
        kernels: Sequence[str],
        tested: UserModule | None = None,
        shard: shards.Shard | None = None,
    ) -> None:
        self.codes: list[int] = []
        self.reports: list[Path] = []
        self.columns: dict[str, Column] = {}
        self.releases: list[str] = []
        self._options = options
        self._kernels = kernels or [""]
        self._tested = tested
        self._shard = shard

    def all(self, part: Part) -> None:
        if part.name == "browser":
            tools.install(prepare.SOURCE, "browser", "the browser tests cannot be set up")
        if not part.boots:
            self._forget(part)
            self.codes.append(_run(part.argv(self._options)))
            self._mark(part)
            return
        for kernel in self._kernels:
            began = time.monotonic()
            try:
                code = self._on(part, kernel)
            except KfabricError as error:
                if len(self._kernels) == 1:
                    raise
                # Other kernels may still have results.
                code = report(error)
            self.codes.append(code)
            seconds = time.monotonic() - began
            column = matrix.read(kernel, [part.report(kernel)], seconds, code)
            before = self.columns.setdefault(kernel, column)
            if before is not column:
                before.files.update(column.files)
                before.note = before.note or column.note
                before.seconds += seconds

    def _forget(self, part: Part, kernel: str = "") -> None:
        """Remove the files of an earlier run; a run that breaks off writes none."""
        report = part.report(kernel)
        self.reports.append(report)
        for suffix in junit.SUFFIXES:
            report.with_suffix(suffix).unlink(missing_ok=True)

    def _mark(self, part: Part, kernel: str = "") -> None:
        """Write into the JUnit file which shard it is."""
        report = part.report(kernel)
        if self._shard and report.exists():
            junit.mark(report, {"shard": str(self._shard)})

    def _on(self, part: Part, kernel: str) -> int:
        self._forget(part, kernel)
        image = _prepare(kernel, not self._tested or any(map(_is_of_checkout, part.paths)))
        self.releases.append(image.release)
        if self._tested:
            usermodule.build(image, Variant.TEST, self._tested, prepare.say)
        if part.name == "guest":
            precompile(image, [path for path in part.paths if not self._is_theirs(path)])
        argv = fit(part, image.version).argv(self._options, kernel, image.release)
        code = _run(argv, kernel, *([self._tested.root] if self._tested else []))
        self._mark(part, kernel)
        return code

    def _is_theirs(self, path: str) -> bool:
        """Whether it is below the directory of the user's module, which may be in the checkout."""
        directory = self._tested.directory if self._tested else None
        return directory is not None and _file(path).resolve().is_relative_to(directory)


def fit(part: Part, version: Version) -> Part:
    """The same part with only as many guests as fit into the host's memory.

    On a host that swaps or kills processes, tests would fail without a fault of their own.
    """
    each, available = VmSpec().on(version).memory_mib, memory.available_mib()
    number = part.guests if available is None else memory.fitting(available, each)
    if number >= part.guests:
        return part
    prepare.say(
        f"{number} guest(s) at a time, not {part.guests}: each needs {each} MiB "
        f"and {memory.QEMU_MIB} for QEMU, and the host has {available} MiB available"
    )
    return replace(part, guests=number)


def _tests(tested: UserModule) -> list[str]:
    """Where the tests of a module are if the user does not name them."""
    if tested.directory is None:
        raise UserModuleError("--modprobe without --module needs tests", "name their files")
    return [str(tested.directory)]


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = Parser(
        prog="kfabric test",
        description=__doc__,
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
        default=GUESTS,
        metavar="N",
        help="guests at a time; fewer if the host lacks memory",
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
    again.add_argument(
        "--until-fail",
        type=whole(1),
        metavar="N",
        help="play the tests until a round fails, at most N rounds, and show the host's load",
    )
    again.add_argument(
        "--until-pass",
        type=whole(1),
        metavar="N",
        help="play the tests until a round passes, at most N rounds, and show the host's load",
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
    kernels = parser.add_mutually_exclusive_group()
    kernels.add_argument(
        "--kernel",
        action="append",
        type=kernel_name,
        default=[],
        metavar="NAME",
        help=f"run guests on this kernel, may be repeated: {kernel_help()}",
    )
    kernels.add_argument(
        "--kdir",
        action="append",
        dest="kernel",
        type=kernel_tree,
        metavar="DIR",
        help=f"{KDIR_HELP}, may be repeated",
    )
    kernels.add_argument(
        "--matrix",
        action="store_true",
        help="run on each stock kernel; without paths: only tests in guests",
    )
    parser.add_argument(results.OPTION, action="store_true", help=results.HELP)
    args, rest = parser.parse_known_args(list(argv))
    if not (args.vms or args.tx):
        parser.error("at least one guest is needed")
    return args, [word for word in rest if word != "--"]


def _file(path: str) -> Path:
    """The file or directory of pytest's path, without the name of a test."""
    return Path(path.split("::")[0])


def parts(paths: Sequence[str], guests: int, far: Sequence[str] = ()) -> list[Part]:
    """The parts that run these paths, or everything if there are none."""
    chosen: dict[str, list[str]] = {"unit": [], "browser": [], "vm": [], "wire": [], "guest": []}
    for path in paths or map(str, (UNIT, BROWSER, VM, MODEL, GUEST)):
        chosen[_place(path)].append(path)
    workers = 0 if paths else WORKERS
    return [
        Part(name, tuple(files), guests, far=tuple(far))
        if name == "guest"
        else Part(name, tuple(files), 0, workers)
        for name, files in chosen.items()
        if files
    ]


def quick(guests: int, far: Sequence[str] = ()) -> list[Part]:
    """The parts that tell most in few minutes: the unit tests, and the core of those in guests."""
    return [
        Part("unit", (str(UNIT),), workers=WORKERS),
        Part("guest", (str(GUEST),), guests, far=tuple(far), mark="core"),
    ]


def _place(path: str) -> str:
    """Name of the part that runs a path."""
    file = _file(path).resolve()
    if file.is_relative_to(UNIT):
        return "unit"
    if file.is_relative_to(BROWSER):
        return "browser"
    if file.is_relative_to(WIRE):
        return "wire"
    return "vm" if any(map(file.is_relative_to, (VM, MODEL, DEBUG))) else "guest"


def _prepare(kernel: str, ours: bool) -> Image:
    """Build image and modules before pytest starts, so that the terminal shows their progress."""
    image = prepare.guest_image(kernel=kernel)
    if ours:
        kbuild.ensure(prepare.SOURCE, image, Variant.TEST, prepare.say)
    return image


def _is_of_checkout(path: str) -> bool:
    """Whether a path is one of our own tests, which may need any of our modules."""
    return _file(path).resolve().is_relative_to(TESTS)


def precompile(image: Image, paths: Sequence[str]) -> None:
    """Write the bytecode of the checkout's tests next to them: guests can only read there.

    Nothing is written next to a user's own tests.
    """
    ours = [path for path in paths if _file(path).resolve().is_relative_to(prepare.SOURCE)]
    if ours:
        bytecode.tests(prepare.SOURCE, image, ours, _directory())


def _run(argv: Sequence[str], kernel: str = "", directory: Path | None = None) -> int:
    """Run pytest to its end, or through its clean-up after Ctrl-C; its own status.

    Args:
        kernel: of all guests that it boots.
        directory: to run it in, the same in guests; default: the user's.
    """
    path = [root.python_path(prepare.SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    env |= {versions.ENVIRONMENT: kernel} if kernel else {}
    # A user's tests are imported on the host, too.
    env |= {"PYTHONDONTWRITEBYTECODE": "1"} if directory else {}
    process = subprocess.Popen(argv, cwd=directory or _directory(), env=env)
    try:
        return process.wait()
    except (KeyboardInterrupt, SystemExit):
        # After Ctrl-C, which pytest has also received, it ignores this signal
        # (kfabric.runner.interrupts).
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(INTERRUPT_SECONDS)
        raise
    finally:
        process.kill()
        process.wait()


def _directory() -> Path:
    """The directory that relative paths refer to: this one if the guest has it."""
    here = Path.cwd()
    return here if here.is_relative_to(prepare.SOURCE) else prepare.SOURCE


def combine(codes: Sequence[int], filtered: bool) -> int:
    """One status of all parts: that of a broken machine wins over a failed test.

    Args:
        codes: pytest's own, or ours that it passed on.
        filtered: options may have deselected all tests of a part on purpose.
    """
    empty = pytest.ExitCode.NO_TESTS_COLLECTED
    counted = [code for code in codes if code != empty] if filtered else list(codes)
    return max(map(status_of, counted or codes), default=ExitStatus.USAGE)


def status_of(code: int) -> int:
    """Translate pytest's status; its 0 and 1 and our own stay the same."""
    if code < 0:
        return 128 - code
    return int(_STATUSES.get(code, code))
