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
from rich.text import Text

from kfabric.bench import figures, gate, pictures, plans
from kfabric.bench.figures import Row, Sample
from kfabric.bench.gate import Change
from kfabric.bench.guest import FI_TALK, IBV_FLOW, LOOPS
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

REPORT = "report.json"
REFERENCE = prepare.SOURCE / "tests/data/bench.toml"
"""What the gate compares with."""
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


def counting(image: Image) -> Vm:
    """The guest that counts instructions: one CPU, not faster on a faster host."""
    options = {"cpus": 1, "icount": True, "cmdline": (_UNTRACED,)}
    return guest(image, Accel.TCG, "bench-instructions", **options)


def run(output: Path, measured: Measurement | None = None) -> int:
    """Run the whole bench; the exit status says whether any result was lost or wrong."""
    (output / REPORT).unlink(missing_ok=True)
    loops, image = _prepare(output)
    choice = accel.choose(image)
    timing = guest(image, choice.accel, "bench-times", cpus=2, cmdline=(_UNTRACED, "idle=poll"))
    counted = measure(counting(image), loops, plans.INSTRUCTIONS)
    timed = measure(timing, loops, plans.TIMES)
    about = {
        "guest kernel": image.release,
        "accelerator of the times": choice.accel.name,
        **tool_versions(),
    }
    return conclude(output, counted, timed, about, measured)


def _prepare(output: Path) -> tuple[Path, Image]:
    """What the guests need: loop.c compiled, and the image, for which the modules are built."""
    loops = build_loops(output)
    image = prepare.guest_image()
    kbuild.ensure(prepare.SOURCE, image, Variant.PROD, prepare.say)
    return loops, image


def check(output: Path, update: bool) -> int:
    """Count what operations take, and compare it with the tree's reference, or replace that.

    Args:
        output: an existing directory for report.json.
        update: replace the reference.

    Returns:
        The exit status: that of a failed test if a figure has changed by more than the limit,
        NOT_VERIFIED if the reference is of another kernel.
    """
    loops, image = _prepare(output)
    samples = measure(counting(image), loops, gate.plan())
    found = figures.faults(samples)
    counted = gate.Reference(image.release, gate.measured(samples))
    _leave(output, {**counted.report(), "faults": found, "samples": figures.listed(samples)})
    if found:
        return _tell(found)
    if update:
        counted.save(REFERENCE)
        print(f"written: {relative(REFERENCE)}")
        return ExitStatus.OK
    return judge(gate.Reference.load(REFERENCE), counted)


def judge(before: gate.Reference, after: gate.Reference) -> int:
    """Print what has changed; the exit status is that of :func:`check`."""
    changes = gate.changes(before.figures, after.figures)
    tables.show(Console(highlight=False), changes_table(changes))
    if before.kernel != after.kernel:
        print(f"not judged: counted on {before.kernel} before, on {after.kernel} now")
        return ExitStatus.NOT_VERIFIED
    passed = sum(change.passes for change in changes)
    print(f"{passed} of {len(changes)} figures are within {gate.LIMIT:.0%} of before")
    return ExitStatus.OK if passed == len(changes) else ExitStatus.TEST_FAILED


def build_loops(output: Path) -> Path:
    """Compile loop.c and the other libraries' programs for the guests. Raises BuildError."""
    target = output / "loops.so"
    includes = [f"-I{prepare.SOURCE / place}" for place in ("kmod/include/uapi", "examples")]
    _compile("loop.c", target, "-shared", "-fPIC", *includes)
    _compile("fi_talk.c", output / FI_TALK, "-lfabric")
    _compile("ibv_flow.c", output / IBV_FLOW, "-libverbs")
    return target


def _compile(name: str, target: Path, *options: str) -> None:
    source = Path(__file__).with_name(name)
    argv = ["gcc", "-O2", "-o", str(target), str(source), *options]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise BuildError(f"{name} does not compile", console=done.stderr)


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
        met, style = _MET[row.met] if row.repeats else ("not repeatable", "yellow")
        value = f"{row.measured:.{3 if row.measured < 100 else 0}f}" if row.repeats else ""
        goal = "" if row.goal is None else f"{'≥' if row.at_least else '≤'} {row.goal:g}"
        again = f"A/A {row.again:.3f} {row.modes}" if row.again else ""
        raw = f"{row.raw}; {again}" if again else row.raw
        shown.add_row(row.what, value, goal, met, Text(raw), style=style)
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
    report = figures.report(rows, samples, found, about)
    _leave(output, {**report, "figures": gate.measured(counted)})
    shown = table(rows)
    tables.show(Console(highlight=False), shown)
    if measured:
        measured.write(about["guest kernel"], results.markdown(shown))
        pictures.write(pictures.COSTS, pictures.costs(rows))
    print(f"left in {relative(output)}: {REPORT}")
    return _tell(found)


def changes_table(changes: Sequence[Change]) -> Table:
    """A line for each figure, with both numbers."""
    title = "what one operation takes: before, and now (docs/bench.md)"
    shown = framed(title, ("figure", "before", "now", "change"))
    shown.columns[0].no_wrap = False
    shown.add_column("", no_wrap=True)
    for change in changes:
        numbers = [_number(each) for each in (change.before, change.after)]
        ratio = "" if change.ratio is None else f"{change.ratio - 1:+.1%}"
        text, style = ("", "") if change.passes else ("CHANGED", "bold red")
        shown.add_row(change.title, *numbers, ratio, text, style=style)
    return shown


def _number(value: float | None) -> str:
    """A figure, or nothing if there is none."""
    return "" if value is None else f"{value:.{0 if value >= 1000 else 2}f}"


def _leave(output: Path, report: dict[str, Any]) -> None:
    text = json.dumps(report, indent=1, ensure_ascii=False)
    (output / REPORT).write_text(f"{text}\n", encoding="utf-8")


def _tell(found: Sequence[str]) -> int:
    """Print lost or wrong results; the exit status."""
    for fault in found:
        print(f"kfabric: {fault}", file=sys.stderr)
    return ExitStatus.TEST_FAILED if found else ExitStatus.OK
