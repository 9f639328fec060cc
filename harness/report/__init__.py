# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Writes recordings as a page, traces for viewers, and folded stacks.

    write_all(Path("build/trace"))  # has recording.json and recording.bin

Works for kfabric's queues and for the kernel's plain wait queues.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kfabric.errors import ExitStatus
from kfabric.recording.records import Record
from kfabric.report import chrome, perfetto, webpage
from kfabric.report.folded import Folded
from kfabric.report.material import Material, NoRecordingError, load
from kfabric.report.numbers import Sums
from kfabric.verdict.kinds import Outcome

TIMELINE, TRACE, STACKS, PAGE = "timeline.json", "trace.pftrace", "stacks.folded", "report.html"

__all__ = ["Material", "NoRecordingError", "load", "status", "write", "write_all", "write_page"]

_STATUS = {Outcome.FAULT: ExitStatus.FAULT_FOUND, Outcome.NOT_VERIFIED: ExitStatus.NOT_VERIFIED}


def status(material: Material) -> ExitStatus:
    """The exit status of a command that shows the verdict.

    A recording in which nothing could be judged is no failure, unless functions were marked.
    """
    if material.ledger.marked and material.verdict.outcome is Outcome.NOT_JUDGED:
        return ExitStatus.NOT_VERIFIED
    return _STATUS.get(material.verdict.outcome, ExitStatus.OK)


def write_page(material: Material, directory: Path) -> Path:
    """Write the page alone, and return its path. Raises OSError."""
    webpage.write(directory / PAGE, material, Sums(material.source.records()))
    return directory / PAGE


def _seen(records: Iterable[Record], *others: Callable[[Record], None]) -> Iterator[Record]:
    """Pass records on, and show them to others: decoding them twice would cost most."""
    for record in records:
        for see in others:
            see(record)
        yield record


def write(material: Material, directory: Path) -> list[Path]:
    """Write everything, and return the paths. Raises OSError."""
    ledger, names, verdict = material.ledger, material.names, material.verdict
    source = material.source
    other = {**material.about, "notes": list(material.notes)}
    chrome.write(directory / TIMELINE, ledger, names, verdict, other)
    sums, stacks = Sums(), Folded(ledger, names, source.head.t_stop)
    records = _seen(source.records(), sums.add, stacks.add)
    perfetto.write(directory / TRACE, records, ledger, names, verdict.findings)
    stacks.write(directory / STACKS)
    webpage.write(directory / PAGE, material, sums)
    return [directory / name for name in (TIMELINE, TRACE, STACKS, PAGE)]


def write_all(directory: Path) -> list[Path]:
    """Write everything about a directory's recording into it, and return the paths.

    Raises:
        NoRecordingError: There is no recording, or it cannot be read.
        OSError: A file cannot be written.
    """
    return write(load(directory), directory)
