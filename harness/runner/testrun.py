# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The runs of ``kfabric test``: a pytest for each part, and for each kernel if guests boot."""

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from rich.console import Console

from kfabric import names, root
from kfabric.docs import results
from kfabric.errors import (
    ExitStatus,
    KfabricError,
    UsageError,
    counted,
    needs_checkout,
    report,
)
from kfabric.runner import executions, junit, matrix, rounds, shards, testoptions
from kfabric.runner.matrix import Column
from kfabric.runner.testoptions import TESTS, file_of
from kfabric.steer import search
from kfabric.terminal import tables
from kfabric.terminal.arguments import results_directory
from kfabric.trace import spelling
from kfabric.vm import (
    asked,
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
from kfabric.vm.options import extras
from kfabric.vm.spec import Image, Variant, VmSpec
from kfabric.vm.userbuild import UserModuleError
from kfabric.vm.usermodule import UserModule
from kfabric.vm.versions import Version

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


# Statuses of a run whose tests failed because of what they tested.
_SEEN = frozenset({ExitStatus.TEST_FAILED, ExitStatus.FAULT_FOUND}) | search.OF_GUESTS
_SEARCHED = search.Kind(
    "test", "the same test failed", "no test failed, but the run did", records=True
)
# Those of a run whose guests have tested something.
_OF_TESTS = frozenset(
    {ExitStatus.TEST_FAILED, ExitStatus.PANIC, ExitStatus.HANG, ExitStatus.LOST, ExitStatus.SPLAT}
)


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
    args, paths, options = testoptions.parse(argv)
    tested = usermodule.of(args, map(file_of, paths))
    if root.INSTALLED and (args.results or not tested):
        raise needs_checkout(f"kfabric test {'--results' if tested else 'without a module'}")
    output = results_directory(args.output, REPORTS)
    if tested:
        paths = _tests(tested, paths)
        if usertests.need_kfabric(map(file_of, paths), tested.root, options):
            tested = replace(tested, kfabric=True)
        options += _of_module(tested, output)
    # For all guests of the run, those that tests boot as well.
    os.environ.update(layer.environment(extras(args) | layer.of_environment()))
    os.environ.update(asked.environment(args.memory, args.cpus, args.append))
    kernels = versions.load(prepare.SOURCE).matrix() if args.matrix else args.kernel
    if args.matrix and not paths:
        paths = [str(GUEST)]
    measured = _measurement(["test", *argv], args.results, kernels, options)
    chosen = quick(args.vms, args.tx) if args.quick else parts(paths, args.vms, args.tx)
    chosen = [replace(part, output=output) for part in chosen]
    if args.schedule and {part.name for part in chosen} != {GUEST.name}:
        raise UsageError("--schedule plays tests in guests only", "name some, or a module")
    runs = Runs([], [])
    if args.record:
        executions.forget(output)

    def once() -> rounds.Played:
        nonlocal runs
        runs = Runs([*_ours(args), *options], kernels, tested, args.shard)
        return runs.play(chosen, filtered=bool(options))

    points: list[str] = []
    if args.schedule:
        asked_for = (_SEARCHED, args.schedule, args.points, output, argv)
        known = bool(args.record and args.points and len(args.schedule) == 1)
        found = search.Search(*asked_for, lambda: _ended(once()), known)
        status = found.play()
        points = [f"{one.module}:{one.point}" for one in found.shown_at]
    elif most := args.until_fail or args.until_pass:
        status = rounds.Rounds(most, bool(args.until_pass), output).play(once)
    else:
        status = once().status
    if args.record and status in _OF_TESTS:
        reports = [report for report in runs.reports if report.name.startswith(GUEST.name)]
        if args.schedule:
            # The later runs of a search have written theirs over those of the finding.
            reports = [output / search.KEPT / report.name for report in reports]
        kernel = kernels[0] if kernels else ""
        executions.Records(kernel, tested, tuple(options), output, points).play(reports)
    if len(kernels) > 1 and runs.columns:
        runs.show(output / "matrix.md", measured)
    return status


def _ended(played: rounds.Played) -> search.Ended:
    """How a round has ended, for a search."""
    reports = [report for report in played.reports if report.exists()]
    failed = frozenset(name for report in reports for name in junit.failed(report))
    files = [report.with_suffix(suffix) for report in played.reports for suffix in junit.SUFFIXES]
    return search.Ended(played.status, failed if played.status in _SEEN else frozenset(), files)


def _tests(tested: UserModule, paths: Sequence[str]) -> list[str]:
    """The tests of a module for pytest, which runs in another directory; by default all."""
    if paths:
        return ["::".join([str(file_of(p).resolve()), *p.split("::")[1:]]) for p in paths]
    if tested.directory is None:
        raise UserModuleError("--modprobe without --module needs tests", "name their files")
    return [str(tested.directory)]


def _of_module(tested: UserModule, output: Path) -> list[str]:
    """pytest's options for the tests of a module."""
    options = ["--kfabric-module", usermodule.to_json(tested), f"--rootdir={tested.root}"]
    # pytest would write it below the root.
    return [*options, "-o", f"cache_dir={output / 'pytest_cache'}"]


def _ours(args: argparse.Namespace) -> list[str]:
    """Our options that the plugin gets, too."""
    ours = ["--kfabric-vmcore"] if args.vmcore else []
    ours += [f"--kfabric-shard={args.shard}"] if args.shard else []
    return [*ours, f"--kcidb-origin={args.origin}"]


def _measurement(
    command: Sequence[str], wanted: bool, kernels: Sequence[str], options: Sequence[str]
) -> results.Measurement | None:
    """What writes the results of several kernels, if they are wanted; tests write theirs, too."""
    # A soak on several kernels writes rows of its own.
    tabled = len(kernels) > 1 and not any(word.startswith("--soak-hours") for word in options)
    if wanted:
        os.environ[names.RESULTS] = shlex.join(["kfabric", *command])
    return results.begin("matrix", command, wanted and tabled)


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

    def play(self, chosen: Sequence[Part], filtered: bool) -> rounds.Played:
        """Run each part once; ``filtered`` is that of :func:`combine`."""
        for part in chosen:
            self.all(part)
            if pytest.ExitCode.USAGE_ERROR in self.codes:
                break  # the other parts have the same options
        empty = set(self.codes) == {pytest.ExitCode.NO_TESTS_COLLECTED}
        return rounds.Played(combine(self.codes, filtered), self.reports, empty)

    def show(self, file: Path, measured: results.Measurement | None) -> None:
        """Print and write the table of the kernels."""
        columns = list(self.columns.values())
        tables.show(Console(), matrix.show(columns))
        file.write_text(matrix.markdown(columns))
        prepare.say(f"the same as Markdown: {file}")
        if measured:
            measured.write(", ".join(dict.fromkeys(self.releases)), matrix.markdown(columns))

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
            built = usermodule.build(image, Variant.TEST, self._tested, prepare.say)
            if self._tested.directory and built and usertests.VERIFY in self._options:
                spelling.check_file(self._tested.directory, built)
        ours = [path for path in part.paths if part.name == "guest" and not self._is_theirs(path)]
        argv = fit(part, image.version).argv(self._options, kernel, image.release)
        with precompiling(image, ours):
            code = _run(argv, kernel, *([self._tested.root] if self._tested else []))
        self._mark(part, kernel)
        return code

    def _is_theirs(self, path: str) -> bool:
        """Whether it is below the directory of the user's module, which may be in the checkout."""
        directory = self._tested.directory if self._tested else None
        return directory is not None and file_of(path).resolve().is_relative_to(directory)


def fit(part: Part, version: Version) -> Part:
    """The same part with only as many guests as fit into the host's memory.

    On a host that swaps or kills processes, tests would fail without a fault of their own.
    """
    each = asked.of_environment(VmSpec()).on(version).memory_mib
    available = memory.available_mib()
    number = part.guests if available is None else memory.fitting(available, each)
    if number >= part.guests:
        return part
    prepare.say(
        f"{counted(number, 'guest')} at a time, not {part.guests}: each needs {each} MiB "
        f"and {memory.QEMU_MIB} for QEMU, and the host has {available} MiB available"
    )
    return replace(part, guests=number)


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
    file = file_of(path).resolve()
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
    return file_of(path).resolve().is_relative_to(TESTS)


def precompiling(image: Image, paths: Sequence[str]) -> AbstractContextManager[None]:
    """Write the bytecode of the checkout's tests next to them: guests can only read there.

    It is written while the block runs, and nothing is written next to a user's own tests.
    """
    ours = [path for path in paths if file_of(path).resolve().is_relative_to(prepare.SOURCE)]
    if not ours:
        return contextlib.nullcontext()
    return bytecode.tests(prepare.SOURCE, image, ours, _directory())


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
