# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The order in which kfi_getinfo() offers endpoints of both types."""

from __future__ import annotations

import pytest
from rdm_support import parameter

import kfabric_py as kp
from kfabric.guest.topology import RdmaLink


def types(device: kp.Device, link: RdmaLink, **wishes: object) -> list[kp.EpType]:
    """Of the offers for a link, in their order."""
    hints = kp.Info(domain_attr=kp.DomainAttr(name=link.name), **wishes)  # type: ignore[arg-type]
    return [info.ep_attr.type for info in device.getinfo(provider="verbs", hints=hints)]


@pytest.mark.parametrize("prefer", [0, 1])
def test_type_that_is_preferred_comes_first(
    device: kp.Device, verbs: RdmaLink, prefer: int
) -> None:
    """The parameter prefer_rdm: for hints that both types meet; both are offered."""
    first = (kp.EpType.MSG, kp.EpType.RDM)[prefer]
    with parameter("prefer_rdm", prefer):
        found = types(device, verbs)
        assert found[0] is first and set(found) == {kp.EpType.MSG, kp.EpType.RDM}
        again = types(device, verbs, caps=kp.Caps.MSG | kp.Caps.RMA)
        assert again[0] is first


def test_address_of_one_type_gets_that_type(device: kp.Device, verbs: RdmaLink) -> None:
    """Whatever is preferred."""
    found = types(device, verbs, addr_format=kp.AddrFormat.ADDR_CXI)
    assert set(found) == {kp.EpType.RDM}
