# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The layout of harness/: what docs/architecture.md promises about its rooms."""

from __future__ import annotations

import re
from functools import cache
from graphlib import TopologicalSorter

import pytest
from imports import HARNESS, PACKAGE, ROOT, imported, loaded_by, modules, room

DOCUMENT = ROOT / "docs" / "architecture.md"
# One row of the table of rooms: | `room` | text | `a` `b` | side |
ROW = re.compile(r"^\| `(\w+)` \|[^|]+\|([^|]*)\| (\w+) \|$", re.MULTILINE)
LOOSE_AT_MOST = 5
# Packages that only one side has installed; everything else the other side has, too.
HOST_ONLY = {"qemu", "rich", "xdist", "drgn", "gcovr", "perfetto"}
GUEST_ONLY = {"bcc", "pyverbs"}
# Modules of rooms on the host that run in the guest all the same.
VISITORS = {
    "kfabric.runner.plugin": "pytest loads it on both sides",
    "kfabric.runner.shards": "the plugin needs it on both sides",
    "kfabric.runner.bridge": "a script that imports nothing",
    "kfabric.vm.agent": "process 1 of a guest",
    "kfabric.vm.wire": "the frames that agent and host exchange",
    "kfabric.vm.warmup": "runs in a guest before it is frozen",
}


@cache
def rooms() -> dict[str, tuple[frozenset[str], str]]:
    """What each room may import and where it runs, as the document says."""
    rows = ROW.findall(DOCUMENT.read_text(encoding="utf-8"))
    return {name: (frozenset(re.findall(r"`(\w+)`", may)), side) for name, may, side in rows}


def arrows() -> dict[tuple[str, str], list[str]]:
    """From which room to which other one there are imports, with the modules that have them."""
    trees = modules()
    found: dict[tuple[str, str], list[str]] = {}
    for module, tree in trees.items():
        for name in imported(tree, trees):
            target = room(name)
            if name.startswith(f"{PACKAGE}.") and room(module) not in (target, PACKAGE):
                found.setdefault((room(module), target), []).append(module)
    return found


def test_every_room_is_in_the_document() -> None:
    """The table has one row for each folder and each loose module, and no other row."""
    assert set(rooms()) == {room(module) for module in modules()} - {PACKAGE}


def test_rooms_import_what_the_document_allows() -> None:
    """A room imports only the rooms of its row, and its row has no room that it does not import."""
    allowed = {(name, target) for name, (may, _) in rooms().items() for target in may}
    real = arrows()
    assert not {arrow: real[arrow] for arrow in set(real) - allowed}
    assert not allowed - set(real)


def test_no_rooms_import_one_another_in_a_circle() -> None:
    """The rooms can be put in an order in which each imports earlier ones alone."""
    graph: dict[str, set[str]] = {}
    for source, target in arrows():
        graph.setdefault(source, set()).add(target)
    list(TopologicalSorter(graph).static_order())


def test_few_modules_lie_loose() -> None:
    """Besides the rooms there are at most five modules in harness/."""
    loose = [p.name for p in (ROOT / HARNESS).glob("*.py") if p.name != "__init__.py"]
    assert len(loose) <= LOOSE_AT_MOST, loose


def test_one_module_says_where_the_checkout_is() -> None:
    """No other one goes up from its own file, which lies elsewhere in guests and in a wheel."""
    paths = (ROOT / HARNESS).rglob("*.py")
    assert [p.name for p in paths if "__file__).resolve()" in p.read_text()] == ["root.py"]


def runs_on(module: str) -> str:
    """Where a module runs: "host", "guest" or "both"."""
    if module in VISITORS:
        return "both"
    last = module.rpartition(".")[2]
    side = rooms().get(room(module), (frozenset(), "both"))[1]
    return last if side == "either" and last in ("host", "guest") else side


@pytest.mark.parametrize(
    ("side", "missing"), [("guest", HOST_ONLY), ("host", GUEST_ONLY), ("both", HOST_ONLY)]
)
def test_no_side_imports_what_only_the_other_side_has(side: str, missing: set[str]) -> None:
    """Importing a module of one side loads no package that only the other side has."""
    trees = modules()
    entries = [module for module in trees if runs_on(module) == side]
    assert entries
    loaded = loaded_by(entries, trees)
    third = {name: by for name, by in loaded.items() if name.split(".")[0] in missing}
    assert not third


def test_guest_imports_no_room_of_the_host() -> None:
    """Importing a module of the guest loads nothing of a room that is the host's."""
    trees = modules()
    entries = [module for module in trees if runs_on(module) == "guest"]
    loaded = loaded_by(entries, trees)
    foreign = {
        module: by
        for module, by in loaded.items()
        if module.count(".") > 1 and module in trees and runs_on(module) == "host"
    }
    assert not foreign


def test_an_import_in_a_function_is_an_arrow_and_loads_nothing() -> None:
    """What a function imports counts between rooms, and not for what an import loads."""
    trees = modules()
    name = "kfabric.trace.command"
    assert "kfabric.vm.options" in imported(trees[name], trees)
    assert "kfabric.vm.options" not in imported(trees[name], trees, lazy=False)
