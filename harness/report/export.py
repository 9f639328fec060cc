# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The report of a run as JSON, for programs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kfabric.report.files import whole
from kfabric.verdict.stats import Row
from kfabric.verdict.verdict import Verdict

REPORT_SCHEMA = 1


def write_json(path: Path, value: Any) -> None:
    """Write ``value``; the file appears complete or not at all."""
    with whole(path) as file:
        file.write(f"{json.dumps(value, indent=1)}\n".encode())


def report(verdict: Verdict, rows: Iterable[Row], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The report: verdict, table, and the run's own facts (limits, versions)."""
    return {
        "schema": REPORT_SCHEMA,
        "verdict": verdict.outcome.value,
        "line": verdict.line(),
        "waits_matched": verdict.matched,
        "overtaken": verdict.overtaken,
        "findings": [asdict(f) | {"kind": f.kind.value} for f in verdict.findings],
        "notes": [asdict(f) | {"kind": f.kind.value} for f in verdict.notes],
        "doubts": list(verdict.doubts),
        "unaided": verdict.unaided,
        "unjudged": dict(verdict.unjudged),
        "odd": dict(verdict.odd),
        "missing": list(verdict.missing),
        "table": [asdict(row) for row in rows],
        **extra,
    }
