# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Where the checkout of this package is, and how processes import from a checkout."""

import os
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent
"""The package kfabric: harness/ in a checkout."""
ROOT: Final = PACKAGE.parent
"""The checkout; on a host with an installed tool it is kfabric.vm.source.SOURCE instead."""
INSTALLED: Final = not (ROOT / "pyproject.toml").exists()
"""Whether this is no checkout, but an installed package (harness/vm/source.py)."""


def python_path(source: Path) -> str:
    """The PYTHONPATH with which a process finds the packages of a checkout.

    The folder harness/ has the package kfabric. ``make setup`` links that name to it, so that
    host and guests find it as they would find the installed package.
    """
    return os.pathsep.join([str(source), str(source / "build/python")])


def read_only(source: Path) -> dict[str, str]:
    """The environment of a Python process that writes no bytecode into the checkout."""
    return {
        **os.environ,
        "PYTHONPATH": python_path(source),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
