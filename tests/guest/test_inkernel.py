# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What only a caller in the kernel can see: the cases of tests/kmod/ktest.

Each case is a file of the test module; reading it runs the case and says "ok" or
what failed. The module's sources say what each case does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.guest import modules as guest_modules

pytestmark = pytest.mark.core

HANDLER_DELAY = Path("/sys/module/kfabric/parameters/handler_delay_us")
KTEST = Path("/sys/kernel/debug/kfi_ktest")

#: The cases, with the rules of the contract that each holds to.
CASES = {
    "version_rules": "getinfo serves older callers and refuses newer ones",
    "getinfo_asks_by_name": "prov_name chooses the provider",
    "mock_hides": "the mock provider answers only to its name",
    "fabric_errors": "kfi_fabric's codes",
    "register_refuses": "kfi_provider_register's and deregister's codes",
    "register_versions": "the newest version of a provider's name wins",
    "slow_fabric": "X3: a provider that opens a fabric holds up no question of others",
    "deregister_waits": "O1: deregistering waits for a fabric that is being opened",
    "strerror": "every error number of kfabric has a text of its own",
    "tostr": "kfi_tostr names what it is given",
    "dupinfo": "kfi_dupinfo shares nothing and takes one info of a list",
    "comp_handler_once": "Q9: two completions, one call",
    "comp_handler_moderated": "Q9: put off, two completions are one call",
    "comp_handler_put_off": "Q9, O1: closing does not wait for a call that is put off",
    "comp_handler_arms": "Q9: the read that finds nothing arms",
    "comp_handler_error": "Q9: an error calls the handler, too",
    "comp_handler_error_arms": "Q9: a read of errors that finds nothing arms, too",
    "comp_handler_storm": "Q9, W10, B08: nothing is lost, the handler never runs twice at once",
    "comp_handler_producers": "Q9, V7, B12: every sort of completion, from every context",
    "comp_handler_loss": "Q9, O5, V7: the last error of a lost device",
    "event_handler_arms": "Q9: event queues, with events and errors",
    "event_handler_error_arms": "Q9: a read of errors that finds no event arms, too",
    "handler_may_call": "Q9, B09: every call that does not block is legal in a handler",
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
    "ready_for_all": "W4, Q1, Q6, B24: what is there is returned, whatever the timeout",
    "timeout_codes": "W4, Q1, Q6, B25: ETIMEDOUT from every call, never early",
    "no_limit": "W4, B24: negative is no limit, the largest is not negative",
    "wakes_from_everywhere": "W10, W2, B12: every call, woken from each context",
    "stop_ends_all": "W6: EINTR from every call",
    "serve_loop": "W1, P1: the loop of getting-started.md: a wait set sleeps, a poll set names",
    "cond_complete_first": "W8, B11: complete first, then wait: nothing is missed",
    "cond_has_the_mutex": "W8, W6: released while it waits, held on every return",
    "cond_publish_under_mutex": "W8: publishing never takes the mutex",
    "cond_four": "W8, V4, B04, B11: four waiters, four completions: each takes one",
    "cond_signal": "W8, Q5, B11: the ULP's own state, changed under the mutex",
    "cond_signal_before_sleep": "W8, V2, B11: hook D1, between the mutex and the sleep",
    "cond_behind_sread": "W8, W2, B40: one in sread and one on the condition: both see it",
    "cond_of_every_class": "W8: CQs, EQs and counters have conditions of their own",
    "cond_pins_the_set": "O1, W8: a thread on the condition is a use",
    "exclusive_codes": "W3, W8: off by default, EBUSY under a sleeper, no GETWAIT",
    "exclusive_one_each": "W3, W10, B22: each publication wakes one, the signal all",
    "exclusive_passes_on": "W3, V4: a wait on a set that is still ready wakes another",
    "exclusive_takes_one": "W3: nobody is woken for what another one has",
    "exclusive_stop": "W3, W6: one who is told to stop takes no wake-up along",
    "exclusive_cond": "W3, W8: on the condition, too",
    "profile_targets": "F1, O1, B58: five classes; others ENOSYS; the target cannot go first",
    "profile_reopen": "F1, B58: open and close 1000 times; two see the same growing values",
    "profile_query": "F2: no list, a short one, a long one; one id for one name",
    "profile_sizes": "F3: every variable with its size, unknown ids, wrong sizes",
    "profile_callback": "F5, F6: in order, with the message; it reads the values of the moment",
    "profile_refused": "F6: a callback may read, and all other calls are refused",
    "profile_elsewhere": "F6: meanwhile no other thread is refused, wherever it runs",
    "profile_close_stops": "F6, B58: none runs after close, under traffic",
    "profile_instant": "F4, F5: count and queue of one instant, under traffic",
    "profile_list": "F3, F5: a list wants room for all of it",
    "channel_events": "E1, E2, E3: one event a request, and the codes of getting and acking",
    "channel_requests": "E1, B10: solicited or any, and what was missed",
    "channel_refuses": "E1, E5: a second channel, another fabric's, a queue without one",
    "channel_wakes": "E2, W10: a thread asleep gets the event",
    "channel_stop": "E2, W6: kthread_stop ends it with EINTR",
    "channel_close": "E5, O1, B53: EBUSY with a queue; then EBADF for who sleeps in it",
    "channel_acks": "E3, W6, B51: the close waits for acks, and goes on after EINTR",
}


# Microseconds for which handlers are put off in these cases.
DELAYS = {"comp_handler_moderated": 3_000_000, "comp_handler_put_off": 600_000_000}


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
    HANDLER_DELAY.write_text(str(DELAYS.get(case, 0)))
    try:
        assert (ktest / case).read_text() == "ok\n", CASES[case]
    finally:
        HANDLER_DELAY.write_text("0")


def test_no_case_is_forgotten(ktest: Path) -> None:
    """Every case of the module is run from here."""
    assert {path.name for path in ktest.iterdir()} == set(CASES)
