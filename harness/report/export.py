# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a run leaves behind for machines: its report, as JSON.

Files appear complete or not at all. What people look at is made by harness.report.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.verdict.stats import Row
from harness.verdict.verdict import Verdict

REPORT_SCHEMA = 1


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    """Write ``value`` to ``path`` by way of a temporary file next to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=indent)
            file.write("\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def report(verdict: Verdict, rows: Iterable[Row], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The report: verdict, table, and what the run adds (limits, versions)."""
    return {
        "schema": REPORT_SCHEMA,
        "verdict": verdict.outcome.value,
        "line": verdict.line(),
        "waits_matched": verdict.matched,
        "overtaken": verdict.overtaken,
        "findings": [asdict(f) | {"kind": f.kind.value} for f in verdict.findings],
        "notes": [asdict(f) | {"kind": f.kind.value} for f in verdict.notes],
        "doubts": list(verdict.doubts),
        "table": [asdict(row) for row in rows],
        **extra,
    }
