# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Collects only what the arguments name.

On the way to a named file, pytest looks at every other file of its directories. In a guest, each
look is a request to the host.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


class Narrow:
    """A pytest plugin."""

    def __init__(self, config: pytest.Config) -> None:
        files = [config.invocation_params.dir / word.partition("::")[0] for word in config.args]
        self._named = {Path(os.path.abspath(file)) for file in files}
        self._above = {parent for path in self._named for parent in path.parents}

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out what is not named, nor below or above what is."""
        named = {collection_path, *collection_path.parents} & self._named
        return None if named or collection_path in self._above else True
