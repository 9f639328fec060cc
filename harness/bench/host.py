# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Host side of ``make bench``: two guests, one after the other, and a table.

Instructions are counted in a guest with one CPU; they repeat from run to run,
whatever else the host does. Times are taken in a guest with two, whose idle CPUs
do not leave the host's: else a wake-up would mean waking a thread of the host,
which costs more than all that is to be measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.bench import figures, show
from harness.bench.figures import Sample
from harness.bench.guest import LOOPS
from harness.docs import results
from harness.docs.results import Measurement
from harness.errors import BuildError, ExitStatus, GuestError, GuestSplat
from harness.vm import accel, kbuild, prepare
from harness.vm.machine import Vm
from harness.vm.options import disposable
from harness.vm.spec import Accel, Deadlines, Image, Variant, VmSpec
from harness.vm.wire import Kind

OUTPUT = prepare.SOURCE / "build/bench"
_SECONDS = 1200.0
_DEADLINES = Deadlines(boot=240.0, silence=180.0)
# The scheduler's tracepoints are on in all other guests; here they would be measured.
_UNTRACED = "trace_event="


class BenchFailed(GuestError):
    """A measurement could not be made."""

    label = "the bench cannot be run"


def instructions() -> VmSpec:
    """The guest that counts instructions."""
    return VmSpec(
        name="bench-instructions",
        cpus=1,
        icount=True,
        variant=Variant.PROD,
        cmdline=(_UNTRACED,),
        deadlines=_DEADLINES,
    )


def times() -> VmSpec:
    """The guest that takes times."""
    return VmSpec(
        name="bench-times",
        cpus=2,
        variant=Variant.PROD,
        cmdline=(_UNTRACED, "idle=poll"),
        deadlines=_DEADLINES,
    )


def run(output: Path, measured: Measurement | None = None) -> int:
    """The whole bench; the exit status says whether anything was lost."""
    output.mkdir(parents=True, exist_ok=True)
    (output / "report.json").unlink(missing_ok=True)
    loops = build_loops(output)
    image = prepare.guest_image()
    kbuild.ensure(prepare.SOURCE, image, Variant.PROD, prepare.say)
    choice = accel.choose(image)
    counted = measure(guest(instructions(), image, Accel.TCG), loops, figures.INSTRUCTIONS)
    timed = measure(guest(times(), image, choice.accel), loops, figures.TIMES)
    return conclude(output, counted, timed, about(image, choice.accel), measured)


def build_loops(output: Path) -> Path:
    """Compile loop.c for the guests. Raises BuildError."""
    target = output / "loops.so"
    source = Path(__file__).with_name("loop.c")
    argv = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(target), str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise BuildError(f"{source.name} does not compile", console=done.stderr)
    return target


def guest(spec: VmSpec, image: Image, accelerator: Accel) -> Vm:
    """A guest of that kind, not yet started."""
    return Vm(spec, image, accelerator, prepare.SOURCE / "build/vm" / spec.name, prepare.SOURCE)


def measure(vm: Vm, loops: Path, plan: Sequence[str]) -> list[Sample]:
    """Run a plan in a guest. Raises GuestError if it does not get to its end."""
    prepare.say(f"starting {vm.spec.name}")
    with disposable(vm):
        samples = _follow(vm, loops, plan)
        if splats := vm.splats():
            raise GuestSplat(splats[0].title, console=splats[0].text)
    return samples


def _follow(vm: Vm, loops: Path, plan: Sequence[str]) -> list[Sample]:
    prepare.say(f"{vm.spec.name} is up after {vm.boot_seconds:.1f} s; {len(plan)} measurements")
    argv = ["python3", "-m", "harness.bench.guest"]
    command = vm.popen(argv, timeout=_SECONDS, env={LOOPS: str(loops)}, cwd=str(prepare.SOURCE))
    command.send("".join(f"{line}\n" for line in plan).encode())
    command.close_stdin()
    parts: dict[Kind, list[bytes]] = {Kind.STDOUT: [], Kind.STDERR: []}
    for kind, data in command.stream():
        parts[kind].append(data)
    if command.rc:
        complaint = b"".join(parts[Kind.STDERR]).decode(errors="replace").strip()
        what = complaint.splitlines()[-1] if complaint else f"exit status {command.rc}"
        raise BenchFailed(what, console=f"{complaint}\n{vm.console_tail()}")
    told = (json.loads(line) for line in b"".join(parts[Kind.STDOUT]).splitlines())
    return [Sample(sample["line"], sample["figures"]) for sample in told]


def conclude(
    output: Path,
    counted: Sequence[Sample],
    timed: Sequence[Sample],
    facts: dict[str, Any],
    measured: Measurement | None = None,
) -> int:
    """Judge, print, leave the report. A missed goal is red, what was lost fails."""
    table = figures.rows(counted, timed)
    samples = [*counted, *timed]
    found = figures.faults(samples)
    text = json.dumps(figures.report(table, samples, found, facts), indent=1, ensure_ascii=False)
    (output / "report.json").write_text(f"{text}\n", encoding="utf-8")
    shown = show.table(table)
    Console(highlight=False).print(shown)
    if measured:
        measured.write(facts["guest kernel"], results.markdown(shown))
    print(f"left in {output}: report.json")
    for fault in found:
        print(f"kfabric: {fault}", file=sys.stderr)
    return ExitStatus.TEST_FAILED if found else ExitStatus.OK


def about(image: Image, accelerator: Accel) -> dict[str, Any]:
    """What the figures belong to."""
    return {
        "guest kernel": image.release,
        "accelerator of the times": accelerator.name,
        "qemu": _first_line(["qemu-system-x86_64", "--version"]),
        "kfabric": _first_line(
            ["git", "-C", str(prepare.SOURCE), "describe", "--always", "--dirty"]
        ),
    }


def _first_line(argv: list[str]) -> str:
    """The first line that a command prints; empty if it cannot be run."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0]
