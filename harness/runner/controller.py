# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The plugin's part on the host: guests as workers, and what their ends mean.

A guest's end is the failure of the test that ran in it, if one did; what comes
to light after the last test still decides the exit status.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from harness.errors import ExitStatus, KfabricError
from harness.guest import worker
from harness.names import SUSPECTS
from harness.runner import far, junit
from harness.runner.outcome import GREEN, WHOLE, Trouble
from harness.runner.pool import Boot, Ending, Life, Pool, Slot
from harness.vm import prepare, ulp, versions, vmcore
from harness.vm.spec import VmSpec

# xdist gives its gateways 10 s to end; what is left of a guest then has ended.
FINISH_SECONDS = 15.0
# How many of the tests that did not run are named.
NAMED = 20
# What xdist calls the end of a worker that had begun; else it has a traceback.
_DEATHS = ("Not properly terminated", "keyboard-interrupt")


class StartError(KfabricError):
    """pytest does not start in a guest: an option, a plugin or a conftest is wrong there."""

    status = ExitStatus.USAGE
    label = "cannot test"


@dataclass(frozen=True)
class Reason:
    """What pytest and JUnit show of a failure in one line."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Blame:
    """A guest's end as the failure of a test; JUnit has no place but this for the console."""

    reprcrash: Reason
    text: str

    def __str__(self) -> str:
        return self.text


class Controller:
    """Boots the guests, lets xdist use them, and reads their endings.

    :param config: of the process that the user started.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.directory = _directory(config)
        """Where the guests leave console and files."""
        self._boot_seconds = 0.0
        self._pool = Pool(
            [("", self._boot)] * config.option.kfabric_vms + self._far(),
            self.directory,
            Path(config.invocation_params.dir),
            config.option.kfabric_silence * versions.load(prepare.SOURCE).find().slow,
        )
        # Gateway id -> how its guest ended.
        self._crashes: dict[str, Ending] = {}
        # Guest -> the last tests that it finished, and what the reports of those that failed said.
        self._finished: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=SUSPECTS))
        self._told: dict[str, list[str]] = defaultdict(list)
        # Gateway id -> the last test that had only its teardown left.
        self._called: dict[str, str] = {}
        self._unexplained: list[Ending] = []
        self._listed: Sequence[str] = ()
        self._reported: set[str] = set()
        given = config.getoption("xmlpath", None)
        self._junit = junit.path(given) if given else None
        self._given_up = False
        self._begun = False
        self._fatal: KfabricError | None = None
        self._finish_seconds = FINISH_SECONDS
        if config.option.kfabric_vmcore:
            self._finish_seconds += vmcore.DUMP_SECONDS
        _distribute(config, self._pool)

    def _boot(self, name: str, directory: Path) -> Any:
        hook = self._config.hook
        return hook.pytest_kfabric_boot(config=self._config, name=name, directory=directory)

    def _far(self) -> list[tuple[str, Boot]]:
        """How to boot the guests of other machines, one for each."""
        given = self._config.option.kfabric_ulp
        tested = ulp.from_json(given) if given else None
        return [
            (f"@{far.host(spec)}", partial(far.boot, spec, tested))
            for spec in far.expand(self._config.option.kfabric_tx)
        ]

    @pytest.hookimpl
    def pytest_report_header(self) -> str:
        """Say what the guests cost, and where they leave their consoles."""
        began = f"up after {self._boot_seconds:.1f} s"
        return f"kfabric: {self._guests()}, {began}, consoles in {self.directory}"

    def _guests(self) -> str:
        """How many, and of which size."""
        version = versions.load(prepare.SOURCE).find()
        return f"{len(self._pool.slots)} guest(s) of {VmSpec().on(version).memory_mib} MiB"

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionstart(self) -> Generator[None]:
        """Boot all guests at once, before xdist asks for the first."""
        prepare.say(f"booting {self._guests()}")
        began = time.monotonic()
        try:
            self._pool.start()
        except KfabricError as error:
            self._exit(error)
        self._boot_seconds = time.monotonic() - began
        yield from self._explaining_boot_failures()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        """Turn the failure to replace a guest into an end with one clear line."""
        self._begun = True
        return (yield from self._explaining_boot_failures())

    def _explaining_boot_failures(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        except (EOFError, OSError):
            # All that execnet knows of a guest that did not boot is an end of file.
            if error := self._pool.failure_to_boot():
                self._exit(error)
            raise

    def _exit(self, error: KfabricError) -> NoReturn:
        """End the run with one line: no test failed, the guests did.

        pytest shows the failures before it only behind a status of its own, which we change then.
        """
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal and error.console:
            terminal.write_line(error.console)
        self._fatal = error
        pytest.exit(error.line(), returncode=None if self._begun else int(error.status))

    @pytest.hookimpl
    def pytest_xdist_getremotemodule(self) -> Any:
        """Let the guest use its own Python packages."""
        return worker

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Keep together what shares an expensive beginning."""
        # xdist is there when guests are asked for, but this file is imported earlier.
        from harness.runner.schedule import Together

        self._scheduler = Together(config, log)
        return self._scheduler

    @pytest.hookimpl
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Remember what is to run, which is the same in all guests."""
        self._listed = ids

    def _slot(self, node: Any) -> Slot:
        return self._pool.of_spec(node.gateway.spec.python)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what ran in which guest, and what it told of it."""
        self._reported.add(report.nodeid)
        node = getattr(report, "node", None)
        if node is None or node.gateway.id in self._crashes:
            return
        guest = self._slot(node).life.name
        if report.when == "call" or not report.passed:
            self._called[node.gateway.id] = report.nodeid
        if report.when == "teardown":
            self._finished[guest].append(report.nodeid)
        if report.failed:
            texts = [report.longreprtext, *(text for _, text in report.sections)]
            self._told[guest] += texts

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Find out how a guest ended, and boot the next one for its slot."""
        if not error:
            self._slot(node).life.idle = True
            return
        if error not in _DEATHS:
            # Its session has not even begun; it would not in another guest either.
            self._exit(StartError("the tests do not start in a guest", console=str(error)))
        slot = self._slot(node)
        ending = self._without_told(slot.life.finish(self._finish_seconds))
        self._crashes[node.gateway.id] = ending
        if ending.retired:
            self._retire(node, ending)
        if not (ending.retired and ending.clean):
            # Until a test takes the blame.
            self._unexplained.append(ending)
        slot.start()

    def _retire(self, node: Any, ending: Ending) -> None:
        """Have another guest go on where this one, which a test has harmed, stopped."""
        if terminal := self._config.pluginmanager.getplugin("terminalreporter"):
            terminal.write_line(f"\nkfabric: a test harmed {ending.name}: others get a new guest")
            if ending.stderr:
                terminal.write_line(ending.stderr)
        self._scheduler.retire(node)
        # xdist is about to count a crash; only those must have an end.
        self._config.pluginmanager.getplugin("dsession")._failed_nodes_count -= 1

    def _without_told(self, ending: Ending) -> Ending:
        """An ending without those of the kernel's reports that a test's failure tells."""
        told = "\n".join(self._told[ending.name])
        untold = tuple(splat for splat in ending.splats if f": {splat.title}\n" not in told)
        return replace(ending, splats=untold)

    @pytest.hookimpl
    def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
        """Make the guest's end the failure of the test that ran in it."""
        gateway = report.node.gateway.id
        ending = self._crashes.get(gateway)
        if ending is None:
            return
        self._unexplained.remove(ending)
        file, _, name = crashitem.partition("::")
        called = self._called.get(gateway) == crashitem
        report.when = "teardown" if called else "call"
        report.location = (file, None, name.replace("::", "."))
        report.longrepr = self._blame(f"{'tore down' if called else 'ran'} {crashitem}", ending)
        if ending.stderr:
            report.sections.append(("standard error of the test process", ending.stderr))
        # xdist counts other failures only, and -x and --maxfail mean this one, too.
        self._config.pluginmanager.getplugin("dsession")._handlefailures(report)

    def _blame(self, doing: str, ending: Ending) -> Blame:
        lines = [ending.reason(), f"while it {doing}"]
        if before := self._finished[ending.name]:
            lines.append(f"it had run before, and may suffer from: {', '.join(before)}")
        lines += [f"the end of {ending.name}'s console:", ending.console]
        reports = [splat.text for splat in ending.splats if splat.title not in ending.console]
        lines += [f"the kernel had said:\n{text}" for text in reports]
        return Blame(Reason(ending.reason()), "\n".join(lines))

    def troubles(self) -> list[Trouble]:
        """The bad ends of guests that no test's report tells of, and what these prevented."""
        return [*map(self._trouble, self._unexplained), *self._not_run()]

    def _trouble(self, ending: Ending) -> Trouble:
        """A bad end with those that may be the cause."""
        before = ", ".join(self._finished[ending.name])
        suspects = [f"these had run there before: {before}"] if before else []
        return Trouble(ending.name, ending.reason(), "\n".join([*suspects, *ending.evidence()]))

    def _not_run(self) -> list[Trouble]:
        """The tests that nobody has run, unless the run was asked to stop."""
        missing = [test for test in self._listed if test not in self._reported]
        if (self._given_up and not self._fatal) or not missing:
            return []
        crashes = sum(not ending.retired for ending in self._crashes.values())
        why = self._fatal.line() if self._fatal else f"{crashes} guests had crashed"
        names = missing[:NAMED] + ["…"] * (len(missing) > NAMED)
        lines = [f"{why}; what did not run:", *names]
        return [Trouble(WHOLE, f"{len(missing)} tests did not run", "\n".join(lines))]

    @pytest.hookimpl
    def pytest_keyboard_interrupt(self) -> None:
        """End the guests before xdist begins to wait for them."""
        self._given_up = True
        self._pool.abort()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Read the endings of all guests, after xdist has let go of them."""
        if not self._given_up:
            for slot in self._pool.slots:
                self._judge(slot.life)
            if self._unexplained and session.exitstatus in GREEN:
                session.exitstatus = _status(self._unexplained[0])
        troubles = self.troubles()
        if troubles and session.exitstatus in GREEN:
            session.exitstatus = ExitStatus.TEST_FAILED
        if troubles and self._junit:
            junit.add(self._junit, troubles)
        if self._fatal:
            session.exitstatus = self._fatal.status

    def _judge(self, life: Life) -> None:
        """Keep a guest's ending if it is a bad one that no test report tells of."""
        known = any(life.name == ending.name for ending in self._crashes.values())
        if known or not life.used:
            return
        ending = self._without_told(life.finish(self._finish_seconds))
        if not ending.clean:
            self._unexplained.append(ending)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show what no test report tells."""
        for trouble in self.troubles():
            terminalreporter.write_sep("=", trouble.title, red=True)
            terminalreporter.write_line(trouble.reason)
            terminalreporter.write_line(trouble.text)

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        """Leave no guest behind."""
        self._pool.close()


def _distribute(config: pytest.Config, pool: Pool) -> None:
    """Set xdist's options, as if the user had given them."""
    if config.option.numprocesses or config.option.tx:
        raise pytest.UsageError(
            "--kfabric-vms and --kfabric-tx choose the workers: leave out -n and --tx"
        )
    config.option.tx = [slot.spec for slot in pool.slots]
    config.option.dist = "load"
    # Few tests on a guest that crashes, and an end to crashing in collection.
    config.option.maxschedchunk = 1
    config.option.maxworkerrestart = str(len(pool.slots) + 2)


def _directory(config: pytest.Config) -> Path:
    given = config.option.kfabric_dir
    return Path(given).absolute() if given else config.rootpath / "build" / "test"


def _status(ending: Ending) -> int:
    if ending.error:
        return int(ending.error.status)
    return int(ExitStatus.TEST_FAILED if ending.worker_status else ExitStatus.SPLAT)
