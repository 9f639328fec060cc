# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Ends a guest's test process after a test that has harmed the guest.

The process ends in order after that test, with the teardown of all fixtures, but with a
status of its own. The remaining tests run in another guest.
"""

import os
import traceback
from collections.abc import Generator

import pytest

from kfabric.names import RETIRED


class Retirement:
    """The plugin's part in a worker that decides whether it continues."""

    def __init__(self) -> None:
        self.harmed = False
        """Whether a test has changed the guest."""
        self._leaves_tests = False

    def harm(self) -> None:
        """Note that the present test has changed the guest."""
        self.harmed = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Stop after a test that did harm, unless it is the last one."""
        done = yield
        if self.harmed and nextitem is not None:
            self._leaves_tests = True
            item.session.shouldstop = "this guest is not as it was"
        return done

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """End before xdist reports to the host that all tests are done.

        In such a guest the teardown of fixtures of wider scope may fail, too.
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
