# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Recordings as JSON lines: the format of tests/data/traces, readable and short."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from kfabric.recording.records import (
    CLASSES,
    Record,
    RecordError,
    Recording,
    Tally,
    count,
    head_of,
    recording_of,
)

# "wait" for WaitRecord, and so on.
_NAMES = {cls.__name__.removesuffix("Record").lower(): cls for cls in CLASSES}
_KINDS = {cls: name for name, cls in _NAMES.items()}


def dump_lines(recording: Recording) -> Iterator[str]:
    """Encode a recording: the head, then one line for each record."""
    yield json.dumps({"kind": "head"} | head_of(recording))
    for record in recording.records:
        # Fields that have their defaults are left out, to keep lines short.
        values = {f.name: (getattr(record, f.name), f.default) for f in fields(record)}
        sparse = {name: int(value) for name, (value, default) in values.items() if value != default}
        yield json.dumps({"kind": _KINDS[type(record)]} | sparse)


def load_lines(lines: Iterable[str]) -> Recording:
    """Decode lines, as :func:`dump_lines` writes them.

    Empty lines and lines that begin with ``#`` are skipped. Without a head nothing was
    lost, and the tallies are counted from the records themselves.

    Raises:
        RecordError: A line is not a record.
    """
    head: dict[str, Any] = {}
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            item = json.loads(line)
            kind = item.pop("kind")
            if kind == "head":
                head = item
            else:
                records.append(_NAMES[kind](**item))
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise RecordError(f"line {number}: {exc!r}") from exc
    tallies = {int(q): Tally(**t) for q, t in head.get("tallies", {}).items()}
    head = {"threads": {}, "losses": {}, "t_stop": 0} | head
    return recording_of(head, tuple(records), tallies or count(records))
