# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What processes that we start print goes into a file, and what we print does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kfabric.terminal import streams


def test_only_the_output_of_children_goes_into_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both of their streams, and only meanwhile; ours stay, also after an exception."""
    file = tmp_path / "log"
    both = ["sh", "-c", "echo out; echo err >&2"]
    with pytest.raises(KeyError), streams.of_children_into(file):
        subprocess.run(both, check=True)
        print("ours")
        print("our error", file=sys.stderr)
        # At once: a step that takes minutes says so while it takes them.
        assert capfd.readouterr() == ("ours\n", "our error\n")
        raise KeyError
    subprocess.run(both, check=True)
    assert file.read_text() == "out\nerr\n"
    assert capfd.readouterr() == ("out\n", "err\n")
