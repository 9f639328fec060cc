# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Guests whose CPUs are held."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kfabric import names
from kfabric.steer import board
from kfabric.steer.plan import Plan
from kfabric.vm import plugins, userbuild
from kfabric.vm.spec import VmSpec
from kfabric.vm.usermodule import UserModule


def steered(spec: VmSpec, modules: Iterable[str]) -> VmSpec:
    """The same guest, held in these modules as the environment asks; the same if it does not.

    Args:
        modules: their names, as the kernel spells them.
    """
    plan = Plan.of_environment()
    if plan is None:
        return spec
    env = {**spec.env, **replace(plan, modules=tuple(modules)).environment()}
    return replace(spec, plugin=plugins.ensure(board.PLUGIN), env=env)


def under_test(spec: VmSpec, tested: UserModule) -> list[str]:
    """The user's modules in a guest that has them, as the kernel spells their names."""
    place = spec.env.get(names.MODULE_DIR)
    built = userbuild.built(Path(place)) if place else ()
    return [*built, *map(userbuild.kernel_name, tested.modprobe)]
