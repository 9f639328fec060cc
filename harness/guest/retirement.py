# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A guest that a test has harmed runs no other test.

Its test process ends in order behind that test, fixtures and all, but with a status
of its own: what was meant for it is for the next guest.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator

import pytest

from harness.names import RETIRED


class Retirement:
    """The plugin's part in a worker that decides whether it goes on."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.harmed = False
        """Whether a test has left the guest other than it was."""
        self._leaves_tests = False

    def harm(self) -> None:
        """Tell that the test that runs now has."""
        self.harmed = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Stop behind a test that did harm; behind the last one there is nothing to save."""
        done = yield
        if self.harmed and nextitem is not None:
            self._leaves_tests = True
            item.session.shouldstop = "this guest is not as it was"
        return done

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """End before xdist tells the host that all is done here.

        Also if a fixture of wider scope cannot be torn down, as it may be in such a guest.
        """
        try:
            return (yield)
        except BaseException:
            if self._leaves_tests:
                traceback.print_exc()
            raise
        finally:
            if self._leaves_tests:
                os._exit(RETIRED)
