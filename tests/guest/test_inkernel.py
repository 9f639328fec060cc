# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What only a caller in the kernel can see: the cases of tests/kmod/ktest.

Each case is a file of the test module; reading it runs the case and says "ok" or
what failed. The module's sources say what each case does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.guest import modules as guest_modules

KTEST = Path("/sys/kernel/debug/kfi_ktest")

#: The cases, with the rules of the contract that each holds to.
CASES = {
    "version_rules": "getinfo serves older callers and refuses newer ones",
    "getinfo_asks_by_name": "prov_name chooses the provider",
    "mock_hides": "the mock provider answers only to its name",
    "fabric_errors": "kfi_fabric's codes",
    "register_refuses": "kfi_provider_register's and deregister's codes",
    "register_versions": "the newest version of a provider's name wins",
    "strerror": "every error number of kfabric has a text of its own",
    "tostr": "kfi_tostr names what it is given",
    "dupinfo": "kfi_dupinfo shares nothing and takes one info of a list",
    "comp_handler_once": "Q9: two completions, one call",
    "comp_handler_arms": "Q9: the read that finds nothing arms",
    "comp_handler_error": "Q9: an error calls the handler, too",
    "comp_handler_storm": "Q9, W10: nothing is lost, the handler never runs twice at once",
    "event_handler_arms": "Q9: event queues, with events and errors",
    "handler_may_call": "Q9: every call that does not block is legal in a handler",
    "close_in_handler": "Q9: kfi_close is refused in the object's own handler",
    "stop_ends_wait": "W6: kthread_stop ends kfi_wait with EINTR, and every later one",
    "stop_before_wait": "W6: the same if the thread was stopped before",
    "stop_ends_cq_sread": "W6: kfi_cq_sread",
    "stop_ends_eq_sread": "W6: kfi_eq_sread",
    "stop_ends_cntr_wait": "W6: kfi_cntr_wait",
    "stopped_but_ready": "W6: a condition that holds is the result",
    "completion_ends_wait": "Q8, W1: one completion, CQ and counter, then nothing is ready",
    "never_early": "W4: milliseconds, never early",
    "none_refuses": "W8: KFI_WAIT_NONE refuses to block",
    "member_refuses": "W7: a member of a wait set refuses its own blocking calls",
    "borrowed_queue": "W8: wait_event on the queue that KFI_GETWAIT gives",
    "getwait_codes": "W8: kfi_control's codes",
    "busy": "O1: what is in use does not close, and a refused close changes nothing",
    "loss_ends_wait": "O5: device loss wakes, and reads as an error of ENODEV",
}


@pytest.fixture(scope="module")
def ktest() -> Iterator[Path]:
    """The test module's directory of cases; the module is loaded for this file's tests."""
    ours = guest_modules.Modules.from_environment()
    ours.load()
    guest_modules.insert(ours.file("kfi_ktest"))
    yield KTEST
    guest_modules.remove("kfi_ktest")


@pytest.mark.parametrize("case", CASES)
def test_in_kernel(ktest: Path, case: str) -> None:
    """Run one case; see CASES for the rule that it holds to."""
    assert (ktest / case).read_text() == "ok\n", CASES[case]


def test_no_case_is_forgotten(ktest: Path) -> None:
    """Every case of the module is run from here."""
    assert {path.name for path in ktest.iterdir()} == set(CASES)
