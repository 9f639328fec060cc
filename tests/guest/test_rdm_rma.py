# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Remote reads and writes between RDM endpoints, by keys that the user chooses."""

from __future__ import annotations

import dataclasses
import errno
import ipaddress

import pytest
from guest_support import LIMIT
from rdm_support import CXI, SOCKADDR, RdmNet, RdmPeer
from verbs_support import REMOTE

import kfabric_py as kp

WRITTEN = kp.CqFlags.RMA | kp.CqFlags.WRITE
READ = kp.CqFlags.RMA | kp.CqFlags.READ
NOKEY = kp.KfabricErrno.KFI_ENOKEY


@pytest.mark.parametrize("length", [0, 1, 4096, 8192, 1 << 20])
@pytest.mark.parametrize("how", ["read", "write"])
def test_bytes_go_where_they_should(rdm: RdmNet, how: str, length: int) -> None:
    """The initiator's entry comes when they are there; the target notices nothing."""
    a, b = rdm.connect(length=max(length, 4096))
    region = rdm.region(b, b.buffer)
    near, far = (b, a) if how == "read" else (a, b)
    data = near.write_pattern(near.buffer[:length])
    post = a.ep.read if how == "read" else a.ep.write
    post(a.buffer[:length], region.remote(0, length), context="x")
    entry = a.entry()
    assert (entry.context, entry.len) == ("x", 0)
    assert entry.flags == (READ if how == "read" else WRITTEN)
    assert bytes(far.buffer.view[:length]) == data
    assert b.cq.read() == []


def test_two_megabytes_at_odd_offsets(rdm: RdmNet) -> None:
    """From the middle of a region to an odd place, and back."""
    length = (2 << 20) - 5
    a, b = rdm.connect(length=4 << 20)
    region = rdm.region(b, b.buffer)
    data = b.write_pattern(b.buffer[1001 : 1001 + length])
    a.ep.read(a.buffer[77 : 77 + length], region.remote(1001, length))
    assert a.entry().flags == READ
    assert bytes(a.buffer.view[77 : 77 + length]) == data
    a.ep.write(a.buffer[77 : 77 + length], region.remote(2_000_003, length))
    assert a.entry().flags == WRITTEN
    assert bytes(b.buffer.view[2_000_003 : 2_000_003 + length]) == data


@pytest.mark.parametrize("key", [1, 0xFFFF_FFFF, (1 << 48) - 1])
def test_key_is_the_users(rdm: RdmNet, key: int) -> None:
    """Up to mr_key_size."""
    a, b = rdm.connect()
    with b.domain.mr(b.buffer, REMOTE, key=key) as region:
        assert region.key == key
        a.ep.write(a.buffer[:8], region.remote(0, 8))
        assert a.entry().flags == WRITTEN


def test_read_that_was_called_off_writes_nothing(rdm: RdmNet) -> None:
    """W8: the endpoint is closed while nobody has answered; no memory of others is seen."""
    a = rdm.peer(length=1 << 17)
    nobody = ipaddress.ip_address(rdm.link.address) + 77
    to = a.av.insert_service(str(nobody), "4711")
    # So scattered that it goes through a copy.
    pieces = [a.buffer[8192 * i + 1 : 8192 * i + 5001] for i in range(12)]
    a.buffer.view[:] = b"\xaa" * len(a.buffer)
    a.ep.read(pieces, kp.RemoteRegion(0, 12 * 5000, 1), to=to)
    a.ep.close()
    assert bytes(a.buffer.view) == b"\xaa" * len(a.buffer)


def test_key_in_use_is_refused(rdm: RdmNet) -> None:
    """KFI_ENOKEY, until the other region is closed."""
    a, b = rdm.connect()
    with b.domain.mr(b.buffer, REMOTE, key=497):
        with pytest.raises(kp.KfiError) as error:
            b.domain.mr(b.buffer, REMOTE, key=497)
        assert error.value.errno == NOKEY
    with b.domain.mr(b.buffer, REMOTE, key=497) as region:
        a.ep.write(a.buffer[:8], region.remote(0, 8))
        assert a.entry().flags == WRITTEN


def refused(rdm: RdmNet, a: RdmPeer, b: RdmPeer) -> None:
    """The failed operation is an entry, and both endpoints go on."""
    error = a.error()
    assert (error.context, error.err) == ("bad", errno.EREMOTEIO)
    assert a.cq.strerror(error)
    b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:8])
    assert b.entry().len == 8
    a.entry()
    assert rdm.device


def test_key_of_nothing(rdm: RdmNet) -> None:
    """EREMOTEIO, which ends nothing."""
    a, b = rdm.connect()
    a.ep.write(a.buffer[:8], kp.RemoteRegion(0, 8, 0x497), context="bad")
    refused(rdm, a, b)


def test_key_of_a_closed_region(rdm: RdmNet) -> None:
    """Closing takes the memory away from peers at once."""
    a, b = rdm.connect()
    with b.domain.mr(b.buffer, REMOTE, key=5) as region:
        remote = region.remote(0, 8)
        a.ep.write(a.buffer[:8], remote)
        a.entry()
    a.ep.write(a.buffer[:8], remote, context="bad")
    refused(rdm, a, b)


def test_access_that_was_not_given(rdm: RdmNet) -> None:
    """A region for reads refuses writes."""
    a, b = rdm.connect()
    region = rdm.region(b, b.buffer, kp.Access.REMOTE_READ)
    a.ep.read(a.buffer[:8], region.remote(0, 8))
    a.entry()
    a.ep.write(a.buffer[:8], region.remote(0, 8), context="bad")
    refused(rdm, a, b)


@pytest.mark.parametrize(("addr", "length"), [(4090, 7), (4096, 1), (1 << 63, 8), (2**64 - 4, 8)])
def test_access_past_the_end(rdm: RdmNet, addr: int, length: int) -> None:
    """One byte too many, beyond it, and sums that overflow."""
    a, b = rdm.connect()
    region = rdm.region(b, b.buffer[:4096])
    over = dataclasses.replace(region.remote(0, length), addr=addr)
    a.ep.write(a.buffer[:length], over, context="bad")
    refused(rdm, a, b)


def test_selective_completion_of_writes(rdm: RdmNet) -> None:
    """Q8: the entry comes only if it was asked for."""
    a, b = rdm.connect(selective=True)
    region = rdm.region(b, b.buffer)
    a.ep.write(a.buffer[:8], region.remote(0, 8))
    a.ep.write(a.buffer[:8], region.remote(0, 8), flags=kp.OpFlags.COMPLETION, context="asked")
    assert a.entry().context == "asked"
    a.cntr.wait(2, timeout=LIMIT)
    assert a.cq.read() == []


@pytest.mark.parametrize("rdm", [SOCKADDR, CXI], indirect=True)
def test_events_at_the_target(rdm: RdmNet) -> None:
    """RMA_EVENT: entries whose context is the region's, and no address of the kernel's."""
    caps = kp.Caps.RMA | kp.Caps.READ | kp.Caps.WRITE | kp.Caps.SEND | kp.Caps.RECV
    caps |= kp.Caps.REMOTE_READ | kp.Caps.REMOTE_WRITE | kp.Caps.RMA_EVENT
    a, b = rdm.connect(info=dataclasses.replace(rdm.info, caps=caps))
    region = rdm.region(b, b.buffer)
    a.ep.write(a.buffer[:100], region.remote(0, 100))
    a.entry()
    entry = b.entry()
    assert entry.flags == kp.CqFlags.RMA | kp.CqFlags.REMOTE_WRITE
    assert (entry.context, entry.len) == ("region", 100)


@pytest.mark.parametrize("rdm", [SOCKADDR], indirect=True)
def test_events_at_a_target_that_asks_for_everything(rdm: RdmNet) -> None:
    """RMA_EVENT among all capabilities is a request like any other."""
    caps = rdm.info.caps | kp.Caps.RMA_EVENT
    a, b = rdm.connect(info=dataclasses.replace(rdm.info, caps=caps))
    region = rdm.region(b, b.buffer)
    a.ep.write(a.buffer[:100], region.remote(0, 100))
    assert b.entry().context == "region"


@pytest.mark.parametrize("named", [True, False], ids=["info", "no-caps"])
@pytest.mark.parametrize("rdm", [SOCKADDR], indirect=True)
def test_no_events_at_a_target_that_did_not_ask(rdm: RdmNet, named: bool) -> None:
    """RMA_EVENT does not come unasked: a queue that nobody reads would fill."""
    assert kp.Caps.RMA_EVENT not in rdm.info.caps
    caps = rdm.info.caps if named else kp.Caps(0)
    a, b = rdm.connect(info=dataclasses.replace(rdm.info, caps=caps))
    region = rdm.region(b, b.buffer)
    a.ep.write(a.buffer[:100], region.remote(0, 100))
    a.entry()
    b.ep.recv(b.buffer[:8])
    a.ep.send(a.buffer[:8])
    assert b.entry().flags & kp.CqFlags.RECV


@pytest.mark.parametrize("rdm", [CXI], indirect=True)
def test_endpoint_of_a_region_does_not_close(rdm: RdmNet) -> None:
    """O1: EBUSY, and the error names the region; the endpoint closes after it."""
    peer = rdm.peer()
    with peer.domain.mr(peer.buffer, REMOTE, key=7) as region:
        region.bind(peer.ep)
        with pytest.raises(kp.Busy, match=f"{peer.ep!r} is used by {region!r}"):
            peer.ep.close()
    peer.ep.close()


@pytest.mark.parametrize("rdm", [CXI], indirect=True)
def test_region_belongs_to_an_endpoint(rdm: RdmNet) -> None:
    """MrMode.ENDPOINT: keys are an endpoint's own, and reach nothing before enable."""
    assert kp.MrMode.ENDPOINT in rdm.info.domain_attr.mr_mode
    a, b = rdm.connect()
    with b.domain.mr(b.buffer, REMOTE, key=7) as region:
        a.ep.write(a.buffer[:8], region.remote(0, 8), context="bad")
        refused(rdm, a, b)
        region.bind(b.ep)
        region.enable()
        a.ep.write(a.buffer[:8], region.remote(0, 8))
        assert a.entry().flags == WRITTEN
        with b.domain.mr(b.buffer, REMOTE, key=7) as second:
            second.bind(b.ep)
            with pytest.raises(kp.KfiError) as error:
                second.enable()
            assert error.value.errno == NOKEY
