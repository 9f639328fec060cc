# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Commands of this checkout, as a user runs them, and the results that they leave."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from kfabric.root import ROOT, python_path

Done = subprocess.CompletedProcess[str]


def python(
    *words: str, seconds: float, cwd: Path = ROOT, env: Mapping[str, str] = MappingProxyType({})
) -> Done:
    """Run a module of Python to its end, without input; its output is shown, too."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": python_path(ROOT), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    print(done.stdout, done.stderr)
    return done


def kfabric(*words: str, seconds: float, cwd: Path = ROOT) -> Done:
    """Run a subcommand in the same way."""
    return python("kfabric.cli", *words, seconds=seconds, cwd=cwd)


def complaints(report: Path) -> dict[str, str]:
    """The texts of failures and errors by test, from a JUnit file."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        wrong = [one for one in case if one.tag in ("failure", "error")]
        texts = [f"{one.get('message')}\n{one.text}" for one in wrong]
        name = str(case.get("name"))
        found[name] = found.get(name, "") + "\n".join(texts)
    return found
