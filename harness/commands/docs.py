# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Build the documents and the API reference as a site with a search, in build/docs.

A warning fails the build, and a link that leads nowhere is one.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kfabric.commands import check
from kfabric.errors import ExitStatus, SetupError
from kfabric.terminal.arguments import Parser
from kfabric.vm import prepare, tools

TARGET = prepare.SOURCE / "build/docs"
BUILD_SECONDS = 900.0


def main(argv: Sequence[str]) -> int:
    """Build the site from nothing: Sphinx repeats no warning about a page that it keeps."""
    Parser(prog="kfabric docs", description=__doc__).parse_args(argv)
    tools.install(prepare.SOURCE, "docs", "the site cannot be built")
    prepare.say("site of the documents")
    shutil.rmtree(TARGET, ignore_errors=True)
    done = build(prepare.SOURCE, TARGET)
    print(done.stdout, end="")
    if done.returncode:
        print("docs: failed")
        return ExitStatus.TEST_FAILED
    print(f"docs: {TARGET / 'index.html'}")
    return ExitStatus.OK


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a checkout; the output has all warnings."""
    script = check.kernel_scripts() / "kernel-doc"
    argv = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", "-c", f"{source}/docs/site"]
    argv += ["-D", f"kernel_doc={script}", str(source), str(target)]
    try:
        return tools.captured(argv, BUILD_SECONDS, source)
    except subprocess.TimeoutExpired:
        raise SetupError(f"the site is not built after {BUILD_SECONDS:g} s") from None
