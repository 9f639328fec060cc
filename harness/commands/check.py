# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Run the static checks, and print one line for each, with its findings.

All checks run, whatever the earlier ones found; none of them changes a file.
"""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from kfabric.docs import prose as documents
from kfabric.errors import BuildError, ExitStatus, SetupError, UsageError, near
from kfabric.terminal.arguments import Parser
from kfabric.vm import cache, kbuild, prepare, supply, tools
from kfabric.vm.spec import Variant

SOURCE = prepare.SOURCE
LINUX_SOURCE = "linux-source-6.1"
SCRIPTS = ("checkpatch.pl", "const_structs.checkpatch", "spelling.txt", "kernel-doc")
EXCEPTIONS = SOURCE / "kmod/checkpatch.txt"
KERNEL_TREES = ("kmod", "examples", "tests/kmod", "tests/gallery/kmod", "vm/kernels/rv/tree")
SHELL_SCRIPTS = ("vm/init", "vm/*.sh", ".ci/run")
# Folders of tests with bare module names, and those whose modules are tests.*.
TESTS_BY_NAME = ("unit", "guest", "browser", "debug")
TESTS_BY_PATH = ("wire", "vm", "model")
TOOL_SECONDS = 900.0
_RUFF, _CONCISE = (sys.executable, "-m", "ruff"), ("--output-format=concise", ".")

_EXPORT = re.compile(r"^EXPORT_SYMBOL(?:_GPL)?\((\w+)\);", re.MULTILINE)


class UnknownCheck(UsageError, label="no such check"):
    """There is no check of that name."""


class Exemption(NamedTuple):
    """A kind of checkpatch message that is allowed in some files."""

    kind: str
    files: str
    """A glob for paths relative to the checkout."""


def main(argv: Sequence[str]) -> int:
    """Run the checks; OK if there are no findings."""
    parser = Parser(prog="kfabric check", description=__doc__)
    parser.add_argument(
        "only", nargs="*", metavar="CHECK", help=f"{', '.join(CHECKS)}; default: all"
    )
    wanted = parser.parse_args(argv).only or list(CHECKS)
    for name in wanted:
        if name not in CHECKS:
            raise UnknownCheck(name, near(name, CHECKS))
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


def mypy() -> list[str]:
    """Types of the library, the harness and the tests."""
    mypy = [sys.executable, "-m", "mypy"]
    tests = [*mypy, "--config-file=tests/mypy.ini"]
    return [
        *_tool([*mypy, "--strict", "-p", "kfabric_py", "-p", "kfabric"]),
        *(line for name in TESTS_BY_NAME for line in _tool([*tests, f"tests/{name}"])),
        *_tool([*tests, "--explicit-package-bases", *(f"tests/{name}" for name in TESTS_BY_PATH)]),
    ]


def prose() -> list[str]:
    """Sentences of the documents that hide their subject; a small share is accepted."""
    total, found = documents.count(SOURCE)
    print(f"prose: {len(found)} of {total} sentences hide their subject", flush=True)
    if documents.rate(total, len(found)) < documents.PER_THOUSAND:
        return []
    return [f"{document}: {sentence}" for document, sentence in found]


def spdx() -> list[str]:
    """Source files without a licence line."""
    listed = subprocess.check_output(["git", "ls-files"], cwd=SOURCE, text=True).split("\n")
    kinds = (".c", ".h", ".py", ".sh", "Makefile", "Kbuild", "vm/init", ".ci/run", ".toml")
    files = [name for name in listed if name.endswith(kinds) and (SOURCE / name).exists()]
    return [f"{name}: no SPDX line" for name in files if not has_spdx(SOURCE / name)]


def has_spdx(path: Path) -> bool:
    """Whether one of a file's first two lines names its licence."""
    head = path.read_text().split("\n")[:2]
    return any("SPDX-License-Identifier: " in line for line in head)


def compiled(variant: Variant) -> list[str]:
    """The warnings of a whole build with W=1, and with sparse if the headers are the host's."""
    image = prepare.guest_image()
    headers = supply.of(SOURCE, image.version, prepare.say).headers(image.release)
    strict = [kbuild.STRICT, *(["C=2", "CF=-D__CHECK_ENDIAN__"] if headers.at_home else [])]
    copy = SOURCE / "build/check" / variant.value
    shutil.rmtree(copy, ignore_errors=True)
    kbuild.sync(SOURCE, copy)
    findings: list[str] = []
    for tree in kbuild.trees(SOURCE):
        done = _run(kbuild.tree_command(headers, copy, tree, variant, *strict))
        findings += kbuild.warnings(done.stdout, copy)
        if done.returncode and not findings:
            raise BuildError(tools.first_error(done.stdout), console=done.stdout)
    return findings


def checkpatch() -> list[str]:
    """The kernel's own style checker, strict."""
    script = kernel_scripts() / "checkpatch.pl"
    argv = [str(script), "--no-tree", "--strict", "--terse", "--show-types", "--no-summary"]
    output = _run([*argv, "--max-line-length=100", "-f", *_sources("*.[ch]")]).stdout
    return unexempted(output.splitlines(), exemptions(EXCEPTIONS))


def exemptions(path: Path) -> list[Exemption]:
    """Read the list of exemptions."""
    return [Exemption(*line.split()) for line in cache.list_lines(path)]


def unexempted(messages: Iterable[str], allowed: Sequence[Exemption]) -> list[str]:
    """The messages without an exemption, and the exemptions without a message."""
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
    """Kernel-doc comments that do not parse or lack a parameter."""
    script = kernel_scripts() / "kernel-doc"
    return _run([str(script), "-none", *_sources("*.[ch]")]).stdout.splitlines()


def exports() -> list[str]:
    """Exported functions without a kernel-doc comment."""
    return [
        f"{name}: {symbol} is exported without kernel-doc"
        for name in _sources("*.c")
        for symbol in undocumented((SOURCE / name).read_text())
    ]


def undocumented(text: str) -> list[str]:
    """The exported functions of a C file without a kernel-doc comment in it.

    Exported tables need none: kernel-doc does not support variables.
    """
    symbols: list[str] = _EXPORT.findall(text)
    return [
        symbol
        for symbol in symbols
        if not re.search(rf"^/\*\*\n \* {symbol}\b", text, re.MULTILINE)
        and not re.search(rf"\b{symbol}\[", text)
    ]


CHECKS: dict[str, Callable[[], list[str]]] = {
    "ruff": lambda: _tool([*_RUFF, "check", *_CONCISE]),
    "format": lambda: _tool([*_RUFF, "format", "--check", *_CONCISE]),
    "mypy": mypy,
    "prose": prose,
    "shellcheck": lambda: _tool(
        ["shellcheck", *(str(path) for glob in SHELL_SCRIPTS for path in SOURCE.glob(glob))]
    ),
    "spdx": spdx,
    "checkpatch": checkpatch,
    "kernel-doc": kernel_doc,
    "exports": exports,
    "kmod-prod": lambda: compiled(Variant.PROD),
    "kmod-test": lambda: compiled(Variant.TEST),
}


def _sources(pattern: str) -> list[str]:
    """Kernel sources that match, relative to the checkout."""
    paths = (
        path
        for tree in KERNEL_TREES
        for path in sorted((SOURCE / tree).rglob(pattern))
        if not path.is_symlink()
    )
    return [str(path.relative_to(SOURCE)) for path in paths]


def kernel_scripts() -> Path:
    """The directory with scripts of the kernel's source package, extracted once."""
    version = subprocess.check_output(
        ["dpkg-query", "-W", "-f", "${Version}", LINUX_SOURCE], text=True
    )
    target = cache.root() / f"scripts-{version}"
    with cache.locked(cache.root() / "scripts.lock"):
        if not target.exists():
            prepare.say(f"scripts of {LINUX_SOURCE} {version}")
            with cache.building(target) as scratch:
                archive = f"/usr/src/{LINUX_SOURCE}.tar.xz"
                members = [f"{LINUX_SOURCE}/scripts/{name}" for name in SCRIPTS]
                argv = ["tar", "-xf", archive, "-C", str(scratch), "--strip-components=2"]
                done = _run([*argv, *members])
                if done.returncode:
                    raise SetupError(f"cannot unpack {archive}", "reinstall it", done.stdout)
    return target


def _tool(argv: Sequence[str]) -> list[str]:
    """The lines that a tool prints if it fails."""
    done = _run(argv)
    return done.stdout.splitlines() if done.returncode else []


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return tools.captured(argv, TOOL_SECONDS, SOURCE)
    except FileNotFoundError:
        raise SetupError(f"{argv[0]} is not installed", "run make check") from None
    except subprocess.TimeoutExpired:
        raise SetupError(f"{argv[0]} not done after {TOOL_SECONDS:g} s") from None
