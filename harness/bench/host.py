# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Host side of the bench: two guests, one after the other, and a table.

Instructions are counted in a guest with one CPU; they repeat from run to run whatever else the
host does. Times are taken in a guest with two CPUs whose idle loop polls, so that they stay on
the host's CPUs: otherwise each wake-up would include waking a thread of the host, which costs
more than the code under test.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kfabric.bench import figures
from kfabric.bench.figures import Row, Sample
from kfabric.bench.guest import LOOPS
from kfabric.demo.host import tool_versions
from kfabric.demo.show import framed
from kfabric.docs import results
from kfabric.docs.results import Measurement
from kfabric.errors import BuildError, ExitStatus
from kfabric.terminal import tables
from kfabric.terminal.arguments import relative
from kfabric.vm import accel, kbuild, prepare
from kfabric.vm.jobs import events
from kfabric.vm.machine import Vm
from kfabric.vm.options import disposable
from kfabric.vm.spec import Accel, Deadlines, Image, Variant, VmSpec

OUTPUT = prepare.SOURCE / "build/bench"
_SECONDS = 1200.0
_DEADLINES = Deadlines(boot=240.0, silence=180.0)
# Other guests enable the scheduler's tracepoints, which would be measured here.
_UNTRACED = "trace_event="
_MET = {True: ("yes", ""), False: ("MISSED", "bold red"), None: ("", "dim")}


def guest(image: Image, accelerator: Accel, name: str, **options: Any) -> Vm:
    """A guest of the bench, not yet started."""
    spec = VmSpec(name=name, variant=Variant.PROD, deadlines=_DEADLINES, **options)
    return Vm(spec, image, accelerator, prepare.SOURCE / "build/vm" / spec.name, prepare.SOURCE)


def run(output: Path, measured: Measurement | None = None) -> int:
    """Run the whole bench; the exit status says whether any result was lost or wrong."""
    output.mkdir(parents=True, exist_ok=True)
    (output / "report.json").unlink(missing_ok=True)
    loops = build_loops(output)
    image = prepare.guest_image()
    kbuild.ensure(prepare.SOURCE, image, Variant.PROD, prepare.say)
    choice = accel.choose(image)
    counting = guest(
        image, Accel.TCG, "bench-instructions", cpus=1, icount=True, cmdline=(_UNTRACED,)
    )
    timing = guest(image, choice.accel, "bench-times", cpus=2, cmdline=(_UNTRACED, "idle=poll"))
    counted = measure(counting, loops, figures.INSTRUCTIONS)
    timed = measure(timing, loops, figures.TIMES)
    about = {
        "guest kernel": image.release,
        "accelerator of the times": choice.accel.name,
        **tool_versions(),
    }
    return conclude(output, counted, timed, about, measured)


def build_loops(output: Path) -> Path:
    """Compile loop.c for the guests. Raises BuildError."""
    target = output / "loops.so"
    source = Path(__file__).with_name("loop.c")
    argv = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(target), str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise BuildError(f"{source.name} does not compile", console=done.stderr)
    return target


def measure(vm: Vm, loops: Path, plan: Sequence[str]) -> list[Sample]:
    """Run a plan in a guest. Raises GuestError if a line of it fails."""
    prepare.say(f"starting {vm.spec.name}")
    with disposable(vm):
        seconds = vm.boot_seconds
        prepare.say(f"{vm.spec.name} is up after {seconds:.1f} s; {len(plan)} measurements")
        argv, env = ["kfabric.bench.guest"], {LOOPS: str(loops)}
        samples = [Sample(**told) for told in events(vm, argv, _SECONDS, "\n".join(plan), env)]
        vm.require_no_splat()
    return samples


def table(rows: Sequence[Row]) -> Table:
    """One line for each row, with the figures that it was computed from."""
    title = "the cost of a wait: ratios within one guest (docs/bench.md)"
    shown = framed(title, ("what", "measured", "goal"))
    shown.columns[0].no_wrap = False
    shown.add_column("met?", no_wrap=True)
    shown.add_column("from")
    for row in rows:
        met, style = _MET[row.met]
        value = f"{row.measured:.3f}" if row.measured < 100 else f"{row.measured:.0f}"
        goal = "" if row.goal is None else f"{'≥' if row.at_least else '≤'} {row.goal:g}"
        shown.add_row(row.what, value, goal, met, row.raw, style=style)
    return shown


def conclude(
    output: Path,
    counted: Sequence[Sample],
    timed: Sequence[Sample],
    about: dict[str, Any],
    measured: Measurement | None = None,
) -> int:
    """Print the table, leave the report; the exit status.

    A missed goal is shown in red and is not a failure; a lost or wrong result is one.
    """
    rows = figures.rows(counted, timed)
    samples = [*counted, *timed]
    found = figures.faults(samples)
    text = json.dumps(figures.report(rows, samples, found, about), indent=1, ensure_ascii=False)
    (output / "report.json").write_text(f"{text}\n", encoding="utf-8")
    shown = table(rows)
    tables.show(Console(highlight=False), shown)
    if measured:
        measured.write(about["guest kernel"], results.markdown(shown))
    print(f"left in {relative(output)}: report.json")
    for fault in found:
        print(f"kfabric: {fault}", file=sys.stderr)
    return ExitStatus.TEST_FAILED if found else ExitStatus.OK
