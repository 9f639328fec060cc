# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Fixtures of the browser tests: one browser for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from webdriver import Browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless browser; starting it takes seconds."""
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser, with nothing of the last test in it."""
    chromium.go("about:blank")
    chromium.emulate()
    chromium.resize(1280)
    chromium.logs("browser")
    chromium.requests()
    return chromium
