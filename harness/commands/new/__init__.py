# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Write a kernel module to begin with, with a test and a CI file, into the directory NAME.

The module has a device. A read sleeps until something was written, and the test proves that the
write wakes it.
"""

import re
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from kfabric import root
from kfabric.errors import ExitStatus, KfabricError
from kfabric.terminal.arguments import Parser, program
from kfabric.vm import prepare

TEMPLATES = Path(__file__).parent
COMMON = "common"
PLAIN = "plain"
KFABRIC = "kfabric"
FILES = {
    "Kbuild": "Kbuild",
    "Makefile": "Makefile",
    "module.c": "@NAME@.c",
    "test.py": "tests/test_@NAME@.py",
    "README.md": "README.md",
    "gitignore": ".gitignore",
    "workflow.yml": ".github/workflows/kernels.yml",
}
"""Templates (files NAME.in of the module's kind, or else of COMMON) and where they go."""
NAME_LIMIT = 55
"""The kernel's: MODULE_NAME_LEN on 64 bits, without the terminating zero."""
WHEELS = "wheels"
"""Where the workflow finds kfabric's wheels, if it cannot get them from a repository."""
_GIT_SECONDS = 10.0
_C_WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "typeof union unsigned void volatile while".split()
)


class Origin(NamedTuple):
    """A state of kfabric on GitHub."""

    repository: str
    """OWNER/NAME"""
    commit: str


class NewModuleError(KfabricError, status=ExitStatus.USAGE, label="nothing written"):
    """The name does not suit a module, or its directory cannot be written."""


def main(argv: Sequence[str]) -> int:
    """Write the directory, and print the next command."""
    parser = Parser(prog="kfabric new", description=__doc__)
    parser.add_argument(
        "name", metavar="NAME", help="of the directory and the module; the module has _ for each -"
    )
    parser.add_argument(
        "--kfabric",
        action="store_true",
        help="the module calls kfabric: its readers sleep in a wait set",
    )
    args = parser.parse_args(argv)
    module = module_name(args.name)
    origin = _origin()
    values = {"NAME": module, **(_from_repository(origin) if origin else _from_wheels())}
    write(Path(args.name), render(KFABRIC if args.kfabric else PLAIN, values))
    print(f"{args.name}: the module {module}, a test and a CI file")
    if origin is None:
        made = "" if root.INSTALLED else " (make wheels)"
        wheels = f"the two wheels of kfabric {_version()}{made}"
        print(f"for CI, copy {wheels} into {args.name}/{WHEELS}")
    print(f"next: {program()} test --module {args.name}")
    return ExitStatus.OK


def module_name(name: str) -> str:
    """The name of the module in a directory of that name. Raises NewModuleError."""
    module = name.replace("-", "_")
    if "/" in name:
        raise NewModuleError(f"{name} is a path, not a name", "change the directory before")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", module):
        hint = "it may have letters, digits, _ and -, and begins with a letter"
        raise NewModuleError(f"{name!r} is no name for a module", hint)
    if module in _C_WORDS:
        raise NewModuleError(f"{name} is a keyword of C", "choose another name")
    if len(module) > NAME_LIMIT:
        raise NewModuleError(f"{name} has {len(name)} letters", f"the limit is {NAME_LIMIT}")
    return module


def render(kind: str, values: dict[str, str]) -> dict[str, str]:
    """The files of a new module: path and text.

    Args:
        kind: PLAIN or KFABRIC.
        values: of the words @NAME@, @ORIGIN@, @REVISION@ and @PIP@ in the templates.
    """
    return {
        _filled(place, values): _filled(_template(kind, name).read_text(), values)
        for name, place in FILES.items()
    }


def _template(kind: str, name: str) -> Path:
    own = TEMPLATES / kind / f"{name}.in"
    return own if own.exists() else TEMPLATES / COMMON / f"{name}.in"


def _filled(text: str, values: dict[str, str]) -> str:
    for word, value in values.items():
        text = text.replace(f"@{word}@", value)
    return text


def write(directory: Path, files: dict[str, str]) -> None:
    """Write files into a directory that is new or empty. Raises NewModuleError."""
    try:
        directory.mkdir(exist_ok=True)
        if any(directory.iterdir()):
            raise NewModuleError(f"{directory} is not empty", "choose another name")
        for place, text in files.items():
            path = directory / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise NewModuleError(f"{error.filename}: {error.strerror}") from None


def _from_repository(origin: Origin) -> dict[str, str]:
    """The words of the workflow if pip gets kfabric from a repository."""
    place = f"git+https://github.com/{origin.repository}@{origin.commit}"
    return {
        "ORIGIN": f"pip builds kfabric from {origin.repository}.",
        "REVISION": origin.commit,
        "PIP": f"'kfabric @ {place}' 'kfabric-py @ {place}#subdirectory=kfabric_py'",
    }


def _from_wheels() -> dict[str, str]:
    """The words of the workflow if pip gets kfabric from files, or once an index has it."""
    version = _version()
    return {
        "ORIGIN": f"No package index has kfabric yet, so commit its two wheels (make wheels in "
        f"its\n# checkout) in the directory {WHEELS} of this repository.",
        "REVISION": version,
        "PIP": f"--find-links {WHEELS} kfabric=={version}",
    }


def _version() -> str:
    file = prepare.SOURCE / "kfabric_py/VERSION"  # no wheel has it
    return file.read_text().strip() if file.exists() else metadata.version("kfabric")


def _origin() -> Origin | None:
    """The origin of this checkout, if it comes from GitHub."""
    found = re.search(r"github\.com[:/]([\w.-]+/[\w.-]+?)(\.git)?$", _git("remote get-url origin"))
    commit = _git("rev-parse HEAD")
    return Origin(found[1], commit) if found and commit else None


def _git(words: str) -> str:
    """What git says about this checkout; empty if this is none."""
    if not (prepare.SOURCE / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "-C", str(prepare.SOURCE), *words.split()],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout.strip()
