# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The imports between the modules of harness/, read from their source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HARNESS = "harness"
PACKAGE = "kfabric"


def modules() -> dict[str, ast.Module]:
    """The syntax tree of each module of harness/, by its dotted name."""
    found = {}
    for path in sorted((ROOT / HARNESS).rglob("*.py")):
        parts = path.relative_to(ROOT / HARNESS).with_suffix("").parts
        name = ".".join([PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)])
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def room(module: str) -> str:
    """The folder of harness/ that holds a module; the module's own name if none does."""
    return module.split(".")[1] if "." in module else module


def imported(tree: ast.AST, known: Iterable[str], lazy: bool = True) -> set[str]:
    """The dotted names that a module imports.

    Args:
        tree: the module.
        known: the modules of harness/, which tell a module from a name in one.
        lazy: also what functions import when they are called.
    """
    nodes = ast.walk(tree) if lazy else _at_load(tree)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in inner}
    return names


def _at_load(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _at_load(node)


def loaded_by(entries: Iterable[str], trees: dict[str, ast.Module]) -> dict[str, str]:
    """All modules that an import of the entries loads, each with the module that imports it."""
    found = dict.fromkeys(entries, "")
    todo = list(found)
    while todo:
        module = todo.pop()
        for name in imported(trees[module], trees, lazy=False) if module in trees else ():
            packages = [name.rsplit(".", n)[0] for n in range(name.count(".") + 1)]
            for each in packages:
                if each not in found:
                    found[each] = module
                    todo.append(each)
    return found
