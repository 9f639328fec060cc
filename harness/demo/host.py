# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Host side of the demo: guest up, games played, verdict out, files left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.demo import judge, show
from harness.demo.job import Fault
from harness.errors import ExitStatus, GuestError, GuestSplat, KfabricError, ModuleLoadError
from harness.recording import HEAD, RECORDS
from harness.report import PAGE, STACKS, TIMELINE, TRACE, Material, write
from harness.report.export import report, write_json
from harness.report.source import open_source
from harness.verdict.verdict import Outcome
from harness.vm import prepare
from harness.vm.machine import Vm
from harness.vm.spec import Variant, VmSpec
from harness.vm.wire import Kind

_PLAY_SECONDS = 300.0
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
}


class NotVerified(KfabricError):
    """There is no recording to judge."""

    status = ExitStatus.NOT_VERIFIED
    label = "NOT VERIFIED"


class PlayFailed(GuestError):
    """The guest's part of the demo could not be played to its end."""

    label = "the demo cannot be played"


class Run:
    """One run of the demo: what it was told, and how long it took."""

    def __init__(self, fault: Fault | None, messages: int, output: Path | None) -> None:
        """Begin the clock (at the user's command, if the environment tells when)."""
        self.began = float(os.environ.get(BEGAN) or time.time())
        self.fault = fault
        self.messages = messages
        self.output = (output or prepare.SOURCE / "build/demo").resolve()
        self.console = Console(stderr=True)
        self.fresh = False
        self.boot_seconds = 0.0
        self.accel = ""

    def log(self, line: str) -> None:
        """Show a step of the set-up; remember that there was something to build."""
        self.fresh = self.fresh or line.startswith(("image: ", "modules: "))
        prepare.say(line)

    def guest(self) -> Vm:
        """The guest, not yet started. Its console is ours to leave."""
        variant = Variant.TEST if self.fault else Variant.PROD
        spec = VmSpec(name="demo", memory_mib=_MEMORY_MIB, variant=variant)
        return prepare.vm(spec, directory=self.output, log=self.log)

    def clean(self) -> None:
        """Remove what an earlier run left, so that nothing old looks new."""
        for name in _LEFT:
            (self.output / name).unlink(missing_ok=True)
        shutil.rmtree(self.output / _OUT, ignore_errors=True)

    def limits(self, used_mib: int) -> list[show.Limit]:
        """What the demo promises about itself."""
        what, limit = (
            ("make demo, first time", _FRESH_SECONDS)
            if self.fresh
            else ("make demo, again", _AGAIN_SECONDS)
        )
        return [
            show.Limit(what, time.time() - self.began, limit, "s"),
            show.Limit(
                f"QEMU started → first command ({self.accel})",
                self.boot_seconds,
                _BOOT_SECONDS,
                "s",
            ),
            show.Limit(
                f"guest memory (in use at the end: {used_mib} MiB)",
                _MEMORY_MIB,
                _MEMORY_LIMIT_MIB,
                "MiB",
            ),
        ]


def run(fault: Fault | None, messages: int, output: Path | None) -> int:
    """The whole demo. Returns the exit status; raises KfabricError."""
    told = Run(fault, messages, output)
    told.clean()
    with told.guest() as vm:
        told.boot_seconds, told.accel = vm.boot_seconds, vm.accel.name
        prepare.say(f"guest is up after {vm.boot_seconds:.1f} s")
        steps = show.Steps(told.console, messages)
        with steps.shown():
            _play(told, vm, steps)
        splats = vm.splats()
        release, packages = vm.image.release, _packages(vm)
    if splats:
        raise GuestSplat(
            splats[0].title, f"see {told.output / 'console.log'}", console=splats[0].text
        )
    judged = _judge(told)
    versions = _versions(judged.account.facts, release)
    limits = told.limits(int(judged.account.facts.get("memory_used_mib", 0)))
    _leave(told, judged, limits, versions, packages)
    return _finish(told, judged, limits)


def _play(told: Run, vm: Vm, steps: show.Steps) -> None:
    """Run the guest's part and follow it."""
    argv = ["python3", "-m", "harness.demo.guest", "--messages", str(told.messages)]
    argv += ["--fault", told.fault] if told.fault else []
    command = vm.popen(argv, timeout=_PLAY_SECONDS)
    command.close_stdin()
    errors: list[str] = []
    rest = b""
    for kind, data in command.stream():
        if kind is Kind.STDERR:
            errors.append(data.decode(errors="replace"))
            continue
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            try:
                _follow(json.loads(line), steps)
            except json.JSONDecodeError:
                errors.append(f"{line.decode(errors='replace')}\n")
    if command.rc:
        text = "".join(errors).strip()
        what = text.splitlines()[-1] if text else f"exit status {command.rc}"
        raise PlayFailed(
            what, f"see {told.output / 'console.log'}", console=f"{text}\n{vm.console_tail()}"
        )


def _follow(told: dict[str, Any], steps: show.Steps) -> None:
    """One line of the guest's progress."""
    if "step" in told:
        steps.step(told["step"])
    elif "messages" in told:
        steps.messages(told["messages"])
    elif told.get("failed") == "ProbeError":
        raise NotVerified(told["why"])
    elif "failed" in told:
        what, _, log = told["why"].partition("\n")
        raise ModuleLoadError(what, console=log)


def _judge(told: Run) -> judge.Judged:
    """Read what the guest left, and judge it."""
    try:
        account, recording = judge.read(told.output / _OUT)
    except (OSError, ValueError) as error:
        raise NotVerified(f"the guest left no whole recording: {error}") from error
    return judge.pronounce(account, recording)


def _leave(
    told: Run,
    judged: judge.Judged,
    limits: list[show.Limit],
    versions: dict[str, str],
    packages: dict[str, str],
) -> None:
    """Leave recording, page, traces, report and versions; the console is there already."""
    for name in (HEAD, RECORDS):
        shutil.copyfile(told.output / _OUT / name, told.output / name)
    source = open_source(told.output)
    extra = {
        "t_stop": source.head.t_stop,
        "names": dict(judged.rules.names),
        "fault": told.fault,
        "messages": told.messages,
        "complaints": judged.complaints,
        "limits": [
            {
                "what": row.what,
                "measured": round(row.measured, 2),
                "limit": row.limit,
                "unit": row.unit,
                "kept": row.kept,
            }
            for row in limits
        ],
        "guest": dict(judged.account.facts),
        "versions": versions,
    }
    rows = [row for _, table in judged.tables for row in table]
    write_json(told.output / "report.json", report(judged.verdict, rows, extra))
    write(
        Material(source, judged.ledger, judged.verdict, judged.rules.names, about=versions),
        told.output,
    )
    write_json(told.output / "versions.json", {**versions, "guest packages": packages})


def _finish(told: Run, judged: judge.Judged, limits: list[show.Limit]) -> int:
    """Print tables and verdict; the exit status."""
    out = Console(highlight=False)
    show.tables(out, judged)
    show.limits(out, limits)
    print(f"left in {told.output}: {', '.join(_LEFT)}")
    show.verdict(out, judged)
    status = _STATUS[judged.verdict.outcome]
    if status is ExitStatus.OK and told.fault:
        print(f"the fault that was injected ({told.fault}) was not found", file=sys.stderr)
        return ExitStatus.TEST_FAILED
    if status is ExitStatus.OK and judged.complaints:
        return ExitStatus.TEST_FAILED
    return status


def _versions(facts: Any, release: str) -> dict[str, str]:
    """The exact versions of all that took part."""
    versions = {"guest kernel": release, **facts.get("versions", {})}
    versions["python"] = sys.version.split()[0]
    versions["qemu"] = _first_line(["qemu-system-x86_64", "--version"])
    versions["kfabric"] = _first_line(
        ["git", "-C", str(prepare.SOURCE), "describe", "--always", "--dirty"]
    )
    return versions


def _packages(vm: Vm) -> dict[str, str]:
    """The Debian packages of the guest's image, with their versions."""
    facts: dict[str, dict[str, str]] = json.loads(vm.image.disk.with_name("image.json").read_text())
    return facts["packages"]


def _first_line(argv: list[str]) -> str:
    """The first line that a command prints; empty if it cannot be run."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0]
