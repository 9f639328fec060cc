# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The plugin's part in a guest that provides the fixture ``wakeups``.

Few tests use it, and its modules take a guest a second to import, so they are imported
late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from kfabric.guest import modules

if TYPE_CHECKING:
    from kfabric.guest.wakeups import Block, Traced
    from kfabric.probes.recorder import Recorder
    from kfabric.recording.records import Context

KFABRIC, FIXTURE = "kfabric", "wakeups"


class Session:
    """The recorder of a test process, made at its first use."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        modules.discount(self._references)

    def _references(self, name: str) -> int:
        """How many references the probe holds to a module: one for each tracepoint."""
        if name != KFABRIC or self._recorder is None:
            return 0
        return self._recorder.probe.references

    def recorder(self) -> Recorder:
        """The recorder, attached. Raises ProbeError, ModuleError."""
        self.attach()
        if self._recorder is None:
            from kfabric.probes.loader import Probe
            from kfabric.probes.recorder import Recorder

            self._recorder = Recorder(Probe(stacks=True, quiet=True))
            modules.before_unload(lambda name: self.detach() if name == KFABRIC else None)
        return self._recorder

    def attach(self) -> None:
        """Load the modules if need be, and attach the probe if there is one."""
        if modules.state(KFABRIC) is None:
            modules.Modules.from_environment().load()
        if self._recorder is not None:
            self._recorder.resume()

    def detach(self) -> None:
        """Detach the probe, which holds a reference to the module."""
        if self._recorder is not None:
            self._recorder.suspend()

    def close(self) -> None:
        """End the recorder."""
        if self._recorder is not None:
            self._recorder.__exit__()
            self._recorder = None


class Modules(Protocol):
    """Blocks on the queues of any module: kfabric.trace.blocks.Watches."""

    def block(
        self, test: str, report: Callable[[str, str], None], late_ms: float, **names: Any
    ) -> Block:
        """A block. Raises ValueError for names that do not suffice."""

    def end_blocks(self) -> None:
        """End the tracers that only blocks use, and wait for their ends."""

    def close(self) -> None:
        """End the tracers."""


class WakeupsFixture:
    """The plugin's part in a guest that provides the fixture.

    Args:
        session: Has the probe on kfabric.
        modules: Makes what blocks with ``module=`` need; called at the first of them.
    """

    def __init__(self, session: Session, modules: Callable[[], Modules]) -> None:
        self._session = session
        self._modules = modules
        self._traced = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Load and attach before other fixtures count the users of the modules."""
        if FIXTURE in getattr(item, "fixturenames", ()) and modules.have_ours():
            self._session.recorder()

    @pytest.fixture
    def wakeups(self, request: pytest.FixtureRequest) -> Iterable[Callable[..., Block]]:
        """Record a block's wake-ups: ``with wakeups() as rec:``, then ``rec.no_lost()``.

        A block on the queues of other modules needs none of ours: a kernel may not have them.

        Keywords: ``names`` (object → its name in failures), ``contexts`` (object →
        contexts in which threads may publish on it), ``late_ms`` (milliseconds).

        With ``module``, ``event`` and ``take`` (names, or lists of names) the block is about
        the queues of these modules, whose functions publish and take.
        """
        from kfabric.guest.wakeups import Block
        from kfabric.verdict.kinds import Rules

        blocks: list[Block] = []
        item = request.node

        def report(title: str, text: str) -> None:
            item.user_properties.append((title, text))
            item.add_report_section("call", "wakeups", f"{title}: {text}")

        def block(
            *,
            names: Mapping[Traced, str] | None = None,
            contexts: Mapping[Traced, Iterable[Context]] | None = None,
            late_ms: float = 500,
            **names_of_module: str | list[str],
        ) -> Block:
            if names_of_module:
                blocks.append(self._of_module(item.nodeid, report, late_ms, names_of_module))
                return blocks[-1]
            given = (contexts or {}).items()
            rules = Rules(
                names={thing.trace_id: name for thing, name in (names or {}).items()},
                contexts={thing.trace_id: frozenset(some) for thing, some in given},
                late_ns=int(late_ms * 1e6),
            )
            # Attaches again: the test itself may have reloaded the modules.
            recorder = self._session.recorder()
            blocks.append(Block(recorder, rules, item.nodeid, report))
            return blocks[-1]

        yield block
        for each in blocks:
            each.drop()

    def _of_module(
        self,
        test: str,
        report: Callable[[str, str], None],
        late_ms: float,
        names: Mapping[str, str | list[str]],
    ) -> Block:
        """A block on the queues of modules."""
        if wrong := set(names) ^ {"module", "event", "take"}:
            raise TypeError(f"wakeups() needs module, event and take together: {sorted(wrong)}")
        self._traced = True
        return self._modules().block(test, report, late_ms, **names)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """End the tracers with the tests of a file: each needs some 600 MiB."""
        if self._traced and nextitem is not None and nextitem.path != item.path:
            self._traced = False
            self._modules().end_blocks()

    def pytest_unconfigure(self) -> None:
        """Detach."""
        self._session.close()
