# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""pytest plugin: runs tests in disposable guests, and judges more than assertions.

    pytest --kfabric-vms 2 tests/guest

boots two guests, which are ordinary pytest-xdist workers. Inside a guest (or on
a machine that may crash, with --kfabric-here) the same tests run in-process.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.guest import in_guest

if TYPE_CHECKING:
    from harness.runner.pool import Guest

SILENCE_SECONDS = 150.0
GUEST_MARK = "guest"
CHECKS = "kfabric-checks"
CONTROLLER = "kfabric-controller"


class Hooks:
    """Hooks that a project may implement."""

    @pytest.hookspec(firstresult=True)
    def pytest_kfabric_boot(
        self, config: pytest.Config, name: str, directory: Path
    ) -> Guest | None:
        """Boot a guest and return it; by default the project's own image.

        Called from a thread of its own for each guest, several at a time.
        `directory` gets what the guest leaves. Raises KfabricError.
        """


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Announce our hooks."""
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Define our options."""
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
        help="and in N guests of another machine, which has the same checkout (docs/ci.md)",
    )
    group.addoption(
        "--kfabric-here",
        action="store_true",
        help="run tests marked 'guest' on this machine, which they may crash",
    )
    group.addoption(
        "--kfabric-dir",
        metavar="DIR",
        help="where guests leave console and files (default: build/test below the root)",
    )
    group.addoption(
        "--verify-wakeups",
        action="store_true",
        help="judge the wake-ups of each test in a guest: a lost, late or spurious one fails it",
    )
    group.addoption(
        "--kfabric-vmcore",
        action="store_true",
        help="a guest that panics leaves its memory beside its console",
    )
    group.addoption(
        "--kfabric-ulp",
        metavar="JSON",
        help="somebody's module to test, as kfabric test --ulp describes it",
    )
    group.addoption(
        "--soak-hours",
        type=float,
        default=0.0,
        metavar="H",
        help="so many hours of load in tests/guest/test_soak.py, whose totals are told (make soak)",
    )
    group.addoption(
        "--ktap",
        metavar="FILE",
        help="write the results as KTAP, too",
    )
    group.addoption(
        "--coverage",
        action="store_true",
        help="tell which lines of the modules were reached; for kernels that count (debug)",
    )
    group.addoption(
        "--kfabric-silence",
        type=float,
        default=SILENCE_SECONDS,
        metavar="S",
        help="end a guest whose tests report nothing for S seconds (default: %(default)g)",
    )


def is_worker(config: pytest.Config) -> bool:
    """Whether this is a worker's test process, as opposed to the one that was started."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take up the parts that belong to this process."""
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
    if here:
        _check_guest(config)
        if config.option.kfabric_ulp:
            _test_ulp(config)
        _watch_wakeups(config)
        if config.option.coverage:
            from harness.guest.coverage import LeaveCounts

            config.pluginmanager.register(LeaveCounts(), "kfabric-leave-counts")
    if not is_worker(config):
        _judge_run(config)
    if not is_worker(config) and not in_guest():
        from harness.runner import interrupts

        config.add_cleanup(interrupts.take_first())
    if not is_worker(config) and (here or _wants_guests(config)):
        _judge_guests(config)
    if not is_worker(config) and config.option.ktap:
        _write_ktap(config)


def _check_guest(config: pytest.Config) -> None:
    """Look behind each test; a worker does not go on in a guest that was harmed."""
    from harness.guest.checks import GuestChecks
    from harness.guest.retirement import Retirement

    retirement = Retirement()
    config.pluginmanager.register(GuestChecks(retirement), CHECKS)
    if is_worker(config):
        config.pluginmanager.register(retirement, "kfabric-retirement")


def _wants_guests(config: pytest.Config) -> bool:
    return bool(config.option.kfabric_vms or config.option.kfabric_tx)


def _test_ulp(config: pytest.Config) -> None:
    """Give the tests of somebody's module our fixtures, and judge how it is unloaded."""
    from harness.guest import fixtures
    from harness.guest.ulp import UlpChecks

    config.pluginmanager.register(fixtures.load(), "kfabric-fixtures")
    # Behind those: its own RDMA link is the one that is meant.
    config.pluginmanager.register(UlpChecks(), "kfabric-ulp")


def _watch_wakeups(config: pytest.Config) -> None:
    """Offer the fixture, and judge every test if asked to."""
    from harness.guest.session import Session, WakeupsFixture

    session = Session()
    config.pluginmanager.register(WakeupsFixture(session), "kfabric-wakeups")
    if config.option.verify_wakeups:
        from harness.guest.verify import VerifyWakeups

        config.pluginmanager.register(VerifyWakeups(session), "kfabric-verify")


def _judge_run(config: pytest.Config) -> None:
    """Register what only the process that was started does, worker or no worker."""
    from harness.runner.outcome import Broken, Outcome

    if "s" not in config.option.reportchars:
        config.option.reportchars += "s"
    config.pluginmanager.register(Outcome(), "kfabric-outcome")
    config.pluginmanager.register(Broken(), "kfabric-broken")


def _judge_guests(config: pytest.Config) -> None:
    """Register what it does besides where guests are wanted, or this is one."""
    from harness.runner.outcome import Soaked, Watched

    if config.option.verify_wakeups:
        config.pluginmanager.register(Watched(), "kfabric-watched")
    if config.option.soak_hours:
        config.pluginmanager.register(Soaked(), "kfabric-soaked")
    if _wants_guests(config) and not config.option.collectonly:
        # Imported only where guests are wanted: a guest lacks what it needs.
        from harness.runner.controller import Controller

        controller = Controller(config)
        config.pluginmanager.register(controller, CONTROLLER)
        if config.option.coverage:
            from harness.runner.coverage import ShowCoverage

            config.pluginmanager.register(ShowCoverage(controller.directory), "kfabric-coverage")


def _write_ktap(config: pytest.Config) -> None:
    """Register what writes the file; the guests' controller has more to tell, if there is one."""
    from harness.runner.ktap import Ktap

    controller = config.pluginmanager.getplugin(CONTROLLER)
    ktap = Ktap(
        Path(config.option.ktap).absolute(),
        config.getini("junit_suite_name"),
        controller.troubles if controller else list,
    )
    config.pluginmanager.register(ktap, "kfabric-ktap")


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Keep tests that may crash the kernel away from a machine that is not disposable."""
    if config.pluginmanager.hasplugin(CHECKS):
        return
    reason = "needs a guest: run it with --kfabric-vms 1 (or --kfabric-here)"
    for item in items:
        if item.get_closest_marker(GUEST_MARK):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(trylast=True)
def pytest_kfabric_boot(config: pytest.Config, name: str, directory: Path) -> Guest:
    """Boot the project's own guest."""
    from harness.runner import testvm
    from harness.vm import ulp

    given = config.option.kfabric_ulp
    tested = ulp.from_json(given) if given else None
    return testvm.boot(name, directory, tested=tested, vmcore=config.option.kfabric_vmcore)
