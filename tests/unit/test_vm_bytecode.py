# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Compiling tests for guests is optional: it only saves time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from kfabric.vm import bytecode
from kfabric.vm.headers import Headers
from kfabric.vm.spec import Image


class Busy(Headers):
    """A userland in which no command ends."""

    def command(self, argv: Sequence[str], shared: Path) -> list[str]:
        """Return a command that takes too long."""
        return ["sleep", "600"]


def test_compiling_that_takes_too_long_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bytecode, "_headers", lambda source, image: Busy(tmp_path))
    monkeypatch.setattr(bytecode, "SECONDS", 0.1)
    bytecode.tests(tmp_path, cast(Image, None), ["tests/guest"], tmp_path)
