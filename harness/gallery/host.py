# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Host side of the gallery: boots a guest, judges each run, prints the tables."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from kfabric.docs import results
from kfabric.docs.results import Measurement
from kfabric.gallery import check, show
from kfabric.gallery.check import Judged
from kfabric.gallery.cut import FullRecording, Run
from kfabric.gallery.entries import BY_NAME, KINDS, MOCK_NAME
from kfabric.gallery.guest import MOCK
from kfabric.recording import HEAD, RECORDS
from kfabric.recording.records import from_guest
from kfabric.report.export import report, write_json
from kfabric.terminal.arguments import relative
from kfabric.vm import prepare
from kfabric.vm.jobs import ProgramFailed, events
from kfabric.vm.machine import Vm
from kfabric.vm.spec import Variant, VmSpec

_GUEST = "guest"
_SECONDS = 1800.0
_MEMORY_MIB = 1024


def run(
    names: Sequence[str],
    kinds: Sequence[str],
    rounds: int,
    output: Path,
    measured: Measurement | None = None,
) -> int:
    """Run and judge entries and healthy kinds, print the tables, leave the recordings.

    Returns:
        The exit status.
    """
    clear(output)
    place = output / _GUEST
    runs = _run(names, kinds, rounds, place)
    console = Console(highlight=False)
    judged = list(_judge(runs, place / "out", output))
    tables = [
        show.entries(console, [one for one in judged if one.run.variant != "healthy"]),
        show.healthy(console, [one for one in judged if one.run.variant == "healthy"]),
    ]
    if measured:
        text = "\n".join(results.markdown(table) for table in tables if table.rows)
        measured.write(prepare.guest_image().release, text)
    show.complaints(console, judged)
    # Big; the parts of interest have been left on their own.
    shutil.rmtree(place / "out", ignore_errors=True)
    print(f"left in {relative(output)}: a recording of each entry, for 'kfabric report'")
    return check.status(judged)


def clear(output: Path) -> None:
    """Remove what an earlier run has left; the user may keep other things there."""
    for name in (_GUEST, *BY_NAME, *KINDS):
        shutil.rmtree(output / name, ignore_errors=True)


def _run(names: Sequence[str], kinds: Sequence[str], rounds: int, place: Path) -> list[Run]:
    spec = VmSpec(name="gallery", memory_mib=_MEMORY_MIB, variant=Variant.PROD)
    with prepare.vm(spec, directory=place) as vm:
        prepare.say(f"guest is up after {vm.boot_seconds:.1f} s")
        healthy = [kind for kind in kinds if kind != MOCK_NAME]
        argv = ["kfabric.gallery.guest", *names, "--rounds", str(rounds), "--healthy", *healthy]
        runs = [Run.of(line) for line in _lines(vm, argv)]
        if MOCK_NAME in kinds:
            for line in _lines(vm, ["kfabric.gallery.guest", "--mock", "--rounds", str(rounds)]):
                runs.append(Run(line["variant"], line["name"], 0, 0, line["seconds"]))
        vm.require_no_splat()
    return runs


def _lines(vm: Vm, argv: list[str]) -> Iterator[dict[str, Any]]:
    """The runs that a module reports in the guest; prints the steps that take long."""
    for line in events(vm, argv, _SECONDS):
        if "loaded" in line:
            prepare.say(f"tracer is loaded after {line['loaded']:.1f} s")
        elif "again" in line:
            lost = ", ".join(f"{n} {kind}" for kind, n in line["losses"].items() if n)
            prepare.say(f"{line['again']}: run again, since the tracer lost {lost}")
        else:
            if line["variant"] == "healthy":
                prepare.say(f"healthy {line['name']}: run in {line['seconds']:.1f} s")
            yield line


def _judge(runs: Sequence[Run], recorded: Path, output: Path) -> Iterator[Judged]:
    """Cut, judge and save each run."""
    try:
        whole = FullRecording(recorded)
    except (OSError, ValueError) as error:
        raise ProgramFailed(f"the guest left no whole recording: {error}") from error
    for one in runs:
        if one.name == MOCK_NAME:
            place = recorded / MOCK
            head = json.loads((place / HEAD).read_text(encoding="utf-8"))
            judged = check.examine_mock(one, from_guest(head, (place / RECORDS).read_bytes()))
        else:
            judged = check.examine(one, whole.cut(one), BY_NAME.get(one.name))
        if one.variant != "healthy" or judged.complaints:
            place = output / one.name
            _save(judged, place if one.variant == "buggy" else place / one.variant)
        # The records are big and not needed any more.
        yield replace(judged, cut=None)


def _save(judged: Judged, directory: Path) -> None:
    if judged.cut is None:
        return
    judged.cut.write(directory)
    extra = {"t_stop": judged.cut.head["t_stop"], "complaints": judged.complaints}
    write_json(directory / "report.json", report(judged.verdict, (), extra))
