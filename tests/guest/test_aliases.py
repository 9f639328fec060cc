# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Other names of the verbs provider, its fabrics and domains: the parameter aliases."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

import kfabric_py as kp
from kfabric.guest import modules as guest_modules
from kfabric.guest.topology import RdmaLink

FABRIC = "IB-0xfe80000000000000"

Named = Callable[[str], contextlib.AbstractContextManager[kp.Device]]


@pytest.fixture
def named(verbs: RdmaLink, modules: guest_modules.Modules) -> Named:
    """A device while kfi_verbs is loaded with aliases; afterwards it has none again."""

    @contextlib.contextmanager
    def opened(aliases: str) -> Iterator[kp.Device]:
        guest_modules.remove("kfi_verbs")
        try:
            guest_modules.insert(modules.file("kfi_verbs"), f"aliases={aliases}")
            with kp.Device() as device:
                yield device
            guest_modules.remove("kfi_verbs")
        finally:
            modules.load()

    return opened


def hints(provider: str = "", fabric: str = "", domain: str = "") -> kp.Info:
    """They name these."""
    return kp.Info(
        fabric_attr=kp.FabricAttr(name=fabric, prov_name=provider),
        domain_attr=kp.DomainAttr(name=domain),
    )


def names(info: kp.Info) -> tuple[str, str, str]:
    """Of provider, fabric and domain."""
    return info.fabric_attr.prov_name, info.fabric_attr.name, info.domain_attr.name


def test_names_of_the_hints_come_back_and_open(named: Named, verbs: RdmaLink) -> None:
    """A fabric and a domain are opened by what the info calls them."""
    theirs = ("cxi", "slingshot", "cxi0")
    with named(f"cxi=verbs,slingshot={FABRIC},cxi0={verbs.name}") as device:
        info = device.getinfo(hints=hints(*theirs))[0]
        assert names(info) == theirs
        with device.fabric(info) as fabric, fabric.domain(info) as domain:
            assert domain.cq(size=4).read() == []
            # What is open is found again, under either name.
            for name in (verbs.name, "cxi0"):
                assert names(device.getinfo(hints=hints(domain=name))[0])[2] == name


def test_alias_shows_only_to_who_names_it(named: Named, verbs: RdmaLink) -> None:
    """Without hints there is each offer once, with the names that they have."""
    with named(f"cxi=verbs,cxi0={verbs.name}") as device:
        offers = [names(info) for info in device.getinfo()]
        assert {provider for provider, _, _ in offers} <= {"verbs", "mock"}
        assert "cxi0" not in {domain for _, _, domain in offers}
        assert len(offers) == len(device.getinfo(provider="cxi")) + len(
            [provider for provider, _, _ in offers if provider == "mock"]
        )
        with pytest.raises(kp.NoMatch):
            device.getinfo(hints=hints(provider="cxi", domain="cxi1"))


def test_name_of_an_object_is_no_alias(named: Named, verbs: RdmaLink) -> None:
    """Of a fabric that is called so itself, the domain does not get the name."""
    with named(f"{FABRIC}={verbs.name}") as device:
        with pytest.raises(kp.NoMatch):
            device.getinfo(hints=hints(domain=FABRIC))
        assert device.getinfo(hints=hints(fabric=FABRIC))


def test_alias_of_a_domain_is_a_node(named: Named, verbs: RdmaLink) -> None:
    """Also if it is like the provider's own names of nodes, and stands for another one."""
    rdm = kp.Info(ep_attr=kp.EpAttr(type=kp.EpType.RDM), addr_format=kp.AddrFormat.ADDR_CXI)
    with named(f"cxi7={verbs.name},cxi0=nothing") as device:
        found = device.getinfo(provider="verbs", node="cxi7", local=True, hints=rdm)
        assert {info.domain_attr.name for info in found} == {verbs.name}
        with pytest.raises(kp.NoMatch):
            device.getinfo(provider="verbs", node="cxi0", local=True, hints=rdm)


@pytest.mark.parametrize(
    "aliases",
    [
        *("cxi", "=verbs", "cxi=", "cxi=verbs,efa=verbs", "a=b=c"),
        *("cxi0=rxe0,cxi0=rxe1", "verbs=rxe0", "verbs=verbs", f"{'x' * 64}=rxe0"),
    ],
)
def test_alias_that_is_none_is_refused(named: Named, aliases: str) -> None:
    """O2: the module is not loaded: nothing is ignored in silence."""
    with pytest.raises(guest_modules.ModuleError, match="Invalid argument"), named(aliases):
        pass
