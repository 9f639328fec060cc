# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Finds out from the text of tests what their guests need: kfabric's modules, a second guest.

Building ours takes minutes, and tests of a module that does not call kfabric rarely need them.
The tests are collected in the guest, so before it boots only their text is known. A file that
needs ours by a way that is not recognized gets an error that names the remedy
(``Modules.from_environment()`` in harness/guest/modules.py).
"""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kfabric.vm import prepare

FREE = frozenset({"in_child", "in_thread", "node", "stranger", "verbs"})
"""Fixtures of tests/guest/conftest.py that work without our modules."""
PLUGINS = frozenset({"wakeups"})
"""Fixtures of the plugin that do not."""
VERIFY = "--verify-wakeups"
"""This option needs them as well."""

_CONFTEST = prepare.SOURCE / "tests/guest/conftest.py"
_CONFIGURATIONS = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_WORDS = re.compile(r"\b(kfabric_py|KFABRIC_MODULES|Modules(\.\w|\())|/dev/kfabric\b")
_BY_NAME = ("getfixturevalue", "usefixtures")

_TEST = re.compile(r"^\s*(?:async )?def test", re.MULTILINE)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def need_kfabric(paths: Iterable[Path], root: Path, options: Iterable[str] = ()) -> bool:
    """Whether tests seem to need our modules.

    Args:
        paths: their files and directories, absolute.
        root: of their project.
        options: pytest's.
    """
    configured = [os.environ.get("PYTEST_ADDOPTS", ""), *(_read(root / n) for n in _CONFIGURATIONS)]
    if VERIFY in options or any(VERIFY in text for text in configured):
        return True
    files = [file for path in paths for file in (*_conftests(path, root), *_scripts(path))]
    trees = {file: _parsed(file) for file in files}
    shared = (tree for file, tree in trees.items() if file.name == "conftest.py")
    ours = _fixtures().difference(*map(_made, shared))
    return any(_uses(file, tree, ours) for file, tree in trees.items())


def is_one(paths: Sequence[str]) -> bool:
    """Whether pytest's paths name a single test function, so that one guest is enough for them."""
    return sum(map(_number, paths)) == 1


def _number(path: str) -> int:
    file, _, test = path.partition("::")
    if test:
        return 1
    place = Path(file)
    scripts = [place] if place.is_file() else _scripts(place)
    return sum(len(_TEST.findall(_read(script))) for script in scripts)


def _fixtures() -> set[str]:
    """The fixtures that need our modules."""
    every = {function.name for function in _functions(_parsed(_CONFTEST)) if _is_fixture(function)}
    return every - FREE | PLUGINS


def _conftests(place: Path, root: Path) -> Iterator[Path]:
    """The files above a place with fixtures for its tests."""
    for parent in place.parents:
        if parent.is_relative_to(root):
            yield parent / "conftest.py"


def _scripts(place: Path) -> Iterator[Path]:
    """The tests in a place; a file's helpers lie beside it."""
    if place.is_file():
        beside = (path for path in place.parent.glob("*.py") if path.name[:5] != "test_")
        yield from (place, *beside)
    for where, directories, names in os.walk(place):
        directories[:] = [name for name in directories if _wanted(Path(where, name))]
        yield from (Path(where, name) for name in names if name.endswith(".py"))


def _wanted(directory: Path) -> bool:
    """Whether it is no environment of Python's, which may have our own packages."""
    return directory.name[:1] != "." and not (directory / "pyvenv.cfg").exists()


def _uses(path: Path, tree: ast.Module, ours: set[str]) -> bool:
    """Whether a file needs our modules; ``ours``: the fixtures that do."""
    asks = not ours.difference(_made(tree)).isdisjoint(_asked(tree))
    return asks or bool(_WORDS.search(_read(path)))


def _asked(tree: ast.Module) -> Iterator[str]:
    """The fixtures that tests and fixtures ask for."""
    for function in _functions(tree):
        if function.name.startswith("test") or _is_fixture(function):
            yield from _arguments(function)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _BY_NAME:
            yield from (str(each.value) for each in node.args if isinstance(each, ast.Constant))


def _made(tree: ast.Module) -> Iterator[str]:
    """The fixtures that a file defines, but not those that extend one of the same name."""
    for function in _functions(tree):
        if _is_fixture(function) and function.name not in _arguments(function):
            yield function.name


def _functions(tree: ast.Module) -> Iterator[_Function]:
    return (node for node in ast.walk(tree) if isinstance(node, _Function))


def _arguments(function: _Function) -> set[str]:
    return {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}


def _is_fixture(function: _Function) -> bool:
    return any("fixture" in ast.unparse(each) for each in function.decorator_list)


def _parsed(path: Path) -> ast.Module:
    """A file's syntax; pytest itself reports a wrong one."""
    try:
        return ast.parse(_read(path))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
