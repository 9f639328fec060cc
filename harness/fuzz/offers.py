# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""In the guest: the infos that the providers offer on a link, by the names in kinds.INFOS."""

import ctypes

import kfabric_py as kp
from harness.guest.topology import RdmaLink
from kfabric_py.info import info_to_raw


def offers(link: RdmaLink) -> dict[str, ctypes.Structure]:
    """Call getinfo() for each name. Raises OSError if a provider has no such offer."""
    here = (link.address, 0)
    rdm, ip = kp.EpAttr(type=kp.EpType.RDM), kp.AddrFormat.SOCKADDR_IN
    pair = kp.EpAttr(type=kp.EpType.RDM, tx_ctx_cnt=2, rx_ctx_cnt=2)
    on_link = kp.DomainAttr(name=link.name)
    manual = kp.DomainAttr(data_progress=kp.Progress.MANUAL)
    with kp.Device() as device:
        found = {
            "mock": device.getinfo(provider="mock"),
            "manual": device.getinfo(provider="mock", hints=kp.Info(domain_attr=manual)),
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
