# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric test --record``: plays each test that failed once more, in a guest that is recorded.

That guest has one CPU. The execution is kept if the test fails again (docs/replay.md). A race that
--schedule has found gets some tries, in which threads give way at the points of the finding.
"""

import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kfabric import names, root
from kfabric.errors import GuestError, counted
from kfabric.replay import record
from kfabric.replay.execution import OUT, Execution
from kfabric.replay.qemu import OUTPUT
from kfabric.replay.record import Errand
from kfabric.runner import junit
from kfabric.vm import asked, bytecode, prepare, programs, usermodule
from kfabric.vm.errand import DONE
from kfabric.vm.spec import Image, Variant, VmSpec
from kfabric.vm.usermodule import UserModule

MOST = 3
"""Tests that are recorded after one run."""
SECONDS = 600.0
TRIES = 5
"""How often a race is tried, each time with another seed."""
MOST_POINTS = 32
_NO_RESULT = (
    *(pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR),
    *(pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED),
)
"""pytest's statuses that are not those of a test."""
BUILD = prepare.SOURCE / "build"
DIRECTORY = "executions"
PYTEST = ("pytest", "-p", "kfabric.runner.plugin", "-p", "no:cacheprovider")
# The last one undoes a mark that the project's own settings deselect.
OPTIONS = ("-p", "no:hypothesispytest", "--color=no", "--timeout=60", "-q", "-m", "")


@dataclass(frozen=True)
class Records:
    """Records tests.

    Attributes:
        kernel: its name; empty for the default.
        tested: the user's module, if there is one.
        options: pytest's, of the run.
        directory: of the run's files.
        points: where threads give way, each ``MODULE:FUNCTION+0xOFFSET``.
    """

    kernel: str
    tested: UserModule | None
    options: tuple[str, ...]
    directory: Path
    points: Sequence[str] = ()

    def play(self, reports: Iterable[Path]) -> list[Execution]:
        """Record the tests that failed in guests, by JUnit files; those that failed again.

        Raises SetupError.
        """
        kept: list[Execution] = []
        failed = list(self._failed(reports))
        for test in failed[:MOST]:
            if execution := self._record(test):
                kept.append(execution)
        if left := failed[MOST:]:
            prepare.say(f"{counted(len(left), 'other test')} that failed: not recorded")
        return kept

    @property
    def _root(self) -> Path:
        return self.tested.root if self.tested else prepare.SOURCE

    def _failed(self, reports: Iterable[Path]) -> Iterator[str]:
        for report in filter(Path.exists, reports):
            for name in junit.failed(report):
                if test := node(self._root, name):
                    yield test

    def _record(self, test: str) -> Execution | None:
        """Record a test; None if it did not fail."""
        giving = f", and threads give way at {counted(len(self._points), 'point')}"
        prepare.say(f"recording {test}, on one CPU{giving if self._points else ''}")
        for seed in range(1, TRIES + 1 if self._points else 2):
            try:
                if execution := self._once(test, seed):
                    return execution
            except GuestError as error:
                prepare.say(f"not recorded: {error.line()}")
                return None
        return None

    @property
    def _points(self) -> Sequence[str]:
        return self.points[:MOST_POINTS]

    def _once(self, test: str, seed: int) -> Execution | None:
        """Record a test once; None if it passed. Raises GuestError."""
        place = self.directory / DIRECTORY / re.sub(r"[^\w.-]+", "-", test).strip("-")
        began = time.monotonic()
        execution = record.record(self._errand(test, place, seed), place, SECONDS)
        took = f"{time.monotonic() - began:.0f} s"
        status = execution.about.status
        output = (place / OUTPUT).read_text(errors="replace").partition(DONE.decode())[0]
        for line in output.splitlines():
            if line.startswith(names.REFUSED):
                prepare.say(line)
        if status in _NO_RESULT or (self._points and status == names.UNPREPARED):
            shutil.rmtree(place)
            raise GuestError("\n".join(output.splitlines()[-1:]) or f"status {status}")
        if status == 0:
            gave_way = _gave_way(place)
            shutil.rmtree(place)
            prepare.say(f"it passed this time, in {took}{gave_way}: nothing is kept")
            return None
        ended = "it did not end" if status is None else f"it failed again (status {status})"
        prepare.say(f"{ended}, in {took}{_gave_way(place)}")
        prepare.say(f"to replay it ({execution.mib():.0f} MiB): kfabric replay {place}")
        return execution

    def _errand(self, test: str, place: Path, seed: int) -> Errand:
        image = prepare.guest_image(kernel=self.kernel)
        spec = self._spec(image)
        out = (place / OUT).absolute()
        env = {names.OUT: str(out), **programs.environment(out), **spec.env, names.RECORDED: "1"}
        built = [Path(path) for path in filter(None, [spec.env.get(names.MODULE_DIR)])]
        if spec.variant:
            built.append(BUILD / "kmod" / image.builds / spec.variant.value)
            env[names.MODULES] = str(built[-1])
        bytecode.packages(prepare.SOURCE, image)
        return Errand(
            what=test,
            spec=spec,
            image=image,
            directories=list(dict.fromkeys([prepare.SOURCE, self._root, *built])),
            left_out=[
                *(path for path in BUILD.iterdir() if path.name != "python"),
                *(path / "src" for path in built),
                self.directory.absolute(),
            ],
            modules=[path / "src" for path in built],
            commands=list(self._commands(test, seed)),
            env={**env, "PYTHONPATH": root.python_path(prepare.SOURCE)},
            cwd=self._root,
        )

    def _spec(self, image: Image) -> VmSpec:
        """The guest's, as that of the other tests, but with one CPU."""
        asked_for = asked.of_environment(VmSpec(variant=None if self.tested else Variant.TEST))
        if self.tested:
            asked_for = usermodule.with_module(asked_for, image, self.tested, prepare.say)
        return replace(asked_for, cpus=1).on(image.version)

    def _commands(self, test: str, seed: int) -> Iterator[list[str]]:
        """Modules of Python, and their arguments."""
        if self.tested:
            yield ["kfabric.guest.usermodule", *([] if self.tested.load else ["--unloaded"])]
        if self._points:
            yield ["kfabric.guest.giveway", str(seed), *self._points]
        yield [*PYTEST, *self.options, *OPTIONS, test]


def forget(directory: Path) -> None:
    """Remove the executions of an earlier run."""
    shutil.rmtree(directory / DIRECTORY, ignore_errors=True)


def _gave_way(place: Path) -> str:
    """How often threads gave way in a recorded guest, in words; empty if they were not to."""
    log = place / OUT / names.GAVE_WAY
    if not log.exists():
        return ""
    return f", threads gave way {counted(len(log.read_text().splitlines()), 'time')}"


def node(top: Path, name: str) -> str:
    """The test of a name in a JUnit file, as pytest takes it; empty if there is no such file.

    Args:
        top: pytest's root.
        name: module, class and test, with dots between them.
    """
    words, bracket, parameters = name.partition("[")
    parts = words.split(".")
    for number in range(len(parts) - 1, 0, -1):
        file = Path(*parts[:number]).with_suffix(".py")
        if (top / file).is_file():
            return "::".join([str(file), *parts[number:]]) + bracket + parameters
    return ""
