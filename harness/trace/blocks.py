# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Blocks of a test under the tracer: ``wakeups(module=..., event=..., take=...)``.

A :class:`Watch` is a running tracer (:mod:`kfabric.trace.server`); its cuts are recordings
of blocks. Waits that were open when a block began are known from their begin. What was
published and not taken before the block is left out: an item too few hides a fault, and an
item too many would make one up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

from kfabric.errors import counted
from kfabric.guest import modules
from kfabric.guest.evidence import Case, add_stacks
from kfabric.guest.verify import clock_stopped
from kfabric.guest.wakeups import Block, Reporter
from kfabric.probes.loader import ProbeError
from kfabric.probes.recorder import Cut, Recorder
from kfabric.recording.records import (
    EnderRecord,
    Losses,
    Mark,
    MarkRecord,
    Record,
    Recording,
    SignalRecord,
    StackRecord,
    WaitRecord,
    WakeRecord,
    count,
    split,
    unpack,
)
from kfabric.root import ROOT, read_only
from kfabric.trace.server import LOOK
from kfabric.trace.watchfile import Watched, watched
from kfabric.verdict.kinds import Finding, Kind, Rules, Verdict
from kfabric.verdict.ledger import Ledger, build
from kfabric.verdict.queues import QueueRules, judge

END_SECONDS = 60.0
"""For a tracer to remove its probes, on a slow kernel."""
RELOADED = (
    "{} was called before the module was loaded for the last time, and only what came after "
    "that can be judged: load the module again before the first such call"
)
_Key = tuple[int, int, int]
_OfWait = WakeRecord | StackRecord | EnderRecord


def judgeable(records: Iterable[Record], since: int) -> list[Record]:
    """The records about the time after ``since``, with all wakes of the waits of that time."""
    records = list(records)
    ended = {_key(r) for r in records if isinstance(r, WaitRecord) and r.t_end}
    kept: set[_Key] = set()
    chosen: list[Record] = []
    for record in records:
        match record:
            case WaitRecord() if record.t_end > since or not record.t_end:
                # A wait may have ended after it was read as an open one.
                if record.t_end or _key(record) not in ended:
                    chosen.append(record)
                    kept.add(_key(record))
            case SignalRecord() | MarkRecord() if record.t > since:
                chosen.append(record)
    chosen += [r for r in records if isinstance(r, _OfWait) and _key(r) in kept]
    return chosen


def _key(record: WaitRecord | _OfWait) -> _Key:
    return record.queue, record.tid, record.t_begin


class Answers(Protocol):
    """A tracer that answers questions, one at a time."""

    def ask(self, *question: object) -> Any:
        """The answer. Raises ProbeError."""

    @property
    def directory(self) -> Path:
        """Where the tracer leaves records."""

    def close(self, wait: bool = False) -> None:
        """End it, and wait for its end if told so."""


class Process:
    """The tracer as a process. Raises ProbeError if it does not load."""

    def __init__(self, words: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._place = tempfile.TemporaryDirectory(prefix="kfabric-watch-")
        self._errors = (self.directory / "errors").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kfabric.trace.server", f"--output={self.directory}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=read_only(ROOT),
        )
        self._answer()  # it is loaded

    @property
    def directory(self) -> Path:
        """Where the tracer leaves records."""
        return Path(self._place.name)

    def ask(self, *question: object) -> Any:
        """The answer to a question. Raises ProbeError."""
        assert self._process.stdin is not None
        with self._lock:
            try:
                print(json.dumps(question), file=self._process.stdin, flush=True)
            except OSError as error:
                raise self._ended() from error
            return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        answer = json.loads(line)
        if "error" in answer:
            raise ProbeError(answer["error"])
        return answer

    def _ended(self) -> ProbeError:
        self._process.wait()
        lines = (self.directory / "errors").read_text(errors="replace").splitlines()
        return ProbeError(f"the tracer has ended: {lines[-1] if lines else 'it says nothing'}")

    def close(self, wait: bool = False) -> None:
        """End it: at the end of its input it removes its probes, which takes seconds.

        The end of the test process does not wait for that, since it would be interrupted.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        if wait:
            with suppress(subprocess.TimeoutExpired), clock_stopped():
                self._process.wait(END_SECONDS)
        self._process.stdout.close()
        self._errors.close()
        self._place.cleanup()


class Watch:
    """A running tracer of some modules' queues. Raises ProbeError if it does not load."""

    def __init__(self, what: Watched, start: Callable[[Sequence[str]], Answers] = Process) -> None:
        self.what = what
        self._answers = start(what.scope.argv())
        modules.after_insert(self._inserted)

    def _inserted(self, name: str) -> None:
        """Mark the functions of a module at once, and not at the tracer's next look."""
        if name in self.what.scope.modules:
            self._answers.ask("seen")

    def cut(self) -> WatchCut:
        """Begin a cut."""
        begin = self._answers.ask("begin")
        return WatchCut(self, int(begin["cut"]), int(begin["t"]))

    def ask(self, *question: object) -> Any:
        """Ask the tracer. Raises ProbeError."""
        return self._answers.ask(*question)

    def packed(self) -> bytes:
        """The records of the last look."""
        return (self._answers.directory / LOOK).read_bytes()

    def frames(self, numbers: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The frames of stacks, innermost first."""
        found = self.ask("frames", sorted(numbers))["frames"]
        return {int(number): tuple(frames) for number, frames in found.items()}

    def rules(self, late_ms: float) -> QueueRules:
        """The rules of the verdict on a cut."""
        return QueueRules(marked=True, late_ns=int(late_ms * 1e6))

    def close(self, wait: bool = False) -> None:
        """Remove the probes."""
        modules.no_more(self._inserted)
        self._answers.close(wait)


class WatchCut:
    """The recording of a watch since ``t_begin``, in nanoseconds."""

    # A module that goes is part of the recording.
    blind = False

    def __init__(self, watch: Watch, number: int, t_begin: int) -> None:
        self._watch = watch
        self._number = number
        self._over = False
        self._looked = self.t_begin = self.since = t_begin
        """``since``: the verdict is about what happened after it."""
        self.doubts: tuple[str, ...] = ()
        self.absent = False
        """Was none of the modules there, in the whole cut?"""

    def look(self) -> Recording:
        """The recording so far; the cut continues."""
        seen = self._watch.ask("look", self._number)
        self.since = max(self.t_begin, seen["marked"] or seen["t_stop"])
        self.absent = not seen["loaded"] and not seen["marked"]
        found = list(unpack(split(self._watch.packed())))
        records = judgeable(found, self.since)
        self.doubts = tuple(_doubts(self._watch.what, seen))
        self.doubts += tuple(self._unjudged(found))
        self._looked = seen["t_stop"]
        return Recording(
            records=tuple(records),
            tallies=count(records),
            threads=self._threads(records),
            queues={int(number): name for number, name in seen["queues"].items()},
            losses=Losses(**seen["losses"]),
            t_stop=seen["t_stop"],
            take_marked=bool(self._watch.what.scope.take),
        )

    def _unjudged(self, found: Iterable[Record]) -> Iterator[str]:
        """A doubt if a wake-up may have been lost before the module's last load.

        That takes a publication in this cut. A call that takes is no reason to doubt: a module
        that goes may empty its queue. What came before the last look has been judged by then.
        """
        calls = [r for r in found if isinstance(r, MarkRecord) and r.what == Mark.PUBLISH]
        stacks = {r.stack for r in calls if self._looked < r.t <= self.since}
        if stacks:
            frames = self._watch.frames(stacks)
            names = {"".join(frames.get(stack, ())[:1]).partition("+")[0] for stack in stacks}
            yield RELOADED.format(", ".join(sorted(names - {""})) or "a marked function")

    def _threads(self, records: Iterable[Record]) -> dict[int, str]:
        tids: set[int] = set()
        for record in records:
            for name in ("tid", "waker", "foreign_tid", "ender"):
                tids.add(getattr(record, name, 0))
        found = self._watch.ask("threads", sorted(tids - {0}))["threads"]
        return {int(tid): name for tid, name in found.items()}

    def drop(self) -> None:
        """End the cut. May be called again."""
        if not self._over:
            self._over = True
            self._watch.ask("end", self._number)


def _doubts(what: Watched, seen: Mapping[str, Any]) -> Iterable[str]:
    """Why a cut cannot be judged although nothing was lost."""
    scope = what.scope
    if not seen["loaded"]:
        return
    functions = {*scope.publish, *scope.take}
    for name in seen["missing"]:
        if name in functions:
            yield f"no function {name} is loaded, so nothing says what the waits waited for"


@dataclass(frozen=True)
class Facts:
    """What happened in a cut: waits, and calls of the marked functions."""

    waits: int
    marks: int

    @classmethod
    def of(cls, ledger: Ledger) -> Facts:
        """Count a ledger."""
        return cls(sum(len(queue.waits) for queue in ledger.queues.values()), len(ledger.marks))


def examine(watch: Watch, cut: WatchCut, recording: Recording, rules: QueueRules) -> Case:
    """Judge the recording of a cut; with findings, add stacks."""
    ledger = build(recording)
    verdict = _without_edge(judge(ledger, rules), ledger, cut.since + rules.grace_ns)
    # Evidence needs of the rules only the names, which both kinds have.
    case = Case(recording, ledger, cast(Rules, rules), verdict)
    for doubt in (*cut.doubts, *_unknown_sleepers(ledger)):
        case = case.doubted(doubt)
    return add_stacks(case, watch.frames) if verdict.findings else case


def _without_edge(verdict: Verdict, ledger: Ledger, after: int) -> Verdict:
    """Leave out wake-ups for nothing at the begin: their publication may be from before it."""

    def certain(finding: Finding) -> bool:
        if finding.kind not in (Kind.SPURIOUS, Kind.HERD):
            return True
        call = ledger.queues[finding.queue].signals.get(finding.seq)
        return call is None or call.record.t > after

    return replace(verdict, findings=tuple(filter(certain, verdict.findings)))


def _unknown_sleepers(ledger: Ledger) -> Iterable[str]:
    """A doubt for each queue with sleepers of whom the tracer knows none."""
    for queue in ledger.queues.values():
        found = [s for s in queue.every_signal() if s.record.sleepers and not s.wakes]
        if found and not queue.waits:
            yield (
                f"a wake call on {ledger.object_name(queue.id)} found {found[0].record.sleepers} "
                "asleep, which slept before the tracer was attached (or poll by epoll), and "
                "woke none of them"
            )


class ModuleBlock(Block):
    """The recording of one block on the queues of modules, with the assertions of a block.

    ``assert_each_wait_ended_by`` is for objects of kfabric, and ``woken_once`` for calls
    that wait once; both are of little use here.
    """

    def __init__(self, watch: Watch, late_ms: float, test: str, report: Reporter) -> None:
        # Both recorders have the same part that a block uses.
        super().__init__(cast(Recorder, watch), Rules(), test, report)
        self._watch = watch
        self._late_ms = late_ms

    def _examine(self, cut: Cut) -> Case:
        mine = cast(WatchCut, cut)
        case = examine(self._watch, mine, mine.look(), self._watch.rules(self._late_ms))
        if mine.absent:
            modules = ", ".join(self._watch.what.scope.modules)
            return case.doubted(f"{modules} was not loaded in this block: nothing was judged")
        facts = Facts.of(case.ledger)
        if facts.waits and not facts.marks and not case.verdict.doubts:
            scope = self._watch.what.scope
            names = ", ".join((*scope.publish, *scope.take))
            waits = counted(facts.waits, "wait")
            what = f"none of {names} was called: nothing says what {waits} waited for"
            return case.doubted(what)
        return case


class Watches:
    """The watches of a test process: one for each set of names, made at its first use."""

    def __init__(self) -> None:
        self._open: dict[Watched, Watch] = {}
        self._kept: set[Watched] = set()

    def keep(self, what: Watched) -> None:
        """Load a watch that lasts to the end of the process. Raises ProbeError."""
        self._kept.add(what)
        self.of(what)

    def of(self, what: Watched) -> Watch:
        """The running watch of these names. Raises ProbeError."""
        if what not in self._open:
            # Loading takes longer than many a test may.
            with clock_stopped():
                self._open[what] = Watch(what)
        return self._open[what]

    def block(self, test: str, report: Reporter, late_ms: float, **names: Any) -> Block:
        """A block on the queues of modules; see :func:`kfabric.trace.watchfile.watched`."""
        return ModuleBlock(self.of(watched(**names)), late_ms, test, report)

    def end_blocks(self) -> None:
        """End those of blocks; the next block loads its own again."""
        for what in self._open.keys() - self._kept:
            self._open.pop(what).close(wait=True)

    def close(self) -> None:
        """End them."""
        while self._open:
            _, watch = self._open.popitem()
            watch.close()


class Witness:
    """Judges every test's wake-ups on the queues that ``wakeups.toml`` names."""

    def __init__(self, watches: Watches, what: Watched) -> None:
        self._watches = watches
        self._what = what
        self._cut: WatchCut | None = None
        self._reported: set[tuple[Kind, int, int, int]] = set()

    def load(self) -> None:
        """Load the tracer. Raises ProbeError."""
        self._watches.keep(self._what)

    def begin(self) -> None:
        """Begin to record a test."""
        self._cut = self._watches.of(self._what).cut()

    def drop(self) -> None:
        """Forget the recording."""
        if self._cut is not None:
            self._cut.drop()
        self._cut = None

    def judge(self) -> Case | None:
        """Judge the test so far; a fault is reported once. None: it is not recorded."""
        if self._cut is None:
            return None
        watch = self._watches.of(self._what)
        case = examine(watch, self._cut, self._cut.look(), watch.rules(self._what.late_ms))
        for name in self._unknown():
            case = case.doubted(f"wakeups.toml: {name} is neither loaded nor a tested module")
        new = []
        for finding in case.verdict.findings:
            key = self._wait_of(case, finding)
            if key not in self._reported:
                new.append(finding)
            self._reported.add(key)
        marks = Facts.of(case.ledger).marks
        verdict = replace(
            case.verdict, findings=tuple(new), matched=case.verdict.matched if marks else 0
        )
        return replace(case, verdict=verdict)

    def _unknown(self) -> list[str]:
        """The modules of the file that do not exist."""
        known = modules.watched()
        names = self._what.scope.modules
        return [name for name in names if name not in known and modules.state(name) is None]

    @staticmethod
    def _wait_of(case: Case, finding: Finding) -> tuple[Kind, int, int, int]:
        """The identity of a finding in all recordings: that of its wait, or of its call."""
        queue = case.ledger.queues[finding.queue]
        for wait in queue.waits_of(finding.tid):
            if wait.number == finding.wait:
                return finding.kind, queue.id, finding.tid, wait.record.t_begin
        return finding.kind, queue.id, finding.tid, finding.seq
