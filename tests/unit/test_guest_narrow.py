# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A guest collects the named tests, and looks at no other file."""

from __future__ import annotations

import pytest

CONFTEST = """
from kfabric.guest.narrow import Narrow

def pytest_configure(config):
    config.pluginmanager.register(Narrow(config))

def pytest_collect_file(file_path):
    print("looks at", file_path.name)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Directories with a test in each file; a line for each file that pytest looks at."""
    pytester.makeconftest(CONFTEST)
    for name in ("a/test_one.py", "a/test_two.py", "b/test_three.py", "b/c/test_four.py"):
        file = pytester.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("def test_it(): ...\n")
    return pytester


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (["a/test_one.py::test_it"], {"test_one.py"}),
        (["a/test_one.py", "b/c"], {"test_one.py", "test_four.py"}),
        (["b/c/../test_three.py"], {"test_three.py"}),
        (["b"], {"test_three.py", "test_four.py"}),
        ([], {"conftest.py", "test_one.py", "test_two.py", "test_three.py", "test_four.py"}),
    ],
)
def test_only_named_files_are_looked_at(
    project: pytest.Pytester, words: list[str], seen: set[str]
) -> None:
    """Each of them is a request to the host."""
    result = project.runpytest("--collect-only", "-q", "-s", *words)
    assert result.ret == 0
    lines = [line.split() for line in result.outlines if line.startswith("looks at")]
    assert {words[-1] for words in lines} == seen
