# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Lifetime of kfabric_py's objects, without a kernel behind them."""

from __future__ import annotations

import errno
import gc
import warnings

import pytest

from kfabric_py.errors import Busy, ClosedError, error_for
from kfabric_py.handle import Handle


class Object(Handle):
    """An object that writes down when it was closed, unless something uses it."""

    def __init__(self, name: str, log: list[str], parent: Handle | None = None) -> None:
        super().__init__(parent)
        self.name = name
        self.log = log
        self.users: list[Object] = []

    def _close_self(self) -> None:
        if any(not user.closed for user in self.users):
            raise error_for(errno.EBUSY, "CLOSE")
        self.log.append(self.name)


@pytest.fixture
def log() -> list[str]:
    return []


def test_children_close_first_and_newest_first(log: list[str]) -> None:
    with Object("root", log) as root:
        first = Object("first", log, root)
        second = Object("second", log, root)
        grandchild = Object("grandchild", log, first)
    assert log == ["second", "grandchild", "first", "root"]
    assert first.closed and second.closed and grandchild.closed


def test_close_twice_closes_once(log: list[str]) -> None:
    root = Object("root", log)
    root.close()
    root.close()
    assert log == ["root"]


def test_closed_child_is_not_closed_again_by_its_parent(log: list[str]) -> None:
    root = Object("root", log)
    Object("child", log, root).close()
    root.close()
    assert log == ["child", "root"]


def test_sibling_that_is_in_use_closes_after_its_user(log: list[str]) -> None:
    root = Object("root", log)
    user = Object("user", log, root)
    queue = Object("queue", log, root)
    queue.users.append(user)
    root.close()
    assert log == ["user", "queue", "root"]


def test_failed_close_leaves_the_object_open(log: list[str]) -> None:
    user = Object("user", log)
    root = Object("root", log)
    root.users.append(user)
    with pytest.raises(Busy):
        root.close()
    assert not root.closed
    user.close()
    root.close()
    assert log == ["user", "root"]


def test_child_that_stays_busy_is_reported(log: list[str]) -> None:
    user = Object("user", log)
    root = Object("root", log)
    child = Object("child", log, root)
    other = Object("other", log, root)
    child.users.append(user)
    with pytest.raises(Busy):
        root.close()
    assert other.closed and not child.closed and not root.closed
    user.close()
    root.close()
    assert log == ["other", "user", "child", "root"]


def test_entering_a_closed_object_says_so(log: list[str]) -> None:
    root = Object("root", log)
    root.close()
    with pytest.raises(ClosedError, match="Object is closed") as caught, root:
        pass
    assert caught.value.errno == errno.EBADF
    assert isinstance(caught.value, ValueError)


def test_forgotten_object_warns_and_is_closed(log: list[str]) -> None:
    root = Object("root", log)
    child = Object("child", log, root)
    with pytest.warns(ResourceWarning, match="unclosed"):
        del child
        gc.collect()
        del root
        gc.collect()
    assert log == ["child", "root"]


def test_closed_object_is_collected_without_warning(log: list[str]) -> None:
    root = Object("root", log)
    root.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del root
        gc.collect()
    assert log == ["root"]


def test_child_keeps_its_parent_alive(log: list[str]) -> None:
    root = Object("root", log)
    child = Object("child", log, root)
    del root
    gc.collect()
    assert log == []
    child.close()
    with pytest.warns(ResourceWarning, match="unclosed"):
        del child
        gc.collect()
    assert log == ["child", "root"]


def test_garbage_is_closed_though_it_is_finalized_in_any_order(log: list[str]) -> None:
    """What is in use at its own end is closed by its parent, which cannot be closed before."""
    root = Object("root", log)
    domain = Object("domain", log, root)
    queue = Object("queue", log, domain)
    domain.users.append(queue)
    with pytest.warns(ResourceWarning, match="unclosed"):
        del domain, queue
        gc.collect()
    root.close()
    assert log == ["queue", "domain", "root"]
