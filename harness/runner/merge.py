# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Merge the results of shards into what one run would have given.

Each DIR is the build/test of a runner that has called kfabric test --shard K/N. The exit status
is 1 if a test failed, if no test ran, or if a shard has no results; what it lacks is in the merged
files as well. Consoles and recordings stay in their DIR.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar
from xml.etree.ElementTree import ParseError

from kfabric.errors import ExitStatus, UsageError
from kfabric.runner import junit, kcidb, ktap, matrix, shards
from kfabric.runner.outcome import WHOLE, Trouble
from kfabric.terminal.arguments import Parser, writable

WORDS = ("passed", "failed", "skipped")

T = TypeVar("T")


class MergeError(UsageError, label="cannot merge"):
    """The files are not the results of the shards of one run."""


def main(argv: Sequence[str]) -> int:
    """Merge; prints a line for each run."""
    parser = Parser(prog="kfabric merge", description=__doc__)
    parser.add_argument(
        "directories", nargs="+", type=Path, metavar="DIR", help="directory with a shard's results"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("merged"),
        metavar="DIR",
        help="directory for the merged files",
    )
    args = parser.parse_args(argv)
    found = runs(args.directories)
    output = writable(args.output)
    if output in [directory.resolve() for directory in args.directories]:
        raise MergeError(f"{args.output} has results", "write the merged files elsewhere")
    cells = []
    for name, reports in found.items():
        merged = output / f"{name}.xml"
        missing = _merge(reports, merged)
        cells.append(matrix.read("", [merged], 0.0).total())
        words = [f"{cells[-1][word]} {word}" for word in WORDS if cells[-1][word]] or ["no tests"]
        print(f"{merged}: {', '.join([*words, *(one.reason for one in missing)])}")
    return ExitStatus.OK if _good(cells) else ExitStatus.TEST_FAILED


def _good(cells: Sequence[matrix.Cell]) -> bool:
    """Whether something passed, nothing failed, and no run has skipped all of its tests."""
    hollow = any(cell["skipped"] and not cell["passed"] for cell in cells)
    return (
        not hollow
        and any(cell["passed"] for cell in cells)
        and not any(cell["failed"] for cell in cells)
    )


def runs(directories: Sequence[Path]) -> dict[str, dict[shards.Shard | None, Path]]:
    """The JUnit files by shard, by the name of their run, such as ``guest-6.12``.

    Raises:
        MergeError: there are none, or they do not belong together.
    """
    found: dict[str, dict[shards.Shard | None, Path]] = {}
    for directory in directories:
        if not directory.is_dir():
            raise MergeError(f"{directory} is no directory")
        for report in sorted(directory.glob("*.xml")):
            if not all(report.with_suffix(suffix).exists() for suffix in junit.SUFFIXES):
                continue  # the runner ended before it wrote all
            of_run = found.setdefault(report.stem, {})
            shard = _shard(report)
            if shard in of_run:
                both = f"{of_run[shard]} and {report}"
                what = f"both shard {shard}" if shard else "not of shards"
                raise MergeError(f"{both} are {what}")
            of_run[shard] = report
    if not found:
        raise MergeError(f"no results: {', '.join(map(str, directories))}")
    for of_run in found.values():
        if len({shard and shard.count for shard in of_run}) > 1:
            raise MergeError(f"{' and '.join(map(str, of_run.values()))} are of different runs")
    return found


def _shard(report: Path) -> shards.Shard | None:
    text = _read(report, lambda file: junit.marked(file, "shard"))
    return shards.parse(text) if text else None


def _merge(reports: dict[shards.Shard | None, Path], merged: Path) -> list[Trouble]:
    """Write the three files of a run; what is missing."""
    if None in reports:
        for suffix in junit.SUFFIXES:
            shutil.copy(reports[None].with_suffix(suffix), merged.with_suffix(suffix))
        return []
    present = {shard.number: reports[shard] for shard in reports if shard}
    (count,) = {shard.count for shard in reports if shard}
    ordered = [present[number] for number in sorted(present)]
    missing = [
        Trouble(WHOLE, f"shard {number}/{count} has no results", "")
        for number in range(1, count + 1)
        if number not in present
    ]
    junit.merge(ordered, merged)
    if missing:
        junit.add(merged, missing)
    merged.with_suffix(".ktap").write_text(_ktap(ordered, missing), encoding="utf-8")
    documents = [
        _read(report.with_suffix(".kcidb.json"), lambda file: json.loads(file.read_text("utf-8")))
        for report in ordered
    ]
    kcidb.write(merged.with_suffix(".kcidb.json"), kcidb.merge(documents, missing))
    return missing


def _ktap(reports: Sequence[Path], missing: Sequence[Trouble]) -> str:
    title, files, more = "", ktap.Files(), list[ktap.Line]()
    for report in reports:
        text = report.with_suffix(".ktap")
        title, its_files, its_more = _read(text, lambda file: ktap.read(file.read_text("utf-8")))
        for name, results in its_files.items():
            files.setdefault(name, {}).update(results)
        more += its_more
    more += map(ktap.of_trouble, missing)
    return ktap.document(title, files, more)


def _read(file: Path, reader: Callable[[Path], T]) -> T:
    """What a file holds. Raises MergeError."""
    try:
        return reader(file)
    except (OSError, ValueError, KeyError, StopIteration, ParseError) as error:
        raise MergeError(f"{file} cannot be read: {error}") from error
