# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The pytest plugin's part on the host: guests as xdist workers, and the results of their ends.

A guest's bad end is the failure of the test that ran in it, if one did. A problem found
after the last test still decides the exit status.
"""

import os
import queue
import time
from collections import defaultdict, deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kfabric import names
from kfabric.errors import ExitStatus, KfabricError, counted
from kfabric.guest import worker
from kfabric.runner import far, junit
from kfabric.runner.outcome import GREEN, WHOLE, Trouble
from kfabric.runner.pool import Boot, Ending, Life, Pool, Slot
from kfabric.runner.standstill import Standstill
from kfabric.vm import asked, prepare, usermodule, versions, vmcore
from kfabric.vm.spec import VmSpec

# xdist gives its gateways 10 s to end; by then the guest has ended as well.
FINISH_SECONDS = 15.0
# How many of the tests that did not run are listed.
LISTED = 20
# xdist's error for a worker that ended after its start; otherwise it is a traceback.
_DEATHS = ("Not properly terminated", "keyboard-interrupt")


class StartError(KfabricError, status=ExitStatus.USAGE, label="cannot test"):
    """pytest does not start in a guest: an option, a plugin or a conftest is wrong there."""


@dataclass(frozen=True)
class Reason:
    """A failure in one line, for pytest and JUnit."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class GuestFailure:
    """A guest's end as the failure of a test; JUnit has no other place for the console."""

    reprcrash: Reason
    text: str

    def __str__(self) -> str:
        return self.text


class Controller:
    """Boots the guests, gives them to xdist as workers, and evaluates their endings."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        option = config.option
        given = option.kfabric_dir
        self.directory = Path(given).absolute() if given else config.rootpath / "build" / "test"
        """Has a directory for each guest, with its console and files."""
        self._boot_seconds = 0.0
        hook = partial(config.hook.pytest_kfabric_boot, config=config)

        def local(name: str, directory: Path) -> Any:
            return hook(name=name, directory=directory)

        tested = usermodule.from_json(option.kfabric_module)
        boots: list[tuple[str, Boot]] = [("", local)] * option.kfabric_vms
        boots += [
            (f"@{far.host(spec)}", partial(far.boot, spec, tested))
            for spec in far.expand(option.kfabric_tx)
        ]
        self._pool = Pool(
            boots,
            self.directory,
            Path(config.invocation_params.dir),
            option.kfabric_silence * versions.load(prepare.SOURCE).find().slow,
        )
        # Gateway id -> how its guest ended.
        self._crashes: dict[str, Ending] = {}
        # Guest -> its last finished tests, and the texts of failure reports from there.
        self._finished: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=names.SUSPECTS))
        self._failures: dict[str, list[str]] = defaultdict(list)
        # Test -> its file, its line from 0, and its name.
        self._places: dict[str, tuple[str, int | None, str]] = {}
        # Gateway id -> the last test that had only its teardown left.
        self._called: dict[str, str] = {}
        self._unexplained: list[Ending] = []
        self._collected: Sequence[str] = ()
        self._reported: set[str] = set()
        xml = config.getoption("xmlpath", None)
        # As pytest expands the option.
        self._junit = Path(os.path.expanduser(os.path.expandvars(xml))).absolute() if xml else None
        self._standstill = Standstill(self._running, self._show_standstill)
        self._given_up = False
        self._begun = False
        self._fatal: KfabricError | None = None
        self._finish_seconds = FINISH_SECONDS
        if option.kfabric_vmcore:
            self._finish_seconds += vmcore.DUMP_SECONDS
        _distribute(config, self._pool)

    @pytest.hookimpl
    def pytest_report_header(self) -> str:
        """Show the number, memory and boot time of the guests, and their directory."""
        began = f"up after {self._boot_seconds:.1f} s"
        return f"kfabric: {self._guests()}, {began}, consoles in {self.directory}"

    def _guests(self) -> str:
        version = versions.load(prepare.SOURCE).find()
        each = asked.of_environment(VmSpec()).on(version).memory_mib
        return f"{counted(len(self._pool.slots), 'guest')} of {each} MiB"

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionstart(self) -> Generator[None]:
        """Boot all guests in parallel, before xdist asks for the first."""
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
        """End the run with one clear line if a guest cannot be replaced."""
        self._begun = True
        xdist = self._config.pluginmanager.getplugin("dsession")
        self._replace_if_needed(xdist)
        self._show_standstills(xdist)
        return (yield from self._explaining_boot_failures())

    def _replace_if_needed(self, xdist: Any) -> None:
        """Boot a guest in place of one that has ended only if there is a test left for it.

        xdist has no hook for this. It always starts a new worker, and waits for it.
        """
        clone, report_line = xdist._clone_node, xdist.report_line

        def replace_worker(node: Any) -> None:
            if self._scheduler.needs_guest and not xdist.shouldstop:
                slot = self._slot(node)
                slot.start()
                self._say(f"booting {slot.life.name} for the tests that are left")
                clone(node)

        def without_promise(line: str) -> None:
            if "replacing crashed worker" not in line:
                report_line(line)

        xdist._clone_node, xdist.report_line = replace_worker, without_promise

    def _show_standstills(self, xdist: Any) -> None:
        """Look whenever xdist has waited for the guests in vain, which it does for 2 s."""
        get = xdist.queue.get

        def get_or_look(timeout: float) -> Any:
            try:
                return get(timeout=timeout)
            except queue.Empty:
                self._standstill.look()
                raise

        xdist.queue.get = get_or_look

    def _running(self) -> Iterator[tuple[str, str]]:
        """The guests that have tests, and the first test of each."""
        for node, tests in self._scheduler.node2pending.items():
            if tests:
                yield self._slot(node).life.name, self._collected[tests[0]]

    def _show_standstill(self, line: str) -> None:
        if self._config.option.verbose >= 0 and names.QUIET not in os.environ:
            self._say(line)

    def _explaining_boot_failures(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        except (EOFError, OSError):
            # execnet sees only an end of file if a guest did not boot.
            if error := self._pool.failure_to_boot():
                self._exit(error)
            raise

    def _exit(self, error: KfabricError) -> NoReturn:
        """End the run with one line about a guest.

        With an exit status of its own, pytest would not show earlier test failures; once
        tests have begun, the status is set at the session's end instead, and the summary has
        the console.
        """
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal and error.console and not self._begun:
            terminal.write_line(error.console)
        if terminal:
            # pytest's error line or our summary has shown the line by then.
            terminal._report_keyboardinterrupt = lambda: None
        self._fatal = error
        pytest.exit(error.line(), returncode=None if self._begun else int(error.status))

    @pytest.hookimpl
    def pytest_xdist_getremotemodule(self) -> Any:
        return worker

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Keep tests with an expensive common start in one guest."""
        # Without guests, this file is imported but xdist may be missing.
        from kfabric.runner.schedule import Together

        self._scheduler = Together(config, log)
        return self._scheduler

    @pytest.hookimpl
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Store the collected tests, which are the same in all guests."""
        self._collected = ids

    def _slot(self, node: Any) -> Slot:
        return self._pool.of_spec(node.gateway.spec.python)

    @pytest.hookimpl
    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._places[nodeid] = location
        self._standstill.begin(nodeid)

    @pytest.hookimpl
    def pytest_runtest_logfinish(self) -> None:
        self._standstill.end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record each test's guest, and the texts of its failure, which get lines of source."""
        self._reported.add(report.nodeid)
        node = getattr(report, "node", None)
        if node is None or node.gateway.id in self._crashes:
            return
        life = self._slot(node).life
        guest = life.name
        if report.when == "call" or not report.passed:
            self._called[node.gateway.id] = report.nodeid
        if report.when == "teardown":
            self._finished[guest].append(report.nodeid)
        if report.failed:
            texts = [report.longreprtext, *(text for _, text in report.sections)]
            self._failures[guest] += texts
            _add_lines(report, life)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any, error: object) -> Generator[None, Any, Any]:
        """Evaluate the guest's end first, and keep xdist silent, whose line says less."""
        self._node_down(node, error)
        xdist = self._config.pluginmanager.getplugin("terminaldistreporter")
        if xdist:
            xdist.write_line = lambda _: None
        try:
            return (yield)
        finally:
            if xdist:
                del xdist.write_line

    def _node_down(self, node: Any, error: object) -> None:
        """Evaluate how a guest ended."""
        slot = self._slot(node)
        if not error:
            slot.life.idle = True
            return
        if error not in _DEATHS:
            # Its session did not begin, and would not begin in another guest either.
            self._exit(StartError("the tests do not start in a guest", console=str(error)))
        ending = self._finish(slot.life)
        self._crashes[node.gateway.id] = ending
        if ending.retired:
            self._retire(node, ending)
        if not (ending.retired and ending.clean):
            # Until a test gets the failure.
            self._unexplained.append(ending)

    def _retire(self, node: Any, ending: Ending) -> None:
        """Give the remaining tests of a guest that a test has harmed to another one."""
        test = (self._finished[ending.name] or ["a test"])[-1]
        self._say(f"{test} harmed {ending.name}: no other test runs there", ending.stderr)
        self._scheduler.retire(node)
        # xdist is about to count a crash, and ends the run after too many.
        self._config.pluginmanager.getplugin("dsession")._failed_nodes_count -= 1

    def _say(self, line: str, more: str = "") -> None:
        """Print a line between pytest's dots, and more text."""
        if terminal := self._config.pluginmanager.getplugin("terminalreporter"):
            terminal.write_line(f"\nkfabric: {line}")
            if more:
                terminal.write_line(more)

    def _finish(self, life: Life) -> Ending:
        """A guest's ending, without kernel reports that a test's failure shows already."""
        ending = life.finish(self._finish_seconds)
        shown = "\n".join(self._failures[ending.name])
        new = tuple(splat for splat in ending.splats if f": {splat.title}\n" not in shown)
        return replace(ending, splats=new)

    @pytest.hookimpl
    def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
        """Make the guest's end the failure of the test that ran in it."""
        gateway = report.node.gateway.id
        ending = self._crashes.get(gateway)
        if ending is None:
            return
        self._unexplained.remove(ending)
        file, _, name = crashitem.partition("::")
        file, line, _ = self._places.get(crashitem, (file, None, name))
        reason = ending.reason() if line is None else f"{file}:{line + 1}: {ending.reason()}"
        self._say(reason)
        called = self._called.get(gateway) == crashitem
        report.when = "teardown" if called else "call"
        report.location = (file, line, name.replace("::", "."))
        lines = [reason, f"while it {'tore down' if called else 'ran'} {crashitem}"]
        if before := self._finished[ending.name]:
            lines.append(f"earlier tests there, a possible cause: {', '.join(before)}")
        lines += [f"the end of {ending.name}'s console:", ending.console]
        reports = [splat.text for splat in ending.splats if splat.title not in ending.console]
        lines += [f"earlier kernel report:\n{text}" for text in reports]
        report.longrepr = GuestFailure(Reason(ending.reason()), "\n".join(lines))
        if ending.stderr:
            report.sections.append(("standard error of the test process", ending.stderr))
        # xdist counts only other failures, but -x and --maxfail must count this one.
        self._config.pluginmanager.getplugin("dsession")._handlefailures(report)

    def troubles(self) -> list[Trouble]:
        """Bad ends of guests outside of any test, and the tests that did not run."""
        found = []
        for ending in self._unexplained:
            before = ", ".join(self._finished[ending.name])
            suspects = [f"earlier tests there: {before}"] if before else []
            text = "\n".join([*suspects, *ending.evidence()])
            found.append(Trouble(ending.name, ending.reason(), text))
        missing = [test for test in self._collected if test not in self._reported]
        # After an interrupt or -x, tests are missing on purpose.
        if missing and (self._fatal or not self._given_up):
            crashes = sum(not ending.retired for ending in self._crashes.values())
            why = self._fatal.line() if self._fatal else f"{counted(crashes, 'guest')} had crashed"
            listed = missing[:LISTED] + ["…"] * (len(missing) > LISTED)
            console = [self._fatal.console] if self._fatal else []
            text = "\n".join([f"{why}; what did not run:", *listed, *console])
            found.append(Trouble(WHOLE, f"{counted(len(missing), 'test')} did not run", text))
        elif self._fatal:
            found.append(Trouble(WHOLE, self._fatal.line(), self._fatal.console))
        return found

    @pytest.hookimpl
    def pytest_keyboard_interrupt(self) -> None:
        """End the guests before xdist starts to wait for them."""
        self._given_up = True
        self._pool.abort()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Evaluate the endings of all guests, after xdist has released them."""
        if not self._given_up:
            self._end_guests()
            if self._unexplained and session.exitstatus in GREEN:
                session.exitstatus = _status(self._unexplained[0])
        troubles = self.troubles()
        if troubles and session.exitstatus in GREEN:
            session.exitstatus = ExitStatus.TEST_FAILED
        if troubles and self._junit:
            junit.add(self._junit, troubles)
        if self._fatal:
            session.exitstatus = self._fatal.status

    def _end_guests(self) -> None:
        """Keep the bad endings that no test report shows."""
        known = {ending.name for ending in self._crashes.values()}
        for life in (slot.life for slot in self._pool.slots):
            if life.used and life.name not in known:
                ending = self._finish(life)
                if not ending.clean:
                    self._unexplained.append(ending)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for trouble in self.troubles():
            terminalreporter.write_sep("=", trouble.title, red=True)
            terminalreporter.write_line(trouble.reason)
            terminalreporter.write_line(trouble.text)

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        self._pool.close()
        if self._fatal and self._junit and not self._begun:
            # pytest writes none for a session that did not begin.
            junit.begin(self._junit, self._config.getini("junit_suite_name"))
            junit.add(self._junit, self.troubles())


def _add_lines(report: pytest.TestReport, life: Life) -> None:
    """Add lines of source to the kernel's reports in a failure, where kfabric.guest put them."""
    if isinstance(report.longrepr, str):
        report.longrepr = life.with_lines(report.longrepr)
    elif sections := getattr(report.longrepr, "sections", None):
        sections[:] = [(name, life.with_lines(text), *rest) for name, text, *rest in sections]


def _distribute(config: pytest.Config, pool: Pool) -> None:
    """Set xdist's options, as if the user had given them."""
    if config.option.numprocesses or config.option.tx:
        raise pytest.UsageError(
            "--kfabric-vms and --kfabric-tx choose the workers: leave out -n and --tx"
        )
    config.option.tx = [slot.spec for slot in pool.slots]
    config.option.dist = "load"
    # A crashing guest loses few tests, and crashes during collection end the run.
    config.option.maxschedchunk = 1
    config.option.maxworkerrestart = str(len(pool.slots) + 2)


def _status(ending: Ending) -> int:
    if ending.error:
        return int(ending.error.status)
    return int(ExitStatus.TEST_FAILED if ending.worker_status else ExitStatus.SPLAT)
