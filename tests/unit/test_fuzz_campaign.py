# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The fuzzer's host side: what fails is found, shrunk and left; a guest that dies is a failure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfabric.errors import ExitStatus, GuestPanic
from kfabric.fuzz import campaign
from kfabric.fuzz.failure import Failure, Totals
from kfabric.fuzz.generate import Origin
from kfabric.fuzz.generate import program as generate
from kfabric.fuzz.program import Program
from kfabric.fuzz.session import Answer, Session
from kfabric.vm.jobs import ServerEnded
from kfabric.vm.machine import Vm

SPLAT = "BUG: KASAN: use-after-free in kfd_put+0x1c"
Guilty = Callable[[Program], bool]


@dataclass
class Guests:
    """Stands for a Session: programs that are guilty fail in it."""

    guilty: Guilty
    kind: str = "splat"
    played: list[str] = field(default_factory=list)
    rounds: list[list[int]] = field(default_factory=list)

    def run(self, seed: int, processes: Sequence[int], calls: int, **_: Any) -> Answer:
        """Ten programs a process; all of them are suspected."""
        self.rounds.append(list(processes))
        origins = [Origin(seed, process, n) for n in range(10) for process in processes]
        answer = self._answer([generate(one) for one in origins])
        names = tuple(map(str, reversed(origins)))
        answer.failures = [Failure(one.kind, one.text, names) for one in answer.failures]
        return answer

    def run_programs(
        self, programs: Sequence[Program] = (), origins: Sequence[str] = (), **_: Any
    ) -> Answer:
        """What a Session does."""
        self.played += [*map(str, programs), *origins]
        made = [generate(Origin(*map(int, one.split(".")))) for one in origins]
        return self._answer([*programs, *made])

    def _answer(self, programs: Sequence[Program]) -> Answer:
        answer = Answer()
        answer.totals.add(len(programs), [["CLOSE", 9, sum(len(p.steps) for p in programs)]])
        if any(map(self.guilty, programs)):
            answer.failures.append(Failure(self.kind, SPLAT))
        return answer


def run_campaign(guests: Guests, directory: Path, calls: int = 100) -> campaign.Campaign:
    """Run with a fixed seed."""
    found = campaign.Campaign(campaign.Plan(1, calls, 2, directory), cast(Session, guests))
    found.run()
    return found


def two_calls(first: str, second: str) -> Guilty:
    """Guilty is a program that has two calls, in this order."""

    def guilty(program: Program) -> bool:
        ops = [step.op for step in program.steps]
        return first in ops and second in ops[ops.index(first) :]

    return guilty


@pytest.mark.parametrize("kind", ["splat", "memory", "guest"])
def test_what_fails_is_found_and_shrunk(tmp_path: Path, kind: str) -> None:
    """Of twenty programs the two steps that did it are left, and the file can be replayed."""
    guests = Guests(two_calls("WAIT_OPEN", "POLL_OPEN"), kind)
    found = run_campaign(guests, tmp_path)
    assert found.status is ExitStatus.TEST_FAILED
    (path,) = found.saved
    program = Program.parse(path.read_text())
    assert [step.op for step in program.steps] == ["WAIT_OPEN", "POLL_OPEN"]
    assert program.notes[0].startswith(f"{kind}: BUG: KASAN")
    again = campaign.replay(cast(Session, guests), program)
    assert again is not None and again.title == SPLAT
    assert (tmp_path / f"{path.stem}.txt").read_text() == SPLAT


def test_what_fails_only_together_is_left_as_it_was(tmp_path: Path) -> None:
    """No program fails alone: those that were played then are left, each in a file."""
    guests = Guests(lambda program: False)
    failure = Failure("splat", SPLAT, ("1.0.3", "1.1.4"))
    guests.run = lambda *_, **__: Answer(failures=[failure])  # type: ignore[method-assign]
    found = run_campaign(guests, tmp_path)
    assert [path.stem for path in found.saved] == ["splat-1.0.3", "splat-1.1.4"]
    assert Program.parse(found.saved[0].read_text()).steps == generate(Origin(1, 0, 3)).steps


def test_well_is_well_after_enough_calls(tmp_path: Path) -> None:
    """Rounds go on until there were as many calls as asked for."""
    guests = Guests(lambda program: False)
    found = run_campaign(guests, tmp_path, calls=5000)
    assert found.status is ExitStatus.OK and found.totals.calls >= 5000
    # No program comes twice: each round has processes of its own.
    assert guests.rounds == [[2 * n, 2 * n + 1] for n in range(len(guests.rounds))]
    assert len(guests.rounds) > 1
    assert any(line.startswith("never succeeded: VERSION") for line in found.summary())


def test_what_was_found_is_left_when_shrinking_is_interrupted(tmp_path: Path) -> None:
    """Ctrl-C in the middle: the file has the shortest program so far."""
    lengths: list[int] = []
    guilty = two_calls("WAIT_OPEN", "POLL_OPEN")

    def interrupted(program: Program) -> bool:
        if lengths and lengths[-1] < 10:
            raise KeyboardInterrupt
        if guilty(program):
            lengths.append(len(program.steps))
        return guilty(program)

    plan = campaign.Plan(1, 100, 2, tmp_path, guest="--kernel debug")
    found = campaign.Campaign(plan, cast(Session, Guests(interrupted)))
    with pytest.raises(KeyboardInterrupt):
        found.run()
    (path,) = found.saved
    program = Program.parse(path.read_text())
    assert guilty(program) and 2 < len(program.steps) == lengths[-1]
    assert found.summary()[-1] == f"kfabric fuzz --kernel debug --replay {path}"


def test_pace_is_told_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many calls, and how many a second, since the first; not at every step."""
    clock = iter([100.0, 110.0, 140.0])
    monkeypatch.setattr(campaign, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    throughput = campaign.Throughput(every=30.0)
    throughput.update(0)
    throughput.update(100)
    assert not capsys.readouterr().err
    throughput.update(4000)
    assert "4,000 calls in 40 s, 100 a second" in capsys.readouterr().err


class FakeVm:
    """A guest whose server says these lines, and may go down then."""

    def __init__(
        self,
        lines: Sequence[dict[str, Any]],
        end: Exception | None = None,
        *,
        console: str = "",
    ) -> None:
        self._console = console
        self.sent: list[dict[str, Any]] = []
        self.closed = False
        self.image = SimpleNamespace(version=SimpleNamespace(slow=1.0))
        self._lines, self._end = lines, end

    def start(self) -> None:
        """Nothing to do."""

    def popen(self, *_: Any, **__: Any) -> Any:
        """The server."""
        return SimpleNamespace(
            lines=self._say,
            send=lambda data: self.sent.append(json.loads(data)),
            errors=b"Traceback\nValueError: 7\n",
            console_tail=lambda: "BUG: oops",
            rc=1,
        )

    def _say(self) -> Iterator[str]:
        yield from map(json.dumps, self._lines)
        if self._end:
            raise self._end

    def console_text(self) -> str:
        """Two processes were playing."""
        return f"[ 1.0] kfabric fuzz: 7.0.3\n[ 1.1] kfabric fuzz: 7.1.5\n{self._console}"

    def kill(self) -> None:
        """Never needed."""

    def close(self) -> None:
        """Note it."""
        self.closed = True


def session_of(vm: FakeVm) -> Session:
    """A session whose only guest is this one."""
    return Session("guest", lambda name: cast(Vm, vm))


def test_session_takes_what_the_server_tells() -> None:
    """Progress, failures and totals of a job, up to its end."""
    failure = Failure("answer", "CLOSE: bad", ("1.0.0",))
    lines: list[dict[str, Any]] = [
        {"event": "progress", "calls": 5},
        {"event": "failure", "failure": failure.to_json()},
        {"event": "played", "programs": 2, "results": [["CLOSE", 0, 7]]},
        {"event": "end"},
    ]
    vm, seen = FakeVm(lines), list[int]()
    answer = session_of(vm).run(1, range(2), 10, progress=seen.append)
    assert answer.failures == [failure] and answer.totals == Totals(2, Counter({("CLOSE", 0): 7}))
    assert seen == [5] and vm.sent[0]["job"] == "run" and not vm.closed


def test_session_tells_who_played_when_the_guest_went_down() -> None:
    """A panic is a failure of the programs that its console names, and the guest is left."""
    vm = FakeVm([{"event": "begin"}], GuestPanic("Fatal exception", console="the end"))
    (failure,) = session_of(vm).run(7, range(2), 10).failures
    assert failure.kind == "guest" and "Fatal exception" in failure.title
    assert failure.suspects == ("7.1.5", "7.0.3") and vm.closed


@pytest.mark.parametrize(
    ("told", "kinds"),
    [(None, ["splat"]), ("memory", ["memory", "splat"]), ("splat", ["splat"])],
)
def test_what_only_the_console_heard_is_a_failure(told: str | None, kinds: list[str]) -> None:
    """A report from before, between or behind the jobs counts, and is not told twice."""
    lines: list[dict[str, Any]] = [{"event": "begin"}]
    if told:
        lines.append({"event": "failure", "failure": Failure(told, "title").to_json()})
    vm = FakeVm([*lines, {"event": "end"}], console=f"[ 1.2] {SPLAT}\n")
    failures = session_of(vm).run(7, range(2), 10).failures
    assert [failure.kind for failure in failures] == kinds and vm.closed
    if told != "splat":
        assert failures[-1].title == f"kernel splat (kasan): {SPLAT}"
        assert failures[-1].suspects == ("7.1.5", "7.0.3")


def test_session_whose_server_ends_is_an_error() -> None:
    """That is no failure of the kernel's."""
    with pytest.raises(ServerEnded, match="ValueError: 7"):
        session_of(FakeVm([])).run_programs([Program(())])


def test_guest_that_goes_down_before_it_plays_is_an_error() -> None:
    """Nobody has done anything yet: no program is to blame."""
    vm = FakeVm([], GuestPanic("Fatal exception", console="the end"))
    with pytest.raises(GuestPanic):
        session_of(vm).run(7, range(2), 10)
