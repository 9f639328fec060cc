# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""RDM endpoints as a caller in the kernel sees them: the cases of tests/kmod/rtest.

Each case is a file of the test module; reading it runs the case and says "ok" or
what failed. The module's sources say what each case does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rdm_support import parameter

from kfabric.guest import modules as guest_modules
from kfabric.guest import topology

pytestmark = pytest.mark.core

RTEST = Path("/sys/kernel/debug/kfi_rtest")

#: Cases that need a parameter of the module.
FULL, ROOM, FEW, GO = "node_full", "makes_room", "begins_few", "silent_go"

#: Cases that are run while connections may be idle for some seconds only.
IDLE = {
    "silent": "a peer that connects and says nothing takes no place for long",
    "leaves": "an idle connection is left: what is posted later goes to another one",
    "owes_reply": "X3: a connection is not left while a request of the peer waits for a receive",
    "owes_resume": "X3: a connection is not left while a flow of the peer is blocked",
}

#: The cases, and what each holds to.
CASES = {
    "tagged": "a tagged message, its entry on both sides, its source",
    "cxi_addresses": "the same between 8-byte addresses",
    "table": "the same with an address vector that is a table",
    "pingpong": "messages to and fro",
    "sizes": "from nothing to 2 MiB and one byte, at odd places of vmalloc memory",
    "scattered": "pieces at any places",
    "adjacent": "pieces that touch: one registration takes several",
    "largest": "as much as is announced, in one contiguous stretch",
    "data": "64 bits of data for the peer's entry, without a buffer",
    "inject": "the buffer is free at once, and no entry tells",
    "order": "the receive that was posted first, with and without bits to ignore",
    "directed": "a receive for one peer takes nobody else's message",
    "cancel": "a cancelled receive is an error entry",
    "truncate": "too long: both sides hear of it, the endpoints go on",
    "multi_recv": "one buffer for many messages, released by the last",
    "no_endpoint": "nobody there is EHOSTUNREACH",
    "kept": "F5: a message that comes first is kept",
    "kept_large": "F5: a large one waits at its sender",
    "kept_multi": "F5: a receive for many messages takes what was kept",
    "kept_told": "F5, F6: callbacks hear of it as it comes and goes",
    "held_up": "large messages that nobody receives do not hold up others",
    "many_wants": "many receives while the sender is pushed back: no message is lost",
    "pushed_back_tags": "more than what is kept, received in the opposite order: none is lost",
    "pushed_back_multi": "a receive for many messages asks for each that was pushed back",
    "reopened": "another endpoint of the same number hears whom the first one had pushed back",
    "reopened_often": "endpoints come and go under a sender: nothing comes twice, every send ends",
    "close_with_kept": "the receiver closes: the sender hears of it",
    "close_with_sent": "the sender closes: what it sent is dropped",
    "rma": "reads and writes of a region by the ULP's own key",
    "many_reads": "more operations than a connection has ids for",
    "part_of_region": "an operation looks at nothing but its part of a region",
    "writedata": "data of a write is an entry at the target",
    "writedata_full": "writes with data wait while the target's queue is full: no overrun",
    "writedata_full_long": "so do long ones: what is under way has its room",
    "rma_refused": "no such key, outside, no such access: EREMOTEIO",
    "rma_endpoint": "a region is found when it is enabled on a context",
    "tagged_rma": "reads and writes of a posted receive",
    "tagged_write_waits": "a tagged write is no success before it has its receive",
    "scalable": "a scalable endpoint and its contexts, put together in order",
    "address_in_use": "no two endpoints have one address",
    "any_address": "any address means the domain's, as in the info",
    "vector": "an address vector's calls",
    "vector_closed_early": "O1: a vector is closed behind the event of an insertion",
    "vector_events": "Q10: an insertion whose completion has no place is refused",
    "bad_posts": "addresses, pieces and pages that are none",
    "full": "-EAGAIN: as much is posted as there is room for",
    "resource_mgmt": "what cannot be honoured is not offered",
    "old_version": "another version, or none, is refused when it connects",
    "makes_no_sense": "each nonsense ends its connection; the others go on",
    "takes_no_answers": "a flood without an ear for answers ends",
    "reads_on": "a peer has no more reads under way than it can have ids for",
    "no_node": "nobody listens at the address: EHOSTUNREACH, again and again",
    "goes_away": "a peer that goes: EHOSTUNREACH for what was under way, and a new connection",
    "foreign": "an accepting service whose hello is none is no peer: EHOSTUNREACH",
    "forged_address": "a request whose GID is another one's than its address is refused",
    "forged_path": "a request that only claims to come from a GID gets no messages",
    "forged_crowd": "nor does it cost the genuine peer its connection",
    "close_unanswered": "O4: a close waits for no answer to short messages, and harms no others",
    "close_unread": "O4: nor does one whose long message the peer neither reads nor answers",
    "close_slow": "O4: nor does one end others' operations on a slow connection",
    "close_deaf": "O4: nor does one wait for a peer that takes no messages",
    "close_slow_receive": "O4: nor does one whose receive a peer's message is moved into",
    "close_slow_region": "O4: nor does the close of a region that a peer writes to",
    "close_deaf_receive": "O4: and neither waits for a peer that takes no messages",
    "close_deaf_region": "O4: neither does that",
    "pump_budget": "one call posts a limited number of work requests, also of those that waited",
    "many_connections": "a peer that begins more and more loses its oldest",
    "replaces": "so does one that replaces more and more that the node has begun",
    "node_reads_nothing": "who cannot be read from is no peer, whoever begins",
    "peer_reads_nothing": "a connected peer that answers no reads is asked for none",
    "left": "a connection that the peer leaves ends if nothing is under way",
    "left_busy": "and stays if something is",
    "flow_ends": "a context that is gone is forgotten, once an operation has failed there",
    "flow_ends_closed": "or once it has said that it closes",
    "flow_stays": "but not while another one of its number may have refused a request",
    "flow_replaced": "nor while a request is on its way that another one of its number refuses",
    "flow_answered": "X3: also if another one of its number has an answer of another kind",
    "flow_unsent": "X3: also if the operations that are left for it end without being sent",
    "flow_accepted": "X3: so is one to which operations were given up that it has taken",
    "flow_refused": "V4: but not one that has refused such an operation",
    "flow_counted": "V4: nor one that another context has counted before it is refused",
    "flow_told": "a context that closes says so to each sender that it has refused",
    "flow_full": "a connection with many flows gets no new requests, and goes on with the others",
    "flow_crowd": "many contexts that have room at the same time do not flood their sender",
    "flow_crowd_closes": "nor do many contexts that close at the same time",
    "write_is_no_message": "a write with immediate data is not taken for the message before",
    "stolen_key": "what is registered for one peer is closed to others",
    "resumes_late": "O4: an endpoint closes, whatever a peer calls back that has no room to go",
    "answers_early": "an answer to what waits to be sent again changes nothing",
    "says_too_much": "no peer can make a completion longer than the operation",
    "tagged_rma_unasked": "who has not asked for tagged RMA has none done to its receives",
    "tagged_rma_multi": "tagged RMA does not touch what a receive for many messages has",
    "asked_caps": "kfi_getinfo() returns what is asked for, and what that implies",
    "asked_ways": "directions imply no others, and modifiers imply operations",
    "any_source": "a receive takes everybody's messages if KFI_DIRECTED_RECV was not asked for",
    "counts": "kfi_getinfo() returns the numbers that are asked for, else many",
    "count_limits": "an endpoint is offered no more contexts than its domain allows",
    "domain_key": "the key of a domain is that of its endpoints",
    "wishes": "a key has its size, and a traffic class exists, or nothing is offered",
    "first_type": "what only RDM endpoints can do gets no connected ones",
    "region_event": "registration by event: KFI_MR_COMPLETE for each region that can be used",
    "enabled_event": "the same with KFI_MR_ENDPOINT, once the region is enabled",
    "sent_entry": "the entry of a send has no tag and no length",
    "unsent_entry": "the entry of a send that failed has its tag",
    "post_with_full_queue": "a receive can be posted while the CQ is full",
}


@pytest.fixture(scope="module")
def rtest(verbs: topology.RdmaLink) -> Iterator[Path]:
    """The test module's directory of cases; the module is loaded for this file's tests."""
    ours = guest_modules.Modules.from_environment()
    ours.load()
    second = topology.further_address(verbs, 1)
    guest_modules.insert(ours.file("kfi_rtest"), f"addr={verbs.address} second={second}")
    yield RTEST
    guest_modules.remove("kfi_rtest")


#: Cases that need more than the minute that a test has, on a guest with a slow kernel.
LONG = {"flow_crowd": 240, "flow_crowd_closes": 240}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.timeout(LONG[case])] if case in LONG else [])
        for case in CASES
    ],
)
def test_in_kernel(rtest: Path, case: str) -> None:
    """Run one case; see CASES for what it holds to."""
    assert (rtest / case).read_text() == "ok\n", CASES[case]


@pytest.fixture
def no_connections() -> Iterator[None]:
    """Peers get no connections."""
    with parameter("rdm_max_conns", 0):
        yield


def test_full_node_refuses(rtest: Path, no_connections: None) -> None:
    """A node that has as many connections as it may says so to who wants another one."""
    assert (rtest / FULL).read_text() == "ok\n"


def test_full_node_makes_room(rtest: Path) -> None:
    """X3: posting to another machine works once an idle connection has ended."""
    with parameter("rdm_max_conns", 1):
        assert (rtest / ROOM).read_text() == "ok\n"


def test_domain_begins_few(rtest: Path) -> None:
    """X3: a domain that sends to dead addresses leaves connections to other domains."""
    with parameter("rdm_max_conns", 8):
        assert (rtest / FEW).read_text() == "ok\n"


def test_silent_peers_go(rtest: Path) -> None:
    """X3: connections of peers that say nothing do not keep a node full."""
    with parameter("rdm_max_conns", 2):
        assert (rtest / GO).read_text() == "ok\n"


@pytest.mark.parametrize("case", IDLE)
def test_idle_connection(rtest: Path, case: str) -> None:
    """Run one case; see IDLE for what it holds to."""
    with parameter("rdm_idle_s", 4):
        assert (rtest / case).read_text() == "ok\n", IDLE[case]


def test_no_case_is_forgotten(rtest: Path) -> None:
    """Every case of the module is run from here."""
    assert {path.name for path in rtest.iterdir()} == {*CASES, *IDLE, FULL, ROOM, FEW, GO}
