# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A file of tests with a result of each kind, for nested runs of pytest."""

from __future__ import annotations

TOYS = """
import pytest

def test_good(): pass
def test_bad():
    print("output")
    assert 1 == 2, "one\\0two"
@pytest.mark.skip(reason="no such device")
def test_skipped(): pass
@pytest.mark.xfail(reason="not yet")
def test_expected(): assert False
@pytest.fixture
def broken(): raise OSError("no link")
def test_setup(broken): pass
@pytest.fixture
def harmed():
    yield
    raise OSError("left behind")
def test_teardown(harmed): pass
@pytest.mark.parametrize("word", ["a.b c", "d#e"])
def test_word(word): pass
"""
