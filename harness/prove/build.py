# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compiles the checker, the shim of the kernel, the files under test and the scenarios with gcc.

Every object and every program is named by the hash of all that decides its contents, so that a
changed file is compiled alone. They are kept in the cache, or below ``build/`` if the cache
cannot be written.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kfabric.errors import ExitStatus, KfabricError, SetupError
from kfabric.root import PACKAGE
from kfabric.vm import cache, source, tools

HERE = PACKAGE / "prove"
ENGINE = HERE / "engine"
SHIM = HERE / "shim"
OF_KERNEL = SHIM / "kernel"
"""Parts of the kernel over the other primitives, compiled as the files under test are."""
FOR_KFABRIC = SHIM / "kfabric"
"""A file in it stands in for that of the core with the same name."""
OF_SHIM = (SHIM / "include", ENGINE, SHIM)
"""Where the shim finds headers."""
CORE = Path("kmod/core")
SCENARIOS = Path("tests/prove")
NOT_TESTED = ("waitq_kunit.c",)
"""A test itself."""

GCC = ("env", "LC_ALL=C", "gcc")
"""Its errors are read, so they are in one language."""
PROCESSES = 2
GCC_SECONDS = 120.0
KEPT = {"objects": 500, "programs": 50}
"""The newest files of each folder, which are kept."""
KEPT_SECONDS = 86_400.0
"""And for how long the others are, which another process may use."""

# The checker walks stacks by their frame pointers.
_PLAIN = (
    "-std=gnu11",
    "-g",
    "-O2",
    "-Wall",
    "-fno-pie",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
)
# The kernel's own rules of C. Volatile accesses are switch points, so that they get calls of
# their own.
_TESTED = (
    "-std=gnu11",
    "-g",
    "-O1",
    "-fno-pie",
    "-funsigned-char",
    "-fno-strict-aliasing",
    "-fno-common",
    "-fwrapv",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-Werror=implicit-function-declaration",
    "-fsanitize=thread",
    "--param=tsan-distinguish-volatile=1",
    "--param=tsan-instrument-func-entry-exit=1",
)
_TEST_BUILD = "-DKFABRIC_TEST"
"""As in the kernel: with the delay hooks."""

# What gcc and the linker say about a thing that the shim lacks. ``{}`` is its name.
_MISSING = (
    (re.compile(r"(\S+?):\d+:\d+: error: implicit declaration of function '(\w+)'"), "uses {}()"),
    (re.compile(r"(\S+?):\d+: undefined reference to `(\w+)'"), "uses {}"),
    (re.compile(r"(\S+?):\d+:\d+: fatal error: (\S+): No such file"), "includes <{}>"),
    (re.compile(r"(\S+?):\d+:\d+: error: unknown type name '(\w+)'"), "uses {}"),
    (re.compile(r"(\S+?):\d+:\d+: error: '(\w+)' undeclared"), "uses {}"),
)
_SCENARIO = re.compile(r"^PROVE_SCENARIO\((\w+)\s*,", re.MULTILINE)
# A scenario that a macro or a file of another folder may define.
_ELSEWHERE = re.compile(
    r'[^\n]PROVE_SCENARIO|PROVE_SCENARIO(?!\(\w+\s*,)|^\s*#\s*include\s+"[^"]*/', re.MULTILINE
)
_FIRST_ERROR = re.compile(r"^.*(error: |undefined reference|multiple definition).*$", re.MULTILINE)


class CompileError(KfabricError, status=ExitStatus.BUILD, label="not compiled"):
    """A file does not compile, or needs something that the shim lacks."""


@dataclass(frozen=True)
class Sources:
    """What is compiled into one program.

    Args:
        tested: the files under test.
        scenarios: the files with scenarios.
        kfabric: the files under test are those of kfabric's core.
        base: the directory from which errors name the files.
    """

    tested: tuple[Path, ...]
    scenarios: tuple[Path, ...]
    kfabric: bool
    base: Path

    @property
    def includes(self) -> tuple[Path, ...]:
        """Where headers are looked for, in this order."""
        own = {path.parent for path in (*self.tested, *self.scenarios)}
        kmod = [self.base / "kmod/include", self.base / "kmod/include/uapi", self.base / CORE]
        return (OF_SHIM[0], *(kmod if self.kfabric else []), *OF_SHIM[1:], *sorted(own))


@dataclass(frozen=True)
class _Unit:
    """One file, the options of gcc for it, and where it finds headers."""

    path: Path
    options: tuple[str, ...]
    search: tuple[Path, ...]


def of_kfabric(checkout: Path) -> Sources:
    """The core of a checkout and its scenarios."""
    replaced = {*NOT_TESTED, *(path.name for path in FOR_KFABRIC.glob("*.c"))}
    tested = [path for path in (checkout / CORE).glob("*.c") if path.name not in replaced]
    scenarios = (checkout / SCENARIOS).glob("*.c")
    return Sources(tuple(sorted(tested)), tuple(sorted(scenarios)), True, checkout)


def declared(sources: Sources) -> list[str] | None:
    """The names of the scenarios, read from the files without compiling them.

    Those of neighbouring files are among them. None: a file may define scenarios in another way,
    so that only the program knows their names.
    """
    folders = {path.parent for path in sources.scenarios}
    near = {path for folder in folders for like in ("*.c", "*.h") for path in folder.glob(like)}
    texts = [path.read_text(errors="replace") for path in {*near, *sources.scenarios}]
    if any(_ELSEWHERE.search(text) for text in texts):
        return None
    names = [name for text in texts for name in _SCENARIO.findall(text)]
    return [name.replace("_", "-") for name in names]


def ensure(sources: Sources) -> Path:
    """The program of these sources, built if it is not in the cache.

    Raises:
        CompileError: a file does not compile, or needs something that the shim lacks.
        SetupError: there is no gcc, or no place for the program.
    """
    place = directory()
    units = list(_units(sources))
    headers = {unit.search: _headers(unit.search) for unit in units}
    with ThreadPoolExecutor(PROCESSES) as pool:
        compiled = pool.map(lambda unit: _object(unit, headers[unit.search], place, sources), units)
        objects = list(compiled)
    program = place / "programs" / cache.key(path.name.encode() for path in objects)
    if not program.exists():
        argv = [*GCC, "-no-pie", "-o", "{}", *map(str, objects), "-lm"]
        _make(program, argv, sources)
    program.touch()
    _prune(place)
    return program


def directory() -> Path:
    """Where objects and programs are kept."""
    for place in (cache.root() / "prove", source.results() / "prove-cache"):
        try:
            for name in KEPT:
                (place / name).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                return place
        except OSError as error:
            reason = error.strerror
    raise SetupError(f"cannot write to {place}: {reason}")


@functools.cache
def _compiler() -> str:
    """The version of gcc."""
    if shutil.which("gcc") is None:
        raise SetupError("gcc is not in PATH", "kfabric prove compiles C")
    return tools.captured([*GCC, "--version"], GCC_SECONDS).stdout.splitlines()[0]


def _units(sources: Sources) -> Iterator[_Unit]:
    """Every file of the program. The checker and the shim's own files are not instrumented.

    What knows nothing of the files under test is compiled once for all programs.
    """
    for path in sorted(ENGINE.glob("*.c")):
        yield _Unit(path, _PLAIN, (ENGINE,))  # an ordinary program, with the host's headers
    for path in sorted(SHIM.glob("*.c")):
        yield _Unit(path, _PLAIN, OF_SHIM)
    for path in sorted(OF_KERNEL.glob("*.c")):
        yield _Unit(path, _TESTED, OF_SHIM)
    test = (_TEST_BUILD,) if sources.kfabric else ()
    stands_in = sorted(FOR_KFABRIC.glob("*.c")) if sources.kfabric else []
    for path in (*stands_in, *sources.tested, *sources.scenarios):
        yield _Unit(path, (*_TESTED, *test), sources.includes)


def _headers(places: Sequence[Path]) -> list[bytes]:
    """All headers that a file may include which looks for them in these places.

    Folders are searched two levels deep only: a user's file may lie in a large tree.
    """
    globs = ("*.h", "*/*.h", "*/*/*.h")
    headers = sorted({path for place in places for like in globs for path in place.glob(like)})
    return [part for path in headers for part in (bytes(path), path.read_bytes())]


def _object(unit: _Unit, headers: Sequence[bytes], place: Path, sources: Sources) -> Path:
    """The compiled file."""
    options = [*unit.options, *(f"-I{path}" for path in unit.search)]
    own = [_compiler().encode(), " ".join(options).encode(), bytes(unit.path)]
    name = cache.key([*own, unit.path.read_bytes(), *headers])
    target = place / "objects" / f"{name}.o"
    if not target.exists():
        _make(target, [*GCC, *options, "-c", "-o", "{}", str(unit.path)], sources)
    target.touch()
    return target


def _make(target: Path, argv: Sequence[str], sources: Sources) -> None:
    """Make a file completely or not at all; ``{}`` in the command is its name meanwhile."""
    scratch = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        done = tools.captured([word.format(scratch) for word in argv], GCC_SECONDS)
        if done.returncode:
            raise CompileError(
                _failure(done.stdout, sources), console=_relative(done.stdout, sources)
            )
        scratch.replace(target)
    except subprocess.TimeoutExpired:
        raise CompileError(f"gcc did not end within {GCC_SECONDS:g} s") from None
    finally:
        scratch.unlink(missing_ok=True)


def _failure(log: str, sources: Sources) -> str:
    """What failed, in one line."""
    for pattern, words in _MISSING:
        for found in pattern.finditer(log):
            if Path(found[1]).parent != ENGINE:
                file = _relative(found[1], sources)
                return f"{file} {words.format(found[2])}, which the shim lacks"
    log = _relative(log, sources)
    first = _FIRST_ERROR.search(log)
    return first[0].strip() if first else log.strip().splitlines()[-1]


def _relative(log: str, sources: Sources) -> str:
    return log.replace(f"{sources.base}/", "")


def _prune(place: Path) -> None:
    """Remove files that were not used for long."""
    oldest = time.time() - KEPT_SECONDS
    for name, number in KEPT.items():
        found = []
        for path in (place / name).iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process has renamed it
                found.append((path.stat().st_mtime, path))
        for used, path in sorted(found)[:-number]:
            if used < oldest:
                path.unlink(missing_ok=True)
