# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Looks for marked functions in the modules that were built, before a guest boots."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from kfabric.trace import watchfile
from kfabric.trace.scope import Scope
from kfabric.trace.userstacks import read_symbols
from kfabric.vm import prepare, userbuild
from kfabric.vm.userbuild import UserModuleError

# A letter or two: the kernel's vfs_write_iter() is no my_mod_write_iter() that is misspelt.
_CLOSE = 0.85
INLINED = "if it is one of theirs, the compiler has inlined it: declare it noinline"


def check(scope: Scope, built: Path, where: str = "") -> None:
    """Look for the functions of a scope that selects no other modules than those built here.

    A name that is nearly a function's is misspelt. Any other may be the kernel's own: then a
    line shows what to do if it is not.

    Args:
        scope: names them.
        built: has the modules; see :func:`kfabric.vm.userbuild.ensure`.
        where: they were named, for the line.

    Raises:
        UserModuleError: one is misspelt.
    """
    modules = userbuild.built(built)
    if not set(scope.modules) <= set(modules):
        return
    functions = {name for file in modules.values() for name in read_symbols(file).names}
    for name in (*scope.publish, *scope.take):
        if name in functions or _is_known(name, modules):
            continue
        what = f"{where}no function {name} is in {', '.join(modules)}"
        if close := difflib.get_close_matches(name, functions, 1, _CLOSE):
            raise UserModuleError(what, f"did you mean {close[0]}?")
        prepare.say(f"{what}; {INLINED}")


def check_file(directory: Path, built: Path) -> None:
    """The same for ``wakeups.toml``; one that cannot be read is reported by pytest's plugin."""
    try:
        watched = watchfile.read(directory)
    except watchfile.WatchFileError:
        return
    if watched:
        check(watched.scope, built, f"{directory / watchfile.NAME}: ")


def _is_known(name: str, modules: Mapping[str, Path]) -> bool:
    """Whether a module has a symbol of that name, such as a kernel's function that it calls."""
    symbol = b"\0%s\0" % name.encode()
    return any(symbol in file.read_bytes() for file in modules.values())
