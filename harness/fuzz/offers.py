# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What providers offer on a link: the ``@info`` of programs, by name (kinds.INFOS)."""

from __future__ import annotations

import ctypes

import kfabric_py as kp
from harness.guest.topology import RdmaLink
from kfabric_py.info import info_to_raw


def offers(link: RdmaLink) -> dict[str, ctypes.Structure]:
    """Ask for all of them.

    :raises OSError: one is not offered.
    """
    here = (link.address, 0)
    rdm, ip = kp.EpAttr(type=kp.EpType.RDM), kp.AddrFormat.SOCKADDR_IN
    pair = kp.EpAttr(type=kp.EpType.RDM, tx_ctx_cnt=2, rx_ctx_cnt=2)
    on_link = kp.DomainAttr(name=link.name)
    with kp.Device() as device:
        found = {
            "mock": device.getinfo(provider="mock"),
            "manual": device.getinfo(
                provider="mock",
                hints=kp.Info(domain_attr=kp.DomainAttr(data_progress=kp.Progress.MANUAL)),
            ),
            "msg": device.getinfo(provider="verbs", source=here),
            "rdm": device.getinfo(
                provider="verbs", source=here, hints=kp.Info(addr_format=ip, ep_attr=rdm)
            ),
            "cxi": device.getinfo(
                provider="verbs",
                hints=kp.Info(addr_format=kp.AddrFormat.ADDR_CXI, ep_attr=rdm, domain_attr=on_link),
            ),
            "sep": device.getinfo(
                provider="verbs", source=here, hints=kp.Info(addr_format=ip, ep_attr=pair)
            ),
        }
        return {name: info_to_raw(infos[0]) for name, infos in found.items()}
