# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Calls of a caller in the kernel while there is no memory for them.

The cases of tests/kmod are what is called, ioctls do not reach all of it. A case ends where
a call is refused, and says so; what it has left behind is looked for behind each test, as
always, and it must pass once there is memory again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import test_inkernel
import test_rdm_inkernel
import test_verbs_inkernel
from failslab_support import Failslab

from kfabric.guest import modules as guest_modules
from kfabric.guest import topology

pytestmark = pytest.mark.stress

DEBUGFS = Path("/sys/kernel/debug")
#: Cases that are not played here, by the reason.
LEFT_OUT = {
    # A parameter of a module has to be set for them.
    *("kfi_ktest/comp_handler_moderated", "kfi_ktest/comp_handler_put_off", "kfi_vtest/sequence"),
    # They end in the middle with something of their own open.
    *("kfi_ktest/channel_refuses", "kfi_ktest/cond_pins_the_set", "kfi_ktest/handler_may_call"),
    *("kfi_ktest/profile_targets", "kfi_vtest/bad_memory", "kfi_vtest/bvec_region"),
    *("kfi_vtest/inject", "kfi_vtest/mr_arguments", "kfi_vtest/not_supported"),
    *("kfi_rtest/address_in_use", "kfi_rtest/any_address", "kfi_rtest/kept_told"),
    *("kfi_rtest/largest", "kfi_rtest/many_reads", "kfi_rtest/reads_on", "kfi_rtest/rma"),
    *("kfi_rtest/rma_endpoint", "kfi_rtest/rma_refused", "kfi_rtest/scalable"),
    *("kfi_rtest/vector", "kfi_rtest/writedata"),
    # They wait, as long as they can, for a message that its sender has been told is lost.
    *("kfi_rtest/many_wants", "kfi_rtest/pushed_back_tags"),
}
#: Cases of which a single run takes seconds.
LONG = {"kfi_ktest/comp_handler_storm", "kfi_ktest/profile_instant"}
#: Allocations of a case that fail, one after the other, where it is not each of them.
SOME = 6


@pytest.fixture(scope="module")
def cases(verbs: topology.RdmaLink) -> Iterator[None]:
    """All test modules, loaded for this file's tests."""
    ours = guest_modules.Modules.from_environment()
    ours.load()
    second = topology.further_address(verbs, 1)
    guest_modules.insert(ours.file("kfi_ktest"))
    guest_modules.insert(ours.file("kfi_vtest"), f"addr={verbs.address}")
    guest_modules.insert(ours.file("kfi_rtest"), f"addr={verbs.address} second={second}")
    yield
    for name in ("kfi_rtest", "kfi_vtest", "kfi_ktest"):
        guest_modules.remove(name)


def names(*modules: str) -> list[str]:
    """Each case of these modules, but those of LEFT_OUT: module and file."""
    cases = {
        "kfi_ktest": test_inkernel.CASES,
        "kfi_vtest": test_verbs_inkernel.CASES,
        "kfi_rtest": test_rdm_inkernel.CASES,
    }
    found = (f"{module}/{case}" for module in modules for case in cases[module])
    return [name for name in found if name not in LEFT_OUT]


def attempt(failslab: Failslab, path: Path, nth: int) -> tuple[int, bool]:
    """Run a case whose nth allocation fails; how many there were, and whether it failed."""
    os.write(failslab.fd, f"{threading.get_native_id()} {nth}".encode())
    try:
        path.read_text()
    except OSError:
        pass
    seen, failed = map(int, os.pread(failslab.fd, 64, 0).split())
    return seen, bool(failed)


def sweep(failslab: Failslab, path: Path, numbers: Callable[[int], range]) -> None:
    """Fail allocations of a case, and see it pass behind that."""
    seen, _ = attempt(failslab, path, 1 << 30)
    told = [attempt(failslab, path, nth)[1] for nth in numbers(seen)]
    assert told[0], "the first allocation of all fails"
    assert path.read_text() == "ok\n"


@pytest.mark.parametrize("case", names("kfi_ktest", "kfi_vtest", "kfi_rtest"))
def test_some_allocations_of_a_case_fail(cases: None, failslab: Failslab, case: str) -> None:
    """X4: no call in the kernel leaves anything behind, or complains, for want of memory."""
    sweep(failslab, DEBUGFS / case, lambda seen: range(1, seen + 1, max(1, seen // SOME)))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", [name for name in names("kfi_ktest") if name not in LONG])
def test_each_allocation_of_a_case_fails(cases: None, failslab: Failslab, case: str) -> None:
    """X4: the same for each of them; over a link the kernel's log would run over meanwhile."""
    sweep(failslab, DEBUGFS / case, lambda seen: range(1, seen + 1))
