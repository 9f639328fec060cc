# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a recording becomes for people: a page, traces for viewers, folded stacks.

    write_all(Path("build/trace"))  # has recording.json and recording.bin

Works alike for kfabric's queues and for the kernel's plain wait queues.
"""

from __future__ import annotations

from pathlib import Path

from harness.report import chrome, folded, perfetto, webpage
from harness.report.material import Material, NoRecordingError, load

TIMELINE, TRACE, STACKS, PAGE = "timeline.json", "trace.pftrace", "stacks.folded", "report.html"

__all__ = ["Material", "NoRecordingError", "load", "write", "write_all", "write_page"]


def write_page(material: Material, directory: Path) -> Path:
    """Write the page alone; where it is. Raises OSError."""
    webpage.write(directory / PAGE, material)
    return directory / PAGE


def write(material: Material, directory: Path) -> list[Path]:
    """Write everything; where it is. Raises OSError."""
    ledger, names, verdict = material.ledger, material.names, material.verdict
    source = material.source
    other = {**material.about, "notes": list(material.notes)}
    chrome.write(directory / TIMELINE, ledger, names, verdict, other)
    perfetto.write(directory / TRACE, source.records(), ledger, names, verdict.findings)
    folded.write(directory / STACKS, source.records(), ledger, names, source.head.t_stop)
    page = write_page(material, directory)
    return [directory / TIMELINE, directory / TRACE, directory / STACKS, page]


def write_all(directory: Path) -> list[Path]:
    """Write everything about a directory's recording into it; the files.

    Raises NoRecordingError, OSError.
    """
    return write(load(directory), directory)
