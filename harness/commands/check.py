# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric check``: every static check, one line each, and the findings.

A check is a function that returns its findings, one string each. All of them
run, whatever the earlier ones found; none of them changes a file.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from harness.docs import prose as documents
from harness.errors import BuildError, ExitStatus, SetupError
from harness.vm import cache, kbuild, prepare, supply
from harness.vm.spec import Variant

SOURCE = prepare.SOURCE
LINUX_SOURCE = "linux-source-6.1"
SCRIPTS = ("checkpatch.pl", "const_structs.checkpatch", "spelling.txt", "kernel-doc")
EXCEPTIONS = SOURCE / "kmod/checkpatch.txt"
KERNEL_TREES = ("kmod", "examples", "tests/kmod", "tests/gallery/kmod")
SHELL_SCRIPTS = ("vm/init", "vm/*.sh", ".ci/run")
# Tests that pytest imports by their bare names, and those that import one another as tests.*.
TESTS_BY_NAME = ("unit", "guest", "browser", "debug")
TESTS_BY_PATH = ("wire", "vm", "model")
TOOL_SECONDS = 900.0
_RUFF = (sys.executable, "-m", "ruff")

_EXPORT = re.compile(r"^EXPORT_SYMBOL(?:_GPL)?\((\w+)\);", re.MULTILINE)


class Exemption(NamedTuple):
    """A kind of checkpatch message that is allowed in some files."""

    kind: str
    files: str
    """Glob over paths relative to the checkout."""


def main(argv: Sequence[str]) -> int:
    """Run the checks; OK if none of them found anything."""
    parser = argparse.ArgumentParser(prog="kfabric check", description=__doc__)
    parser.add_argument("only", nargs="*", help=f"of: {', '.join(CHECKS)} (default: all)")
    wanted = parser.parse_args(argv).only or list(CHECKS)
    if unknown := [name for name in wanted if name not in CHECKS]:
        parser.error(f"no such check: {', '.join(unknown)}")
    failed = [name for name in wanted if not _report(name, CHECKS[name])]
    if failed:
        print(f"check: {len(failed)} of {len(wanted)} failed: {', '.join(failed)}")
        return ExitStatus.TEST_FAILED
    print(f"check: all {len(wanted)} clean")
    return ExitStatus.OK


def _report(name: str, check: Callable[[], list[str]]) -> bool:
    began = time.monotonic()
    findings = check()
    seconds = time.monotonic() - began
    verdict = f"{len(findings)} findings" if findings else "clean"
    print(f"check: {name:12} {verdict} ({seconds:.0f} s)", flush=True)
    for finding in findings:
        print(f"  {finding}")
    return not findings


def ruff() -> list[str]:
    """Style and common mistakes of the Python code."""
    return _tool([*_RUFF, "check", "--output-format=concise", "."])


def ruff_format() -> list[str]:
    """Layout of the Python code."""
    return _tool([*_RUFF, "format", "--check", "--output-format=concise", "."])


def mypy() -> list[str]:
    """Types of the library, the harness and the tests."""
    mypy = [sys.executable, "-m", "mypy"]
    tests = [*mypy, "--config-file=tests/mypy.ini"]
    return [
        *_tool([*mypy, "--strict", "kfabric_py", "harness"]),
        *(line for name in TESTS_BY_NAME for line in _tool([*tests, f"tests/{name}"])),
        *_tool([*tests, "--explicit-package-bases", *(f"tests/{name}" for name in TESTS_BY_PATH)]),
    ]


def prose() -> list[str]:
    """Sentences of the documents that hide their subject; a few are let through."""
    total, found = documents.count(SOURCE)
    print(f"prose: {len(found)} of {total} sentences hide their subject", flush=True)
    if documents.rate(total, len(found)) < documents.PER_THOUSAND:
        return []
    return [f"{document}: {sentence}" for document, sentence in found]


def shellcheck() -> list[str]:
    """The shell scripts."""
    scripts = [str(path) for glob in SHELL_SCRIPTS for path in SOURCE.glob(glob)]
    return _tool(["shellcheck", *scripts])


def spdx() -> list[str]:
    """A licence line in every source file."""
    listed = subprocess.check_output(["git", "ls-files"], cwd=SOURCE, text=True).split("\n")
    kinds = (".c", ".h", ".py", ".sh", "Makefile", "Kbuild", "vm/init", ".ci/run", ".toml")
    files = [name for name in listed if name.endswith(kinds) and (SOURCE / name).exists()]
    return [f"{name}: no SPDX line" for name in files if not has_spdx(SOURCE / name)]


def has_spdx(path: Path) -> bool:
    """Whether one of a file's first two lines names its licence."""
    head = path.read_text().split("\n")[:2]
    return any("SPDX-License-Identifier: " in line for line in head)


def compile_prod() -> list[str]:
    """The modules as users get them: W=1 and sparse."""
    return _compile(Variant.PROD)


def compile_test() -> list[str]:
    """The modules with hooks and fault points: W=1 and sparse."""
    return _compile(Variant.TEST)


def _compile(variant: Variant) -> list[str]:
    """Build everything afresh, since only what is compiled can warn.

    sparse reads the headers of the host's suite alone: it is installed there.
    """
    image = prepare.guest_image()
    headers = supply.of(SOURCE, image.version, prepare.say).headers(image.release)
    strict = [kbuild.STRICT, *(["C=2", "CF=-D__CHECK_ENDIAN__"] if headers.at_home else [])]
    copy = SOURCE / "build/check" / variant.value
    shutil.rmtree(copy, ignore_errors=True)
    kbuild.sync(SOURCE, copy)
    findings: list[str] = []
    symvers = copy / kbuild.CORE / "Module.symvers"
    for tree in kbuild.trees(SOURCE):
        extra = symvers if tree != Path(kbuild.CORE) else None
        argv = kbuild.make_argv(headers.build, copy / tree, variant, extra)
        done = _run(headers.command([*argv, *strict], copy))
        findings += kbuild.warnings(done.stdout, copy)
        if done.returncode and not findings:
            raise BuildError(kbuild.first_error(done.stdout), console=done.stdout)
    return findings


def checkpatch() -> list[str]:
    """The kernel's own style checker, strict."""
    script = _kernel_scripts() / "checkpatch.pl"
    argv = [str(script), "--no-tree", "--strict", "--terse", "--show-types", "--no-summary"]
    output = _run([*argv, "--max-line-length=100", "-f", *_sources("*.[ch]")]).stdout
    return unexempted(output.splitlines(), exemptions(EXCEPTIONS))


def exemptions(path: Path) -> list[Exemption]:
    """Read the list of allowed checkpatch messages."""
    return [Exemption(*line.split()) for line in cache.list_lines(path)]


def unexempted(messages: Iterable[str], allowed: Sequence[Exemption]) -> list[str]:
    """Messages that no exemption covers, and exemptions that cover none."""
    findings, used = [], set()
    for message in messages:
        path, _, rest = message.partition(":")
        covering = [e for e in allowed if f":{e.kind}:" in rest and fnmatch(path, e.files)]
        used.update(covering)
        if not covering:
            findings.append(message)
    stale = [e for e in allowed if e not in used]
    where = EXCEPTIONS.relative_to(SOURCE)
    return findings + [f"{where}: {e.kind} {e.files} exempts nothing" for e in stale]


def kernel_doc() -> list[str]:
    """Whether the kernel-doc comments parse and describe every parameter."""
    script = _kernel_scripts() / "kernel-doc"
    return _run([str(script), "-none", *_sources("*.[ch]")]).stdout.splitlines()


def exports() -> list[str]:
    """A kernel-doc comment on every exported function."""
    return [
        f"{name}: {symbol} is exported without kernel-doc"
        for name in _sources("*.c")
        for symbol in undocumented((SOURCE / name).read_text())
    ]


def undocumented(text: str) -> list[str]:
    """Exported functions of a C file that have no kernel-doc comment in it.

    Tables are described where they are declared: kernel-doc knows no variables.
    """
    symbols: list[str] = _EXPORT.findall(text)
    return [
        symbol
        for symbol in symbols
        if not re.search(rf"^/\*\*\n \* {symbol}\b", text, re.MULTILINE)
        and not re.search(rf"\b{symbol}\[", text)
    ]


CHECKS: dict[str, Callable[[], list[str]]] = {
    "ruff": ruff,
    "format": ruff_format,
    "mypy": mypy,
    "prose": prose,
    "shellcheck": shellcheck,
    "spdx": spdx,
    "checkpatch": checkpatch,
    "kernel-doc": kernel_doc,
    "exports": exports,
    "kmod-prod": compile_prod,
    "kmod-test": compile_test,
}


def _sources(pattern: str) -> list[str]:
    """Kernel sources that match, relative to the checkout."""
    paths = (path for tree in KERNEL_TREES for path in sorted((SOURCE / tree).rglob(pattern)))
    return [str(path.relative_to(SOURCE)) for path in paths]


def _kernel_scripts() -> Path:
    """Scripts of the kernel's source package, taken out of its archive once."""
    version = subprocess.check_output(
        ["dpkg-query", "-W", "-f", "${Version}", LINUX_SOURCE], text=True
    )
    target = cache.root() / f"scripts-{version}"
    with cache.locked(cache.root() / "scripts.lock"):
        if not target.exists():
            prepare.say(f"scripts of {LINUX_SOURCE} {version}")
            with cache.building(target) as scratch:
                _extract(Path(f"/usr/src/{LINUX_SOURCE}.tar.xz"), scratch)
    return target


def _extract(archive: Path, directory: Path) -> None:
    members = [f"{LINUX_SOURCE}/scripts/{name}" for name in SCRIPTS]
    argv = ["tar", "-xf", str(archive), "-C", str(directory), "--strip-components=2", *members]
    done = _run(argv)
    if done.returncode:
        raise SetupError(f"cannot unpack {archive}", "reinstall it", done.stdout)


def _tool(argv: Sequence[str]) -> list[str]:
    """What a tool prints if it fails, line by line."""
    done = _run(argv)
    return done.stdout.splitlines() if done.returncode else []


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            check=False,
            cwd=SOURCE,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TOOL_SECONDS,
        )
    except FileNotFoundError:
        raise SetupError(f"{argv[0]} is not installed", "run make check") from None
    except subprocess.TimeoutExpired:
        raise SetupError(f"{argv[0]} not done after {TOOL_SECONDS:g} s") from None
