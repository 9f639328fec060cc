# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Encodings of a recording: the guest's packed structs, and JSON lines."""

from __future__ import annotations

import re
import struct
from dataclasses import fields
from pathlib import Path

import pytest
from record_lines import dump_lines, load_lines
from report_support import TRACES

from kfabric.recording import records
from kfabric.recording.records import (
    EnderRecord,
    Losses,
    MarkRecord,
    ObjectRecord,
    Record,
    RecordError,
    SignalRecord,
    StackRecord,
    Tally,
    TallyRecord,
    WaitRecord,
    WakeRecord,
    from_guest,
)
from kfabric.verdict.ledger import build

ROOT = Path(__file__).parents[2]
PROGRAM = (ROOT / "harness/probes/wakeups.bpf.c").read_text(encoding="utf-8")
HEADER = (ROOT / "harness/recording/records.h").read_text(encoding="utf-8")
WIDTH = {"u8": "B", "u32": "I", "s32": "i", "u64": "Q"}
LAYOUTS: list[tuple[type[Record], str]] = [
    (WaitRecord, "wait_rec"),
    (SignalRecord, "signal_rec"),
    (WakeRecord, "wake_rec"),
    (ObjectRecord, "object_rec"),
    (MarkRecord, "mark_rec"),
    (StackRecord, "stack_rec"),
    (TallyRecord, "tally_rec"),
    (EnderRecord, "ender_rec"),
]


def struct_of(name: str) -> tuple[str, list[str]]:
    """Format and member names of a struct in the programs' header."""
    body = re.search(rf"struct {name} \{{(.*?)\n\}};", HEADER, re.S)
    assert body is not None
    text = re.sub(r"/\*.*?\*/", "", body[1], flags=re.S)
    form, names = "", []
    for kind, members in re.findall(r"(u8|u32|s32|u64) ([\w,\s]+);", text):
        for member in members.split(","):
            form += WIDTH[kind]
            names.append(member.strip())
    return form, names


def expand(form: str) -> str:
    """A struct format with counts written out and padding as bytes."""
    form = form.lstrip("<").replace("x", "B")
    return re.sub(r"(\d+)([A-Za-z])", lambda m: m[2] * int(m[1]), form)


@pytest.mark.parametrize(("cls", "name"), LAYOUTS)
def test_decoder_has_the_layout_of_the_program(cls: type[Record], name: str) -> None:
    """The struct that the kernel part fills and the decoder's format are the same."""
    form, members = struct_of(name)
    assert expand(cls.FORMAT.format) == form
    assert {f.name for f in fields(cls)} <= set(members)


@pytest.mark.parametrize(("cls", "name"), LAYOUTS)
def test_every_field_comes_from_its_own_member(cls: type[Record], name: str) -> None:
    """Each member holds a different number; the decoder must not mix them up."""
    form, members = struct_of(name)
    values = [cls.KIND, *range(11, 10 + len(members))]
    record = next(records.unpack([struct.pack(f"<{form}", *values)]))
    for field in fields(cls):
        assert getattr(record, field.name) == values[members.index(field.name)]


ARGUMENTS = {
    "wait_begin": "WAIT_BEGIN",
    "wait_end": "WAIT_END",
    "signal": "SIGNAL",
    "wake": "WAKE",
    "object_new": "OBJECT",
    "object_free": "OBJECT",
    "member_add": "MEMBER",
    "member_del": "MEMBER",
}


@pytest.mark.parametrize("event", ARGUMENTS)
def test_program_knows_the_order_of_a_tracepoint_s_arguments(event: str) -> None:
    """Raw tracepoints have no names for their arguments: the kernel header's order counts."""
    header = (ROOT / "kmod/include/trace/events/kfabric.h").read_text(encoding="utf-8")
    match = re.search(rf"EVENT\((?:\w+, )?{event},\s+TP_PROTO\(.*?TP_ARGS\((.*?)\)", header, re.S)
    assert match is not None
    prefix = ARGUMENTS[event] + "_"
    known = re.search(rf"enum \{{\s*({prefix}[^}}]*?)\s*\}};", PROGRAM)
    assert known is not None
    names = [name.strip() for name in known[1].split(",")]
    assert [prefix + name.strip().upper() for name in match[1].split(",")] == names


def test_no_record_is_longer_than_136_bytes() -> None:
    """The limit that the ring was dimensioned for."""
    assert max(cls.FORMAT.size for cls, _ in LAYOUTS) == 136


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_json_lines_survive_a_round_trip(path: Path) -> None:
    """Written and loaded again it is the same."""
    once = load_lines(path.read_text(encoding="utf-8").splitlines())
    assert load_lines(dump_lines(once)) == once


def pack_signal(seq: int) -> bytes:
    """A packed signal, as the guest writes it."""
    return SignalRecord.FORMAT.pack(2, 20, 1000 * seq, seq, 1, 21, 0, 7, 1, 2, 0, 0, 0, 0)


HEAD = {
    "tallies": {"20": {"signals": 2, "wakes": 0, "begins": 0, "ends": 0}},
    "threads": {"7": "ksoftirqd/0"},
    "losses": {"ring": 0},
    "t_stop": 5000,
}


def test_guest_recording_is_decoded() -> None:
    """Head and packed records together make a recording without doubts."""
    recording = from_guest(HEAD, pack_signal(1) + pack_signal(2))
    assert [r.seq for r in recording.records if isinstance(r, SignalRecord)] == [1, 2]
    assert recording.tallies == {20: Tally(signals=2)}
    assert not recording.losses
    assert build(recording).doubts == ()


@pytest.mark.parametrize(
    "blob", [pack_signal(1)[:-1], b"\x63" + bytes(60), pack_signal(1) + b"\x02"]
)
def test_damaged_records_are_refused(blob: bytes) -> None:
    """A cut or unknown record is an error and never silently left out."""
    with pytest.raises(RecordError):
        from_guest(HEAD, blob)


@pytest.mark.parametrize("head", [{}, HEAD | {"losses": {"rings": 1}}, HEAD | {"tallies": []}])
def test_damaged_head_is_refused(head: dict[str, object]) -> None:
    """A head that lacks its losses must not read as "no losses"."""
    with pytest.raises(RecordError):
        from_guest(head, b"")


@pytest.mark.parametrize(
    "line", ["{", '{"kind": "wish"}', '{"kind": "signal"}', '{"kind": "signal", "colour": 1}', "3"]
)
def test_damaged_line_is_refused_with_its_number(line: str) -> None:
    """A broken trace names the line."""
    with pytest.raises(RecordError, match="line 2"):
        load_lines(["# a trace", line])


def test_any_loss_counts() -> None:
    """Each kind of loss alone is one."""
    for field in fields(Losses):
        assert Losses(**{field.name: 1})
    assert not Losses()
