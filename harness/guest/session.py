# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The plugin's part in a guest that offers the fixture ``wakeups``.

Few tests ask for it, and what it is made of takes a guest a second to import: so that
is imported late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import pytest

from harness.guest import modules

if TYPE_CHECKING:
    from harness.guest.wakeups import Block, Traced
    from harness.probes.recorder import Recorder
    from harness.recording.records import Context

KFABRIC, FIXTURE = "kfabric", "wakeups"


class Session:
    """The recorder of a test process, made when it is first asked for."""

    def __init__(self) -> None:
        """Load nothing yet."""
        self._recorder: Recorder | None = None

    def recorder(self) -> Recorder:
        """The recorder, attached. Raises ProbeError, ModuleError."""
        self.attach()
        if self._recorder is None:
            from harness.probes.loader import Probe
            from harness.probes.recorder import Recorder

            self._recorder = Recorder(Probe(stacks=True, quiet=True))
            modules.before_unload(self._unloading)
        return self._recorder

    def attach(self) -> None:
        """Have the modules loaded, and the probe, if there is one, attached."""
        if modules.state(KFABRIC) is None:
            modules.Modules.from_environment().load()
        if self._recorder is not None:
            self._recorder.resume()

    def detach(self) -> None:
        """Let go of the module."""
        if self._recorder is not None:
            self._recorder.suspend()

    def _unloading(self, name: str) -> None:
        if name == KFABRIC:
            self.detach()

    def close(self) -> None:
        """End the recorder."""
        if self._recorder is not None:
            self._recorder.__exit__()
            self._recorder = None


class WakeupsFixture:
    """The plugin's part in a guest that offers the fixture."""

    def __init__(self, session: Session) -> None:
        """Share a process's session."""
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Load and attach before fixtures count who uses the modules."""
        if FIXTURE in getattr(item, "fixturenames", ()):
            self._session.recorder()

    @pytest.fixture
    def wakeups(self, request: pytest.FixtureRequest) -> Iterable[Callable[..., Block]]:
        """Record a block's wake-ups: ``with wakeups() as rec:``, then ``rec.no_lost()``.

        Keywords: ``names`` (object → what it means to the reader), ``contexts``
        (object → contexts in which it may be published on), ``late_ms``.
        """
        from harness.guest.wakeups import Block, Options

        blocks: list[Block] = []
        item, recorder = request.node, self._session.recorder()

        def tell(title: str, text: str) -> None:
            item.user_properties.append((title, text))
            item.add_report_section("call", "wakeups", f"{title}: {text}")

        def block(
            *,
            names: Mapping[Traced, str] | None = None,
            contexts: Mapping[Traced, Iterable[Context]] | None = None,
            late_ms: float = 500,
        ) -> Block:
            options = Options(
                {thing.trace_id: name for thing, name in (names or {}).items()},
                {thing.trace_id: frozenset(some) for thing, some in (contexts or {}).items()},
                late_ms,
            )
            # The test itself may have loaded the modules anew.
            self._session.attach()
            blocks.append(Block(recorder, options, item.nodeid, tell))
            return blocks[-1]

        yield block
        for each in blocks:
            each.drop()

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        """Detach."""
        self._session.close()
