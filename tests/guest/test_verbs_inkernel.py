# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verbs provider as a caller in the kernel sees it: the cases of tests/kmod/vtest.

Each case is a file of the test module; reading it runs the case and says "ok" or
what failed. The module's sources say what each case does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.guest import modules as guest_modules
from kfabric.guest import topology

#: With it, a read with timeout 0 has no limit, as callers of older interfaces expect.
ZERO_BLOCKS = Path("/sys/module/kfabric/parameters/sread_zero_blocks")
VTEST = Path("/sys/kernel/debug/kfi_vtest")

#: The cases, and what each holds to.
CASES = {
    "bvec_message": "sendbv and recvbv: pages in several stretches",
    "bvec_region": "regbv, writebv and readbv",
    "inject": "inject in all its forms takes memory of any kind, and writes no entry",
    "vmalloc_message": "sendmsg: vmalloc memory, with flags",
    "handler_posts": "Q9: posting is legal in a completion handler",
    "bad_memory": "addresses that are not the kernel's are EINVAL",
    "mr_arguments": "kfi_mr_reg's codes",
    "bad_flags": "unknown flags and types, and what is not supported",
    "not_supported": "every slot is filled",
    "atomic_arguments": "one aligned element of 64 bits, else the code that says why not",
    "query_atomic": "kfi_query_atomic agrees with the calls",
    "sequence": "W4: every operation of connected endpoints, read with timeout 0",
    "options": "kfi_getopt, kfi_setopt and kfi_control",
    "names": "kfi_getname and kfi_setname",
    "getinfo_wishes": "an attribute that cannot be had is ENODATA",
    "post_beside_accept": "a send beside the accept is ENOTCONN until it can be sent",
    "request_given_up": "X3: a request whose peer has given up takes no place of another one",
    "request_unread_given_up": "X3, Q10: the same, and its event goes if it is unread",
    "request_holds_fabric": "O1: a fabric is in use while a request that was read has no answer",
    "requests_beside_close": "X3: peers that keep asking do not keep the close of an event queue",
    "peer_breaks_receives": "a peer breaks the connection and keeps quiet: KFI_SHUTDOWN",
    "peer_breaks_probe": "the same with nothing posted: keepalive notices it",
    "getinfo_open": "open objects are named in offers, and asked for",
    "getinfo_caps": "kfi_getinfo() returns what is asked for, and what that implies",
    "tables": "kfi_open_ops() has the tables of cxi, with a device that memory is mapped for",
    "region_event": "registration by event: KFI_MR_COMPLETE for each region",
    "event_room": "an event that does not fit is ETOOSMALL and stays; a zeroed attribute: no sleep",
}


@pytest.fixture(scope="module")
def vtest(verbs: topology.RdmaLink) -> Iterator[Path]:
    """The test module's directory of cases; the module is loaded for this file's tests."""
    ours = guest_modules.Modules.from_environment()
    ours.load()
    guest_modules.insert(ours.file("kfi_vtest"), f"addr={verbs.address}")
    yield VTEST
    guest_modules.remove("kfi_vtest")


@pytest.fixture
def zero_blocks(case: str) -> Iterator[None]:
    """Set the parameter for the one case that was written for it."""
    if case != "sequence":
        yield
        return
    before = ZERO_BLOCKS.read_text()
    ZERO_BLOCKS.write_text("Y")
    yield
    ZERO_BLOCKS.write_text(before)


@pytest.mark.usefixtures("zero_blocks")
@pytest.mark.parametrize("case", CASES)
def test_in_kernel(vtest: Path, case: str) -> None:
    """Run one case; see CASES for what it holds to."""
    assert (vtest / case).read_text() == "ok\n", CASES[case]


def test_no_case_is_forgotten(vtest: Path) -> None:
    """Every case of the module is run from here."""
    assert {path.name for path in vtest.iterdir()} == set(CASES)
