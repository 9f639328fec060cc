# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The pytest plugin: runs tests in disposable guests, and checks kernel, leaks and wake-ups.

    pytest --kfabric-vms 2 tests/guest

boots two guests, which are ordinary pytest-xdist workers. Inside a guest (or on a machine
that may crash, with --kfabric-here) the same tests run in-process.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kfabric import names
from kfabric.guest import in_guest
from kfabric.runner import shards

if TYPE_CHECKING:
    from kfabric.docs.results import Measurement
    from kfabric.runner.outcome import Trouble, Writer
    from kfabric.runner.pool import Guest
    from kfabric.trace.blocks import Watches, Witness
    from kfabric.trace.watchfile import Watched

SILENCE_SECONDS = 150.0
GUEST_MARK = "guest"
CHECKS = "kfabric-checks"
FLAGS = {
    "--kfabric-here": "run tests marked 'guest' on this machine, although they may crash it",
    "--verify-wakeups": "check the wake-ups of each test in a guest: "
    "a lost, late or spurious one fails it",
    "--kfabric-vmcore": "save the memory of a guest that panics next to its console",
    "--coverage": "show which lines of the modules were reached; for kernels with gcov (debug)",
}
"""Options without a value, and their help."""


class Hooks:
    """Hooks that a project may implement."""

    @pytest.hookspec(firstresult=True)
    def pytest_kfabric_boot(
        self, config: pytest.Config, name: str, directory: Path
    ) -> Guest | None:
        """Boot a guest; by default from the project's own image. Raises KfabricError.

        Called in a thread for each guest, several at a time. `directory` gets the guest's
        console and files.
        """


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    if pluginmanager.is_blocked("cacheprovider"):
        # Guests get the arguments of the host, and with --strict-config refuse an unknown one.
        parser.addini("cache_dir", "where the host has its cache; a guest has none")
    group = parser.getgroup("kfabric", "tests in guests")
    group.addoption(
        "--kfabric-vms",
        type=int,
        default=0,
        metavar="N",
        help="run the tests in N disposable guests at a time (0: in this process)",
    )
    group.addoption(
        "--kfabric-tx",
        action="append",
        default=[],
        metavar="[N*]ssh=HOST",
        help="also in N guests of another machine with the same checkout (docs/ci.md)",
    )
    group.addoption(
        "--kfabric-dir",
        metavar="DIR",
        help="directory for the guests' consoles and files (default: build/test below the root)",
    )
    group.addoption(
        "--kfabric-module",
        metavar="JSON",
        help="the user's module to test, as kfabric test --module describes it",
    )
    group.addoption(
        "--kfabric-shard",
        type=shards.parse,
        metavar="K/N",
        help="run the K-th of N shards of the tests (docs/ci.md)",
    )
    group.addoption(
        "--soak-hours",
        type=float,
        default=0.0,
        metavar="H",
        help="hours of load in tests/guest/test_soak.py, with totals (make soak)",
    )
    for flag, text in FLAGS.items():
        group.addoption(flag, action="store_true", help=text)
    group.addoption("--ktap", metavar="FILE", help="also write the results as KTAP")
    group.addoption("--kcidb", metavar="FILE", help="also write the results as JSON for KCIDB")
    group.addoption(
        "--kcidb-origin",
        default="kfabric",
        metavar="NAME",
        help="the CI system's name in that file (default: %(default)s)",
    )
    group.addoption(
        "--kfabric-silence",
        type=float,
        default=SILENCE_SECONDS,
        metavar="S",
        help="end a guest whose tests report nothing for S seconds (default: %(default)g)",
    )


def is_worker(config: pytest.Config) -> bool:
    """Whether this is an xdist worker, as opposed to the process that the user started."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the parts that belong to this process."""
    config.addinivalue_line("markers", f"{GUEST_MARK}: needs a disposable guest (kernel modules)")
    config.addinivalue_line(
        "markers",
        "wrong_wakeups(*faults, may=(), reason): makes these faults on purpose; "
        "with --verify-wakeups they must (or may) be found",
    )
    config.addinivalue_line(
        "markers", "unwatched(reason): --verify-wakeups takes the probes off for this test"
    )
    here = in_guest() or config.option.kfabric_here
    if config.option.kfabric_shard:
        guests = here or _wants_guests(config)
        config.pluginmanager.register(
            shards.Deal(config.option.kfabric_shard, guests), "kfabric-shard"
        )
    if here:
        _check_guest(config)
    if not is_worker(config):
        _check_run(config, here)


def _wants_guests(config: pytest.Config) -> bool:
    """Whether the tests run in guests of this run, seen from the host and from there."""
    return bool(config.option.kfabric_vms or config.option.kfabric_tx)


def _check_guest(config: pytest.Config) -> None:
    """Check the guest after each test; a worker stops in a guest that was harmed."""
    # Imported late, here and below: each import takes time under TCG.
    from kfabric.guest.checks import GuestChecks, LogOfFailures
    from kfabric.guest.narrow import Narrow
    from kfabric.guest.retirement import Retirement
    from kfabric.guest.session import Session, WakeupsFixture

    register = config.pluginmanager.register
    retirement = Retirement()
    register(GuestChecks(retirement), CHECKS)
    register(LogOfFailures(), "kfabric-log-of-failures")
    if is_worker(config):
        register(retirement, "kfabric-retirement")
        if not config.option.pyargs:
            register(Narrow(config), "kfabric-narrow")
    if config.option.kfabric_module:
        from kfabric.guest import fixtures
        from kfabric.guest.usermodule import UserModuleChecks

        register(fixtures.load(), "kfabric-fixtures")
        # After those, because the module's own RDMA link is the one to use.
        register(UserModuleChecks(), "kfabric-module")
    session = Session()
    watches = _watches(config)
    register(WakeupsFixture(session, watches), "kfabric-wakeups")
    if config.option.verify_wakeups:
        from kfabric.guest.verify import VerifyWakeups

        register(VerifyWakeups(session, _witness(config, watches)), "kfabric-verify")
    if config.option.coverage:
        from kfabric.guest.coverage import LeaveCounts

        register(LeaveCounts(), "kfabric-leave-counts")


def _watches(config: pytest.Config) -> Callable[[], Watches]:
    """The tracers of this process, made at the first use and closed at its end."""

    @functools.cache
    def watches() -> Watches:
        from kfabric.trace.blocks import Watches

        made = Watches()
        config.add_cleanup(made.close)
        return made

    return watches


def _witness(config: pytest.Config, watches: Callable[[], Watches]) -> Witness | None:
    """Judges the user's own queues, if the directory of --module says which. Raises UsageError."""
    if (what := _watched(config)) is None:
        return None
    from kfabric.trace.blocks import Witness

    return Witness(watches(), what)


def _watched(config: pytest.Config) -> Watched | None:
    """What ``wakeups.toml`` says, if there is one. Raises UsageError."""
    if not (config.option.kfabric_module and config.option.verify_wakeups):
        return None
    from kfabric.trace.watchfile import WatchFileError, read

    directory, *_ = json.loads(config.option.kfabric_module)
    try:
        return read(Path(directory)) if directory else None
    except WatchFileError as error:
        raise pytest.UsageError(str(error)) from error


def _check_run(config: pytest.Config, here: bool) -> None:
    """Register the parts of the process that the user started."""
    from kfabric.runner import interrupts
    from kfabric.runner.outcome import Broken, FailuresFirst, Outcome, Results, Soaked, Watched

    option, register = config.option, config.pluginmanager.register
    if "s" not in option.reportchars:
        option.reportchars += "s"
    register(Outcome(part=bool(option.kfabric_shard)), "kfabric-outcome")
    register(Broken(), "kfabric-broken")
    register(FailuresFirst(), "kfabric-failures-first")
    if not in_guest():
        config.add_cleanup(interrupts.take_first())
        # A wrong file is reported before a guest boots.
        _watched(config)
    wants_guests = _wants_guests(config)
    if (here or wants_guests) and option.verify_wakeups:
        register(Watched(), "kfabric-watched")
    if (here or wants_guests) and option.soak_hours:
        register(Soaked(_row_recorder("soak")), "kfabric-soaked")
    troubles: Callable[[], list[Trouble]] = list
    if wants_guests and not option.collectonly:
        troubles = _use_guests(config)
    if writers := _writers(config):
        register(Results(troubles, writers), "kfabric-results")


def _writers(config: pytest.Config) -> list[Writer]:
    """Write the files of results that the user wants, besides JUnit."""
    option, title = config.option, config.getini("junit_suite_name")
    found: list[Writer] = []
    if option.ktap:
        from kfabric.runner import ktap

        found.append(functools.partial(ktap.write, Path(option.ktap).absolute(), title))
    if option.kcidb:
        from kfabric.runner import kcidb

        report = kcidb.Report(option.kcidb_origin, title)
        found.append(functools.partial(kcidb.save, Path(option.kcidb).absolute(), report))
    return found


def _use_guests(config: pytest.Config) -> Callable[[], list[Trouble]]:
    """Register the guests' controller; what it found besides test results."""
    # Imported only if guests are used: a guest lacks packages that these need.
    from kfabric.runner.controller import Controller
    from kfabric.runner.coverage import ShowCoverage

    controller = Controller(config)
    config.pluginmanager.register(controller, "kfabric-controller")
    if config.option.coverage:
        coverage = ShowCoverage(controller.directory, _recorder("coverage"))
        config.pluginmanager.register(coverage, "kfabric-coverage")
    return controller.troubles


def _recorder(section: str) -> Callable[[str], None] | None:
    """The function that writes a section of docs/results.md, if the user wants it."""
    if (measured := _measurement(section)) is None:
        return None
    return lambda text: measured.write(_release(), text)


def _row_recorder(section: str) -> Callable[[Mapping[str, str]], None] | None:
    """The same for the kernel's row in a section."""
    if (measured := _measurement(section)) is None:
        return None
    return lambda cells: measured.write_row(_release(), cells)


def _measurement(section: str) -> Measurement | None:
    if not (command := os.environ.get(names.RESULTS)):
        return None
    from kfabric.docs.results import Measurement

    return Measurement(section, command)


def _release() -> str:
    """The release of the guests' kernel."""
    from kfabric.vm import prepare

    return prepare.guest_image().release


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Skip tests that may crash the kernel on a machine that is not disposable."""
    if config.pluginmanager.hasplugin(CHECKS):
        return
    reason = "needs a guest: run it with --kfabric-vms 1 (or --kfabric-here)"
    for item in items:
        if item.get_closest_marker(GUEST_MARK):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(trylast=True)
def pytest_kfabric_boot(config: pytest.Config, name: str, directory: Path) -> Guest:
    from kfabric.runner import testvm
    from kfabric.vm import usermodule

    tested = usermodule.from_json(config.option.kfabric_module)
    return testvm.boot(name, directory, tested=tested, vmcore=config.option.kfabric_vmcore)
