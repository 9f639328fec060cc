# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Lines of source for the frames of a user's modules in a kernel's report.

The kernel's scripts/decode_stacktrace.sh finds them in the same way. Guests load stripped modules;
those in the directory of their build have debug information, if their kernel's configuration has
CONFIG_DEBUG_INFO, as Debian's do.
"""

import functools
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from kfabric import splats

TOOL_SECONDS = 20.0
# As in "RIP: 0010:f+0x1b/0x40 [mod]", " ? f+0x1b/0x40 [mod]", and kmemleak's "[<...>] f+...".
_FRAME = re.compile(
    r"(?P<exact>RIP: \w+:)?(\? |\[<\w+>\] )?(?P<name>[\w.]+)\+0x(?P<offset>[0-9a-f]+)/0x[0-9a-f]+"
    r" \[(?P<module>\w+)( \w+)?\]"
)
_SYMBOL = re.compile(r"(\S+) *\|(\w+)\| +[tTwW] +\|.*\|(\S+)")
"""In the output of nm: the name, value and section of a function."""

Symbols = Callable[[Path], Sequence[tuple[str, int, str]]]


def add(text: str, built: Path) -> str:
    """The same text, in which each frame of the modules in a directory has its line.

    Args:
        built: made by :func:`kfabric.vm.userbuild.ensure`.
    """
    symbols = functools.cache(_symbols)
    return "\n".join(_with_line(line, built / "src", symbols) for line in text.split("\n"))


def _with_line(line: str, source: Path, symbols: Symbols) -> str:
    if not (found := _FRAME.fullmatch(splats.unstamped(line).rstrip())):
        return line
    offset = int(found["offset"], 16)
    # All but the instruction pointer are addresses to return to, after the call.
    offset = offset if found["exact"] else max(offset - 1, 0)
    where = _place(found["module"], found["name"], offset, source, symbols)
    return f"{line.rstrip()} ({where})" if where else line


def of(module: str, function: str, offset: int, built: Path) -> str:
    """The line of an instruction, and those of the module that it is inlined at.

    Empty if they are not known.

    Args:
        offset: from the beginning of the function.
        built: as for :func:`add`.
    """
    return _place(module, function, offset, built / "src", _symbols)


def _place(module: str, function: str, offset: int, source: Path, symbols: Symbols) -> str:
    try:
        return _found(module, function, offset, source, symbols)
    except (OSError, subprocess.SubprocessError):
        return ""  # what it stands beside is worth more than the line


def _found(module: str, function: str, offset: int, source: Path, symbols: Symbols) -> str:
    files = (ko for ko in source.rglob("*.ko") if ko.stem.replace("-", "_") == module)
    if not (file := next(files, None)):
        return ""
    starts = {(value, place) for name, value, place in symbols(file) if name == function}
    if len(starts) != 1:
        return ""  # several static functions have this name
    ((start, section),) = starts
    address = start + offset
    lines = _run("addr2line", "-i", "-j", section, "-e", str(file), hex(address)).splitlines()
    names = [name.partition(" (disc")[0].removeprefix(f"{source}/") for name in lines]
    # A macro of the kernel may go through five of its headers.
    shown = names[:1] + [name for name in names[1:] if not name.startswith("/")]
    return "" if any("?" in name for name in names) else ", inlined at ".join(shown)


def _symbols(file: Path) -> Sequence[tuple[str, int, str]]:
    """The functions of a module: name, value, section."""
    lines = _run("nm", "-f", "sysv", "--defined-only", str(file)).splitlines()
    found = filter(None, map(_SYMBOL.fullmatch, lines))
    return [(name, int(value, 16), section) for name, value, section in (m.groups() for m in found)]


def _run(*argv: str) -> str:
    return subprocess.run(
        argv, check=True, capture_output=True, text=True, errors="replace", timeout=TOOL_SECONDS
    ).stdout
