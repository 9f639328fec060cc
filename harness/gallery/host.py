# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Host side of the gallery: a guest, all plays, a verdict on each, a table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.docs import results
from harness.docs.results import Measurement
from harness.errors import GuestError, GuestSplat
from harness.gallery import check, mock, show
from harness.gallery.check import Judged
from harness.gallery.cut import Play, Whole
from harness.gallery.entries import BY_NAME, HEALTHY
from harness.recording import HEAD, RECORDS
from harness.recording.records import Recording, from_guest
from harness.report.export import report, write_json
from harness.vm import prepare
from harness.vm.machine import Vm
from harness.vm.spec import Variant, VmSpec
from harness.vm.wire import Kind

_SECONDS = 1800.0
_MEMORY_MIB = 1024


class GalleryFailed(GuestError):
    """The plays could not be made."""

    label = "the gallery cannot be shown"


def run(
    names: Sequence[str], rounds: int, output: Path, measured: Measurement | None = None
) -> int:
    """Play, judge, print the table and leave the recordings; the exit status."""
    shutil.rmtree(output, ignore_errors=True)
    place = output / "guest"
    healthy = HEALTHY if rounds else ()
    plays = _play(names, healthy, rounds, place)
    console = Console(highlight=False)
    judged = list(_judge(plays, place / "out", output))
    tables = [
        show.entries(console, [one for one in judged if one.play.what != "healthy"]),
        show.healthy(console, [one for one in judged if one.play.what == "healthy"]),
    ]
    if measured:
        text = "\n".join(results.markdown(table) for table in tables if table.rows)
        measured.write(prepare.guest_image().release, text)
    show.complaints(console, judged)
    # Big, and each part that anybody wants to look at has been left on its own.
    shutil.rmtree(place / "out", ignore_errors=True)
    print(f"left in {output}: a recording of each entry, for 'kfabric report'")
    return check.status(judged)


def _play(names: Sequence[str], healthy: Sequence[str], rounds: int, place: Path) -> list[Play]:
    """Have everything played in a guest."""
    spec = VmSpec(name="gallery", memory_mib=_MEMORY_MIB, variant=Variant.PROD)
    with prepare.vm(spec, directory=place) as vm:
        prepare.say(f"guest is up after {vm.boot_seconds:.1f} s")
        argv = ["python3", "-m", "harness.gallery.guest", *names]
        argv += ["--rounds", str(rounds), "--healthy", *healthy]
        plays = [Play.of(line) for line in _lines(vm, argv) if "play" in line]
        if rounds:
            argv = ["python3", "-m", "harness.gallery.mock", "--rounds", str(rounds)]
            plays += [_mock_play(line) for line in _lines(vm, argv)]
        if splats := vm.splats():
            raise GuestSplat(splats[0].title, console=splats[0].text)
    return plays


def _mock_play(line: dict[str, Any]) -> Play:
    return Play(line["play"], line["name"], 0, 0, line["seconds"])


def _lines(vm: Vm, argv: list[str]) -> Iterator[dict[str, Any]]:
    """The lines that the guest's part prints. Raises GalleryFailed."""
    command = vm.popen(argv, timeout=_SECONDS, cwd=str(prepare.SOURCE))
    command.close_stdin()
    errors, rest = "", b""
    for kind, data in command.stream():
        if kind is Kind.STDERR:
            errors += data.decode(errors="replace")
            continue
        *lines, rest = (rest + data).split(b"\n")
        for text in lines:
            line: dict[str, Any] = json.loads(text)
            _tell(line)
            yield line
    if command.rc:
        what = errors.strip().splitlines()[-1] if errors.strip() else f"status {command.rc}"
        raise GalleryFailed(what, console=f"{errors}\n{vm.console_tail()}")


def _tell(line: dict[str, Any]) -> None:
    """Show the progress that takes long."""
    if "loaded" in line:
        prepare.say(f"tracer is loaded after {line['loaded']:.1f} s")
    elif "again" in line:
        lost = ", ".join(f"{n} {kind}" for kind, n in line["losses"].items() if n)
        prepare.say(f"{line['again']}: played again, since the tracer lost {lost}")
    elif line["play"] == "healthy":
        prepare.say(f"healthy {line['name']}: played in {line['seconds']:.1f} s")


def _judge(plays: Sequence[Play], recorded: Path, output: Path) -> Iterator[Judged]:
    """Cut, judge and leave each play."""
    try:
        whole = Whole(recorded)
    except (OSError, ValueError) as error:
        raise GalleryFailed(f"the guest left no whole recording: {error}") from error
    for play in plays:
        if play.name == mock.NAME:
            judged = check.examine_mock(play, _mock_recording(recorded / mock.PLACE))
        else:
            judged = check.examine(play, whole.cut(play), BY_NAME.get(play.name))
        if play.what != "healthy" or judged.complaints:
            place = output / play.name
            _leave(judged, place if play.what == "buggy" else place / play.what)
        # Big, and nobody looks at it any more.
        yield replace(judged, cut=None)


def _mock_recording(directory: Path) -> Recording:
    """What kfabric's probe left."""
    head = json.loads((directory / HEAD).read_text(encoding="utf-8"))
    return from_guest(head, (directory / RECORDS).read_bytes())


def _leave(judged: Judged, directory: Path) -> None:
    """Leave a play's recording and the verdict on it."""
    if judged.cut is None:
        return
    judged.cut.write(directory)
    extra = {"t_stop": judged.cut.head["t_stop"], "complaints": judged.complaints}
    write_json(directory / "report.json", report(judged.verdict, (), extra))
