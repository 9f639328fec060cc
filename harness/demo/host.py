# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Host side of the demo: boots a guest, follows the demo there, judges it, leaves the files."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from kfabric.demo import judge, show
from kfabric.demo.job import Fault
from kfabric.errors import ExitStatus, GuestSplat, KfabricError, ModuleLoadError
from kfabric.recording import HEAD, RECORDS
from kfabric.report import PAGE, STACKS, TIMELINE, TRACE, Material, write
from kfabric.report.export import report, write_json
from kfabric.report.source import open_source
from kfabric.terminal.arguments import relative, results_directory
from kfabric.verdict.verdict import Outcome
from kfabric.vm import prepare, source
from kfabric.vm.jobs import events
from kfabric.vm.machine import Vm
from kfabric.vm.spec import Variant, VmSpec

_SECONDS = 300.0
_FRESH_SECONDS, _AGAIN_SECONDS, _BOOT_SECONDS = 480.0, 75.0, 10.0
_MEMORY_MIB, _MEMORY_LIMIT_MIB = 1024, 1536
_OUT = "out"
_LEFT = (
    PAGE, "report.json", TIMELINE, TRACE, STACKS, HEAD, RECORDS, "versions.json", "console.log",
)  # fmt: skip
BEGAN = "KFABRIC_BEGAN"
"""Environment: when the user's command began, in seconds of the epoch."""

_STATUS = {
    Outcome.VERIFIED: ExitStatus.OK,
    Outcome.FAULT: ExitStatus.FAULT_FOUND,
    Outcome.NOT_VERIFIED: ExitStatus.NOT_VERIFIED,
    Outcome.NOT_JUDGED: ExitStatus.NOT_VERIFIED,
}


class NotVerified(KfabricError):
    """There is no recording to judge."""

    status = ExitStatus.NOT_VERIFIED
    label = "NOT VERIFIED"


class Run:
    """One run of the demo: its options, and how long it takes."""

    def __init__(self, fault: Fault | None, messages: int, output: Path | None) -> None:
        self.began = float(os.environ.get(BEGAN) or time.time())
        self.fault = fault
        self.messages = messages
        self.output = results_directory(output, source.results() / "demo")
        self.hint = f"see {self.output / 'console.log'}"
        self.console = Console(stderr=True)
        self.fresh = False
        self.boot_seconds = 0.0
        self.accel = ""

    def log(self, line: str) -> None:
        """Print a step of the set-up; note whether anything had to be built."""
        self.fresh = self.fresh or line.startswith(("image: ", "modules: "))
        prepare.say(line)

    def guest(self) -> Vm:
        """The guest, not yet started; its console is one of the files to leave."""
        variant = Variant.TEST if self.fault else Variant.PROD
        spec = VmSpec(name="demo", memory_mib=_MEMORY_MIB, variant=variant)
        return prepare.vm(spec, directory=self.output, log=self.log)

    def clean(self) -> None:
        """Remove the files of an earlier run."""
        for name in _LEFT:
            (self.output / name).unlink(missing_ok=True)
        shutil.rmtree(self.output / _OUT, ignore_errors=True)

    def limits(self, used_mib: int) -> list[show.Limit]:
        """The limits of the demo itself, with the measurements."""
        what, limit = "make demo, again", _AGAIN_SECONDS
        if self.fresh:
            what, limit = "make demo, first time", _FRESH_SECONDS
        booting = f"QEMU started → first command ({self.accel})"
        memory = f"guest memory (in use at the end: {used_mib} MiB)"
        return [
            show.Limit(what, time.time() - self.began, limit, "s"),
            show.Limit(booting, self.boot_seconds, _BOOT_SECONDS, "s"),
            show.Limit(memory, _MEMORY_MIB, _MEMORY_LIMIT_MIB, "MiB"),
        ]


def run(fault: Fault | None, messages: int, output: Path | None) -> int:
    """Run the whole demo; the exit status. Raises KfabricError."""
    options = Run(fault, messages, output)
    options.clean()
    with options.guest() as vm:
        options.boot_seconds, options.accel = vm.boot_seconds, vm.accel.name
        prepare.say(f"guest is up after {vm.boot_seconds:.1f} s")
        steps = show.Steps(options.console, messages)
        with steps.display:
            _follow(options, vm, steps)
        splats = vm.splats()
        release = vm.image.release
        packages: dict[str, str] = json.loads(vm.image.disk.with_name("image.json").read_text())[
            "packages"
        ]
    if splats:
        raise GuestSplat(splats[0].title, options.hint, console=splats[0].text)
    judged = _judge(options)
    facts = judged.report.facts
    versions = {"guest kernel": release, **facts.get("versions", {})}
    versions |= {"python": sys.version.split()[0], **tool_versions()}
    limits = options.limits(int(facts.get("memory_used_mib", 0)))
    _leave(options, judged, limits, versions, packages)
    return _finish(options, judged, limits)


def _follow(options: Run, vm: Vm, steps: show.Steps) -> None:
    """Run the guest's part, and show its progress."""
    argv = ["kfabric.demo.guest", "--messages", str(options.messages)]
    argv += ["--fault", options.fault] if options.fault else []
    for event in events(vm, argv, _SECONDS, hint=options.hint):
        if "step" in event:
            steps.step(event["step"])
        elif "messages" in event:
            steps.messages(event["messages"])
        elif event.get("failed") == "ProbeError":
            raise NotVerified(event["why"])
        elif "failed" in event:
            what, _, log = event["why"].partition("\n")
            raise ModuleLoadError(what, console=log)


def _judge(options: Run) -> judge.Judged:
    """Read the guest's files, and judge them."""
    try:
        guest_report, recording = judge.read(options.output / _OUT)
    except (OSError, ValueError) as error:
        raise NotVerified(f"the guest left no whole recording: {error}") from error
    return judge.judge_run(guest_report, recording)


def _leave(
    options: Run,
    judged: judge.Judged,
    limits: list[show.Limit],
    versions: dict[str, str],
    packages: dict[str, str],
) -> None:
    """Write recording, page, traces, report and versions; the console is there already."""
    output = options.output
    for name in (HEAD, RECORDS):
        shutil.copyfile(output / _OUT / name, output / name)
    source = open_source(output)
    extra = {
        "t_stop": source.head.t_stop,
        "names": dict(judged.rules.names),
        "fault": options.fault,
        "messages": options.messages,
        "complaints": judged.complaints,
        "limits": [
            {**asdict(row), "measured": round(row.measured, 2), "kept": row.kept} for row in limits
        ],
        "guest": dict(judged.report.facts),
        "versions": versions,
    }
    rows = [row for _, table in judged.tables for row in table]
    write_json(output / "report.json", report(judged.verdict, rows, extra))
    names = judged.rules.names
    write(Material(source, judged.ledger, judged.verdict, names, about=versions), output)
    write_json(output / "versions.json", {**versions, "guest packages": packages})


def _finish(options: Run, judged: judge.Judged, limits: list[show.Limit]) -> int:
    """Print tables and verdict; the exit status."""
    out = Console(highlight=False)
    show.tables(out, judged)
    show.limits(out, limits)
    print(f"left in {relative(options.output)}: {', '.join(_LEFT)}")
    show.verdict(out, judged)
    status = _STATUS[judged.verdict.outcome]
    if status is ExitStatus.OK and options.fault:
        print(f"the fault that was injected ({options.fault}) was not found", file=sys.stderr)
        return ExitStatus.TEST_FAILED
    if status is ExitStatus.OK and judged.complaints:
        return ExitStatus.TEST_FAILED
    return status


def tool_versions() -> dict[str, str]:
    """The versions of QEMU and of this checkout; empty texts for tools that do not run."""
    commands = {
        "qemu": ["qemu-system-x86_64", "--version"],
        "kfabric": ["git", "-C", str(prepare.SOURCE), "describe", "--always", "--dirty"],
    }
    found = dict.fromkeys(commands, "")
    for name, argv in commands.items():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
            found[name] = done.stdout.partition("\n")[0]
    return found
