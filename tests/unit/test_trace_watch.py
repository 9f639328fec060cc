# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Blocks of tests under the tracer: what they judge, and what they leave open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lock_scenes import ANN, BOB, LOCK_A, LockScene
from queue_scenes import NAMES, QUEUE, TIMEOUT, US, WAITER_2, Scene

from kfabric.guest import modules
from kfabric.guest.session import WakeupsFixture
from kfabric.guest.wakeups import Block
from kfabric.recording.records import WaitRecord, WakeRecord, pack
from kfabric.trace import watchfile
from kfabric.trace.blocks import ModuleBlock, Watch, Watches, Witness, judgeable
from kfabric.trace.server import LOOK, EarlyWakes
from kfabric.verdict.kinds import Kind, Verdict

WHAT = watchfile.watched(module="mod", event="mod_publish", take="mod_take")
BEGIN, STOP = 10_000, 9_000_000
SECOND = 1_000_000


class FakeTracer:
    """A tracer that has recorded a scene; times are microseconds."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.scene = Scene()
        self.seen: dict[str, Any] = {
            "t_stop": STOP * US,
            "losses": {"ring": 0, "waits": 0, "queues": 0, "unpaired": 0},
            "queues": {str(QUEUE): "the_queue [mod]"},
            "marked": 1,
            "missing": [],
            "loaded": ["mod"],
        }
        self.asked: list[str] = []
        self.closed = False

    def ask(self, name: str, *arguments: Any) -> Any:
        """The answer to a question."""
        self.asked.append(name)
        if name == "begin":
            return {"cut": 1, "t": BEGIN * US}
        if name == "look":
            (self.directory / LOOK).write_bytes(b"".join(map(pack, self.scene.records)))
            return self.seen
        if name == "threads":
            return {"threads": {str(tid): NAMES[tid] for tid in arguments[0] if tid in NAMES}}
        if name != "frames":
            return {}
        return {"frames": {str(number): ["mod_publish+0x5 [mod]"] for number in arguments[0]}}

    def close(self, wait: bool = False) -> None:
        """End it."""
        self.closed = True


@pytest.fixture
def tracer(tmp_path: Path) -> FakeTracer:
    """A tracer that recorded nothing."""
    return FakeTracer(tmp_path)


@pytest.fixture
def watch(tracer: FakeTracer) -> Iterator[Watch]:
    """Its watch."""
    watch = Watch(WHAT, lambda words: tracer)  # type: ignore[arg-type,return-value]
    yield watch
    watch.close()


@pytest.fixture
def block(watch: Watch) -> Callable[[], Block]:
    """A block that has recorded what the tracer has."""

    def recorded() -> Block:
        with ModuleBlock(watch, 500, "test_a", lambda title, text: None) as rec:
            pass
        return rec

    return recorded


def lost(scene: Scene, at: int) -> None:
    """The waiter sleeps, an item comes, nothing wakes it before its timeout."""
    scene.publish(at + 100)
    scene.wait(at, slept=at + 10, timeout=at + TIMEOUT)
    scene.take(at + TIMEOUT + 2)


def fine(scene: Scene, at: int, begin: int = 0) -> None:
    """The waiter sleeps, an item comes and wakes it."""
    scene.publish(at + 100)
    scene.call(at + 110)
    scene.wait(begin or at, slept=(begin or at) + 10, wakes=(at + 110,), end=at + 120)
    scene.take(at + 115)


def kinds(verdict: Verdict) -> list[Kind]:
    """The kinds of the findings."""
    return [finding.kind for finding in verdict.findings]


def test_block_ends_its_recording_even_if_it_cannot_be_judged(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """Otherwise the tracer would keep its records to the end of the process."""
    del tracer.seen["losses"]
    with pytest.raises(KeyError):
        block()
    assert tracer.asked[-1] == "end"


def test_lost_wake_up_of_a_block_is_named(tracer: FakeTracer, block: Callable[[], Block]) -> None:
    """Queue and threads have their names."""
    lost(tracer.scene, 20_000)
    rec = block()
    with pytest.raises(AssertionError, match=r"LOST: wait 1 of thread waiter/11 on the_queue"):
        rec.no_lost()


def test_healthy_block_is_verified(tracer: FakeTracer, block: Callable[[], Block]) -> None:
    fine(tracer.scene, 20_000)
    rec = block()
    rec.verified()
    assert rec.verdict.matched == 1


def test_sleeper_from_before_the_block_is_judged(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """Its begin was recorded, and also its wakes of that time."""
    fine(tracer.scene, 20_000, begin=5_000)
    lost(tracer.scene, 8_000)
    tracer.scene.records.pop()  # it takes nothing yet
    tracer.scene.publish(30_000)
    rec = block()
    assert kinds(rec.verdict) == [Kind.LOST]
    assert rec.verdict.matched == 2


def test_items_from_before_the_block_are_not_counted(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """Whether they were there is not known, so no sleep is called lost for them."""
    tracer.scene.publish(2_000)
    fine(tracer.scene, 20_000)
    tracer.scene.wait(30_000, slept=30_010, timeout=30_000 + TIMEOUT)
    block().verified()


def test_wake_up_at_the_begin_is_not_called_spurious(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """Its publication may be from before the block; later ones must have been recorded."""
    for begin, found in ((BEGIN - 500, []), (BEGIN + 50_000, [Kind.SPURIOUS])):
        tracer.scene = Scene()
        fine(tracer.scene, 500_000)
        tracer.scene.call(begin + 600)
        tracer.scene.wait(
            begin, WAITER_2, slept=begin + 700, wakes=(begin + 600,), timeout=begin + TIMEOUT
        )
        records = tracer.scene.records
        # The first sleep began before the wake, the last one after it.
        (wake,) = [r for r in records if isinstance(r, WaitRecord) and r.tid == WAITER_2]
        assert wake.t_slept > wake.t_wake
        assert kinds(block().verdict) == found


def test_recording_with_losses_is_not_verified(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    fine(tracer.scene, 20_000)
    tracer.seen["losses"]["ring"] = 3
    with pytest.raises(AssertionError, match="NOT VERIFIED: the probe lost events: 3 in the ring"):
        block().verified()


def test_function_that_is_not_there_is_named(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """The module is; so the name is wrong, or the function is inlined."""
    fine(tracer.scene, 20_000)
    tracer.seen |= {"missing": ["mod_take"], "marked": 0}
    with pytest.raises(AssertionError, match="NOT VERIFIED: no function mod_take is loaded"):
        block().no_lost()


def test_waits_without_a_marked_call_are_not_verified(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """Nothing says what they waited for."""
    tracer.scene.wait(20_000, slept=20_010, timeout=20_000 + TIMEOUT)
    with pytest.raises(AssertionError, match="none of mod_publish, mod_take was called"):
        block().verified()


def test_what_came_before_the_marks_is_not_judged(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """The module was loaded in the block; its functions were marked a little later."""
    tracer.scene.call(20_000)
    tracer.scene.wait(15_000, slept=15_010, wakes=(20_000,), end=20_010)
    fine(tracer.scene, SECOND)
    tracer.seen["marked"] = 500_000 * US
    rec = block()
    rec.verified()
    assert rec.verdict.matched == 1


def test_publications_before_the_last_load_are_a_doubt(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """The module went with what had been published, so the two times cannot be judged as one.

    The doubt has the function's name and a remedy.
    """
    lost(tracer.scene, 20_000)
    fine(tracer.scene, SECOND)
    tracer.seen["marked"] = 500_000 * US
    said = "^NOT VERIFIED: mod_publish was called before the module was loaded for the last time"
    with pytest.raises(AssertionError, match=f"{said}.*: load the module again before the first"):
        block().verified()


def test_takes_of_a_module_that_goes_are_no_doubt(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """Its thread looks once more when it is stopped, and its exit function empties the queue."""
    tracer.scene.take(20_000)
    tracer.scene.take(20_010)
    fine(tracer.scene, SECOND)
    tracer.seen["marked"] = 500_000 * US
    rec = block()
    rec.verified()
    assert rec.verdict.matched == 1


def test_sleepers_that_nobody_saw_come_are_a_doubt(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """They slept before the tracer was there, and this call woke none of them."""
    tracer.scene.publish(20_000)
    tracer.scene.call(20_010, sleepers=1)
    with pytest.raises(AssertionError, match=r"found 1 asleep, which slept before the tracer"):
        block().verified()


def test_block_without_its_module_is_not_verified(
    tracer: FakeTracer, block: Callable[[], Block]
) -> None:
    """Its name may be wrong."""
    tracer.seen |= {"missing": ["mod", "mod_publish", "mod_take"], "marked": 0, "loaded": []}
    with pytest.raises(AssertionError, match="mod was not loaded in this block"):
        block().verified()


def test_module_of_the_file_that_does_not_exist_is_named(watch: Watch) -> None:
    """Neither is it loaded, nor one of the tested modules."""
    witness = witness_of(watch)
    witness.begin()
    case = witness.judge()
    assert case is not None
    assert case.verdict.doubts == ("wakeups.toml: mod is neither loaded nor a tested module",)


@pytest.fixture
def tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is one of the tested ones."""
    monkeypatch.setattr(modules, "watched", lambda: ("mod",))


def witness_of(watch: Watch) -> Witness:
    """A witness with a watch that runs already."""
    watches = Watches()
    watches._open[WHAT] = watch
    return Witness(watches, WHAT)


@pytest.mark.parametrize("kept", [False, True])
def test_tracers_of_blocks_end_before_that_of_the_run(tracer: FakeTracer, kept: bool) -> None:
    """A block may use that of wakeups.toml, which judges the tests of later files, too."""
    watches = Watches()
    watches._open[WHAT] = Watch(WHAT, lambda words: tracer)  # type: ignore[arg-type,return-value]
    if kept:
        Witness(watches, WHAT).load()
    watches.end_blocks()
    assert tracer.closed is not kept
    watches.close()
    assert tracer.closed


def test_tracers_of_a_files_blocks_end_with_its_last_test() -> None:
    """The tests of other files have their memory."""
    ends: list[str] = []
    traced: Any = SimpleNamespace(
        block=lambda *_, **__: None, end_blocks=lambda: ends.append("end")
    )
    session: Any = SimpleNamespace()
    fixture = WakeupsFixture(session, lambda: traced)
    items: Any = [SimpleNamespace(path=path) for path in ("test_a.py", "test_a.py", "test_b.py")]
    first, second, other = items
    fixture.pytest_runtest_teardown(first, other)
    assert not ends, "it has no tracer"
    names = {"module": "mod", "event": "mod_publish", "take": "mod_take"}
    fixture._of_module("test", lambda title, text: None, 500, names)
    fixture.pytest_runtest_teardown(first, second)
    assert not ends, "the next test may use it"
    fixture.pytest_runtest_teardown(second, other)
    fixture.pytest_runtest_teardown(other, first)
    assert ends == ["end"]


@pytest.mark.usefixtures("tested")
def test_module_that_is_loaded_again_after_a_look_raises_no_doubt(
    tracer: FakeTracer, watch: Watch
) -> None:
    """The fixture ``module`` does so in each teardown, and the test's call has been judged."""
    fine(tracer.scene, 20_000)
    witness = witness_of(watch)
    witness.begin()
    doubts = []
    for marked in (1, STOP * US + 1):
        tracer.seen["marked"] = marked
        case = witness.judge()
        assert case is not None
        doubts.append(case.verdict.doubts)
    assert doubts == [(), ()]


@pytest.mark.usefixtures("tested")
def test_fault_of_a_wait_is_reported_once(tracer: FakeTracer, watch: Watch) -> None:
    """Also by the next test, in whose time the thread still sleeps."""
    tracer.scene.publish(20_000)
    tracer.scene.wait(12_000, slept=12_010)
    witness = witness_of(watch)
    found = []
    for _ in range(2):
        witness.begin()
        case = witness.judge()
        assert case is not None
        found.append(kinds(case.verdict))
        witness.drop()
    assert found == [[Kind.LOST], []]
    assert witness.judge() is None


@pytest.mark.usefixtures("tested")
def test_waits_of_a_test_that_calls_no_marked_function_are_not_counted(
    tracer: FakeTracer, watch: Watch
) -> None:
    """They are no faults either: many a test does not use the module."""
    tracer.scene.wait(20_000, slept=20_010, timeout=20_000 + TIMEOUT)
    witness = witness_of(watch)
    witness.begin()
    case = witness.judge()
    assert case is not None
    assert case.verdict.findings == () == case.verdict.doubts
    assert case.verdict.matched == 0


def test_tracer_looks_at_once_for_a_module_that_was_loaded(
    tracer: FakeTracer, watch: Watch
) -> None:
    """Of other modules it hears nothing."""
    for name in ("other", "mod"):
        for watcher in modules._insert_watchers:
            watcher(name)
    assert tracer.asked == ["seen"]


def test_early_wakes_are_kept_until_their_wait_ends() -> None:
    """A cut that begins in between needs them."""
    scene = Scene()
    for t in (100, 200):
        scene.call(t)
    scene.wait(50, slept=300, wakes=(100, 200), end=310)
    early, ended = (
        next(r for r in scene.records if isinstance(r, kind)) for kind in (WakeRecord, WaitRecord)
    )
    kept = EarlyWakes()
    kept.note(pack(early))
    assert kept.packed() == pack(early)
    kept.note(pack(ended))
    assert kept.packed() == b""


def test_holders_of_locks_are_kept_until_the_wait_ends() -> None:
    """A cut that begins in between names them, too."""
    scene = LockScene()
    scene.wait(10, ANN, LOCK_A, end=20)
    scene.ender(10, ANN, LOCK_A, BOB)
    ended, holder = scene.records
    kept = EarlyWakes()
    kept.note(pack(holder))
    assert kept.packed() == pack(holder)
    assert judgeable([holder, ended], since=0) == [ended, holder]
    kept.note(pack(ended))
    assert kept.packed() == b""
    assert judgeable([holder], since=0) == []


def test_file_is_read(tmp_path: Path) -> None:
    """A name or a list of names; a module's name as the kernel writes it."""
    assert watchfile.read(tmp_path) is None
    (tmp_path / watchfile.NAME).write_text(
        'module = "my-ulp"\nevent = "put"\ntake = ["get", "flush"]\nlate_ms = 20\n'
    )
    what = watchfile.read(tmp_path)
    assert what is not None and what.late_ms == 20
    scope = what.scope
    assert (scope.modules, scope.publish, scope.take) == (("my_ulp",), ("put",), ("get", "flush"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('module = "m"\nevent = "e"\n', "take is missing: a verdict needs module, event and take"),
        ('module = "m"\nevents = "e"\n', "unknown: events"),
        ("module = 3\n", "module must be a name or a list of names"),
        ('module = "m"\nevent = "e"\ntake = "t"\nlate_ms = "1"\n', "late_ms must be a number"),
        ('module = "', "Illegal character|Unterminated|Expected"),
        ('module = ["a","b","c","d","e"]\nevent = "e"\ntake = "t"\n', "at most 4 modules"),
    ],
)
def test_wrong_file_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / watchfile.NAME).write_text(text)
    with pytest.raises(watchfile.WatchFileError, match=f"wakeups.toml: .*({reason})"):
        watchfile.read(tmp_path)
