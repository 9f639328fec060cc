# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The fuzzer's parts that need no kernel: programs, their text, shrinking, and suspects."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfabric.fuzz import campaign, executor, failure, generate, preambles, server
from kfabric.fuzz.calls import CALLS, HANDLES
from kfabric.fuzz.failure import Failure, Totals
from kfabric.fuzz.generate import Origin
from kfabric.fuzz.grammar import FIELDS, FLAGS, OTHER_STEPS, PRODUCES
from kfabric.fuzz.kinds import INFOS
from kfabric.fuzz.memory import Arena, Pointers
from kfabric.fuzz.program import Program, ProgramError, Step
from kfabric.fuzz.shrink import Shrinker, unused_names_dropped
from kfabric.fuzz.syscalls import libc
from kfabric.fuzz.workers import Worker, WorkerPool, zip_latest
from kfabric_py import _uapi

SOME = [generate.program(Origin(1, 0, number)) for number in range(60)]

CORPUS = Path(__file__).parents[1] / "fuzz/corpus"

TEXT = """\
# first
# second
f = FABRIC_OPEN info=@info:mock
q = EQ_OPEN fabric=%f wait_obj=1
0: EQ_SREAD eq=%q deadline=+5ms
1: CLOSE handle=%q
"""


def test_text_of_a_program_is_the_program() -> None:
    """What is written is read back as it was, the comments included."""
    program = Program.parse(TEXT)
    assert str(program) == TEXT
    assert program.threads == [0, 1] and len(program.of(None)) == 2
    assert program.notes == ("first", "second")
    assert all(Program.parse(str(one)) == one for one in SOME)


@pytest.mark.parametrize("line", ["f FABRIC_OPEN", "x = ", "CLOSE handle", "0 CLOSE"])
def test_text_that_is_no_program_is_refused(line: str) -> None:
    """The error names the line."""
    with pytest.raises(ProgramError, match=re.escape(line.strip())):
        Program.parse(f"{TEXT}{line}\n")


def test_same_origin_gives_the_same_program() -> None:
    """A run can be repeated from its seed, and a program made from its origin alone."""
    assert SOME == [generate.program(Origin(1, 0, number)) for number in range(60)]
    assert generate.program(Origin(1, 1, 0)) != SOME[0] != generate.program(Origin(2, 0, 0))


def test_origin_is_read_back() -> None:
    """What the kernel's log and files say names one program."""
    assert Origin.parse("1.2.3") == Origin(1, 2, 3) and str(Origin(1, 2, 3)) == "1.2.3"


def test_every_call_has_a_grammar() -> None:
    """No ioctl is forgotten, nor a field of one, nor a class of handle."""
    assert set(FIELDS) == set(CALLS)
    for op, kinds in FIELDS.items():
        fields = {name for name, *_ in CALLS[op][1]._fields_}
        assert set(kinds) <= fields
        assert set(HANDLES.get(op, ())) <= set(kinds), op
        given = {name for name in fields if name.startswith("out_")}
        left = fields - given - set(kinds) - {"size", "flags", "__reserved"}
        assert not left - {"flags"}, f"{op} is never given {left}"


def test_every_flag_is_one_of_a_call() -> None:
    """The tables beside the grammar speak of calls that there are."""
    assert set(FLAGS) <= set(FIELDS)
    assert set(PRODUCES) <= set(FIELDS) | set(OTHER_STEPS)


def test_many_programs_have_every_call() -> None:
    """Each call is drawn, with objects to work on."""
    drawn = [step.op for n in range(400) for step in generate.program(Origin(3, 0, n)).steps]
    assert set(drawn) == set(CALLS) | set(OTHER_STEPS)


def test_preambles_name_fields_that_there_are() -> None:
    """A word that is misspelt would be found in the guest only."""
    for _, preamble in preambles.PREAMBLES.values():
        for step in preamble.steps:
            known = {name for name, *_ in CALLS[step.op][1]._fields_} if step.op in CALLS else None
            assert set(step.args) <= (known or set(OTHER_STEPS.get(step.op, ())))


def test_shrinking_finds_the_two_steps_that_matter() -> None:
    """Of a long program with threads the cause is left, in one thread."""
    program = next(one for one in SOME if len(one.steps) > 60 and one.threads)
    wanted = [program.steps[3], program.steps[-5]]

    def fails(candidate: Program) -> bool:
        left = [(step.op, step.name) for step in candidate.steps]
        return all((step.op, step.name) in left for step in wanted)

    short = Shrinker(fails).shrink(program)
    assert [step.op for step in short.steps] == [step.op for step in wanted]
    assert not short.threads and not any(step.args for step in short.steps)


def test_shrinking_keeps_threads_that_matter() -> None:
    """A race needs its two threads."""
    program = Program.parse(TEXT)
    short = Shrinker(lambda one: len(one.threads) == 2).shrink(program)
    assert len(short.steps) == 2 and short.threads == [0, 1]


def test_shrinking_ends() -> None:
    """A program that fails no more is played no more than is allowed."""
    program = max(SOME, key=lambda one: len(one.steps))
    played: list[Program] = []

    def fails(candidate: Program) -> bool:
        played.append(candidate)
        return False

    assert Shrinker(fails, tries=25).shrink(program) == program
    assert len(played) == 25


def test_names_that_nobody_uses_are_dropped() -> None:
    """What is left of a program is easy to read."""
    steps = Program.parse(TEXT).steps[:2]
    assert [step.name for step in unused_names_dropped(steps)] == ["f", ""]


def test_last_program_of_each_process_is_suspected() -> None:
    """A guest that went down is asked for nothing: its console tells."""
    console = "".join(
        f"[    1.0] kfabric fuzz: 7.{process}.{number}\n"
        for process, number in [(0, 1), (1, 1), (0, 2), (2, 5), (1, 2)]
    )
    assert failure.last_origins(console) == ("7.1.2", "7.2.5", "7.0.2")
    assert list(zip_latest([["a", "b"], ["c"], []])) == [["b", "c"], ["a"]]


def test_same_fault_has_the_same_signature() -> None:
    """Addresses, numbers and times of a report are not what it is about."""
    first = Failure("splat", "BUG: KASAN: use-after-free in kfd_put+0x1c/0x80\nat 0xffff1")
    second = Failure("splat", "BUG: KASAN: use-after-free in kfd_put+0x2c/0x90\nat 0xffff2")
    third = Failure("splat", "BUG: KASAN: use-after-free in kfd_get+0x1c/0x80")
    assert first.signature == second.signature != third.signature
    assert campaign.distinct([first, second, third]) == [first, third]
    assert Failure.from_json(first.to_json()) == first


def test_totals_tell_what_was_not_reached() -> None:
    """A call that never succeeded is one behind which nothing was tested."""
    totals = Totals()
    totals.add(2, [["VERSION", 0, 3], ["CLOSE", 9, 1]])
    assert totals.calls == 4 and totals.programs == 2
    assert "CLOSE" in totals.unreached() and "VERSION" not in totals.unreached()


def test_answer_is_the_program_s_that_gave_it() -> None:
    """Though the process was heard late, when it had gone on to others."""
    pool = WorkerPool(cast(Any, None), cast(Any, None), cast(Any, None))
    events = [
        {"begin": "1.0.1"},
        {"calls": [["CLOSE", 9, 1]], "complaints": ["CLOSE: bad"]},
        {"begin": "1.0.2"},
        {"calls": [["CLOSE", 9, 1]]},
        {"begin": "1.0.3"},
    ]
    worker = SimpleNamespace(events=lambda: events, history=list[str]())
    assert pool._receive(cast(Worker, worker))
    (failure,) = pool._result.failures
    assert failure.suspects == ("1.0.1",) and worker.history[-1] == "1.0.3"


@pytest.fixture
def pointers() -> Pointers:
    """What words point to, with one handle of number 7."""
    infos = {"mock": _uapi.kfab_info(size=ctypes.sizeof(_uapi.kfab_info), caps=2)}
    return Pointers(
        infos, "198.18.1.1", lambda word: 7 if word[0] == "%" else int(word, 0), str.encode
    )


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("@str:a%20b", b"a b\0"),
        ("@host", b"198.18.1.1\0"),
        ("@u32:%x,1", b"\7\0\0\0\1\0\0\0"),
        ("@hex:0aff", b"\x0a\xff"),
        ("@addr:abc", b"abc"),
        ("@sin:4791", b"\2\0\x12\xb7\xc6\x12\1\1" + bytes(8)),
        ("@iov:%b/0/1/2", b"\7" + bytes(7) + b"\1" + bytes(7) + b"\2" + bytes(7)),
        ("@str:end!end", b"end\0"),
        ("@str:ro!ro", b"ro\0"),
    ],
)
def test_words_point_to_what_they_name(pointers: Pointers, word: str, wanted: bytes) -> None:
    """What the kernel is shown is what the program says."""
    address, _ = pointers.resolve(word, Arena())
    assert ctypes.string_at(address, len(wanted)) == wanted


def test_calls_of_a_batch_have_their_structures(pointers: Pointers) -> None:
    """An element points to the structure of its call, which may point on."""
    arena = Arena()
    word = "@calls:RECV,ep=%e,context=3;CQ_READ,cq=%q,count=1,entries=@hex:0aff"
    address, length = pointers.resolve(word, arena)
    post, read = (_uapi.kfab_batch_call * 2).from_address(address)
    assert length == ctypes.sizeof(_uapi.kfab_batch_call) * 2
    assert [post.cmd, read.cmd] == [_uapi.KFAB_IOC_RECV, _uapi.KFAB_IOC_CQ_READ]
    message = _uapi.kfab_msg.from_address(post.arg)
    assert (message.size, message.ep, message.context) == (ctypes.sizeof(message), 7, 3)
    entries = _uapi.kfab_cq_read.from_address(read.arg).entries
    assert ctypes.string_at(entries, 2) == b"\x0a\xff"


def test_info_is_changed_where_the_word_says(pointers: Pointers) -> None:
    """Numbers are set, and bytes filled."""
    address, length = pointers.resolve("@info:mock,caps=0x5,src_addr=0xff", Arena())
    info = _uapi.kfab_info.from_address(address)
    assert length == ctypes.sizeof(info) and info.caps == 5 and set(info.src_addr) == {255}


def test_steps_say_whom_they_use() -> None:
    """Which names a step refers to, in numbers and behind addresses."""
    step = Step.parse("0: WRITE ep=%e iov=@iov:%b/%m/0/8 rma_iov=@rma:%m.iova/8/%m.key")
    assert step.uses() == {"e", "b", "m"}
    assert Step.parse("CONNECT addr=@addr:n!cut").uses() == {"n"}


def test_corpus_can_be_read() -> None:
    """Every program of the corpus says what it is for, and uses what it has opened."""
    for path in CORPUS.glob("*.fuzz"):
        program = Program.parse(path.read_text())
        assert program.notes, path
        assert {step.op for step in program.steps} <= set(CALLS) | set(OTHER_STEPS), path


def test_corpus_has_every_call() -> None:
    """None is left out, valid calls least of all."""
    programs = [Program.parse(path.read_text()) for path in CORPUS.glob("*.fuzz")]
    missing = set(CALLS) - {step.op for program in programs for step in program.steps}
    assert not missing, "each needs a program tests/fuzz/corpus/NAME.fuzz"


def test_executor_runs_every_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever is drawn can be played, and every call of it is counted."""
    monkeypatch.setattr(executor, "DEVICE", "/dev/null")
    monkeypatch.setattr(executor, "MOCK", tmp_path / "command")
    monkeypatch.setattr(executor, "ioctl", lambda fd, number, address: 0)
    monkeypatch.setattr(executor, "_output", lambda step, arg: executor.Output({"handle": 1}))
    infos = {name: _uapi.kfab_info() for name in INFOS}
    runner = executor.Executor("198.18.1.1", infos)
    for program in SOME:
        # A fork of pytest would go on as pytest if it died.
        steps = [step for step in program.steps if step.op != "FORK"]
        result = runner.run(program.with_steps(steps))
        assert not (result.died or result.hangs or result.complaints)
        assert sum(result.calls.values()) > len(steps) / 2


class Blocking:
    """Calls that block: VERSION until a signal comes, any other until VERSION has ended."""

    def __init__(self) -> None:
        self.freed = threading.Event()
        self._pipe, self._write = os.pipe()

    def __call__(self, fd: int, number: int, address: int) -> int:
        if number == CALLS["VERSION"][0]:
            assert libc.read(self._pipe, ctypes.create_string_buffer(1), 1) == -1
            self.freed.set()
            return -errno.EINTR
        return 0 if self.freed.wait(30.0) else -errno.ETIMEDOUT

    def close(self) -> None:
        """Free the pipe."""
        os.close(self._pipe)
        os.close(self._write)


@pytest.fixture
def blocking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocking]:
    """A kernel whose calls block, and a player that soon loses patience."""
    calls = Blocking()
    monkeypatch.setattr(executor, "DEVICE", "/dev/null")
    monkeypatch.setattr(executor, "ioctl", calls)
    monkeypatch.setattr(executor, "SIGNAL_SECONDS", 0.02)
    yield calls
    calls.close()


def test_signals_end_the_sleeps_of_all_threads(blocking: Blocking) -> None:
    """A thread that waits for another one without a signal does not keep it asleep."""
    runner = executor.Executor("198.18.1.1", {})
    result = runner.run(Program.parse("0: GETINFO\n1: VERSION\n"))
    assert result.calls == {("GETINFO", 0): 1, ("VERSION", errno.EINTR): 1}
    assert not result.hangs


def test_thread_that_does_not_come_back_hangs(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signals do not help; it is told with its step and where it is."""
    monkeypatch.setattr(executor, "HANG_SECONDS", 0.2)
    runner = executor.Executor("198.18.1.1", {})
    result = runner.run(Program.parse("0: GETINFO\n"))
    blocking.freed.set()
    (text,) = result.hangs
    assert text.startswith("0: GETINFO: ")


def test_the_last_calls_of_a_run_are_played() -> None:
    """Fewer calls than processes: the run would ask for none, again and again."""
    job = {"job": "run", "calls": 2, "processes": [0, 1, 2], "seed": 1}
    assert all(list(programs) for programs in server.lists(job))
