# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""gdb on a replayed guest, which runs to a moment of an execution and stops there."""

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path

from kfabric.errors import SetupError
from kfabric.replay import frames, symbols
from kfabric.replay.execution import MODULES, OUT, Execution
from kfabric.vm import prepare, tools

PROGRAM = "gdb"
_SETTINGS = (
    "set pagination off",
    "set confirm off",
    "set verbose off",
    "set remotetimeout 3600",
    "set tcp connect-timeout 60",
    # It may abort behind the outermost frame of an idle CPU, which is in memory that was freed.
    "maintenance set internal-error quit yes",
    "maintenance set internal-error corefile no",
)
_SILENT = ("set logging file /dev/null", "set logging redirect on", "set logging enabled on")
"""Otherwise gdb prints a line for each section of each module."""
_HERE = "the guest stands here"
_FRAMES = 40
_FRAME = re.compile(r"#\d+ .*")
_OF_A_PROCESS = re.compile(r"#\d+ +0x0000")
_TRACER = re.compile(
    r"#\d+ .*\b(?:ktime_get|bpf_|trace_|kprobe_|kretprobe_|aggr_|__bpf_|__traceiter_|perf_|do_int3"
    r"|exc_int3|asm_exc_int3|rethook_|arch_rethook_|ftrace_)"
)

_HIDING = ("arch_rethook_trampoline", "__kretprobe_trampoline")
_HIDDEN = "the callers are hidden by a probe of this function's return\n"
"""Such a probe puts one of these in the place of the return address."""
_INNER = "the innermost {} frames are the tracer's\n"
_OF_A_MODULE = re.compile(r"#\d+ .* at .*:\d+\n")
"""Only modules have lines of source, and none of their functions is the outermost one."""
_UNKNOWN = "the callers of this function are not known\n"


@dataclass(frozen=True)
class Stop:
    """A breakpoint at a function.

    Attributes:
        address: of its first instruction.
        passed: calls from here on at which the guest does not stop.
    """

    address: int
    passed: int

    def commands(self) -> list[str]:
        """gdb's, which run the guest there; a hardware breakpoint does not change the guest.

        gdb does not notice a breakpoint where the guest already stands.
        """
        passed = f"{self.passed} - ($pc == {self.address:#x})"
        return [f"hbreak *{self.address:#x}", f"ignore $bpnum {passed}", "continue"]


def connecting(execution: Execution, place: Path, socket: Path) -> list[str]:
    """Write the symbols into a directory; gdb's commands that read them and connect.

    Raises SetupError.
    """
    tools.install(prepare.SOURCE, "replay", "gdb cannot be installed")
    about = execution.about
    programs = symbols.programs(execution.kallsyms())
    callers = frames.debug_frame(list(frames.rows(Path(about.kernel), about.release)))
    callers += frames.debug_frame(frames.of_programs(programs))
    functions = symbols.functions(execution.kallsyms())
    (place / symbols.FILE).write_bytes(symbols.elf(functions, callers, programs))
    loaded = symbols.modules(execution.directory / OUT, execution.directory / MODULES)
    reading = [*_SILENT, *(one.command() for one in loaded), "set logging enabled off"]
    return [*_SETTINGS, f'file "{place / symbols.FILE}"', *reading, f"target remote {socket}"]


def argv(commands: Iterable[str], batch: bool) -> list[str]:
    """The command line of gdb."""
    words = [PROGRAM, "-q", "-nx", *(["-batch"] if batch else [])]
    return [*words, *(word for command in commands for word in ("-ex", command))]


def look(commands: Sequence[str], stop: Stop, seconds: float) -> str:
    """Replay to a stop; the functions that the guest is in, the innermost first.

    Returns:
        No text if the guest came to its end before.

    Raises SetupError.
    """
    looking = [f"echo {_HERE}\\n", "output/x $pc", "echo \\n", f"backtrace {_FRAMES}"]
    text = _run([*commands, *stop.commands(), *looking], seconds)
    before, _, after = text.partition(f"{_HERE}\n")
    place, _, found = after.partition("\n")
    if not found.startswith("#0"):
        raise SetupError("gdb did not get there", console=before[-2000:])
    lines = list(_frames(found))
    if lines and _OF_A_MODULE.fullmatch(lines[-1]):
        lines.append(_UNKNOWN)
    return "".join(lines) if int(place, 16) == stop.address else ""


def _frames(text: str) -> Iterator[str]:
    """The lines of the kernel's frames; gdb cannot follow those of a process."""
    for line in text.splitlines(keepends=True):
        if _OF_A_PROCESS.match(line) or not _FRAME.match(line):
            return
        yield line


def without_tracer(execution: Execution, found: str) -> str:
    """The frames without the innermost ones, in which a probe notes an event."""
    known = symbols.functions(execution.kallsyms())
    hiding = tuple(f" {at:#x} in " for name, at in known if name in _HIDING)
    lines = found.splitlines(keepends=True)
    ours = list(dropwhile(_TRACER.match, lines)) or lines
    seen = list(takewhile(lambda line: not any(at in line for at in hiding), ours))
    inner = _INNER.format(len(lines) - len(ours)) if len(ours) < len(lines) else ""
    return "".join([inner, *seen, _HIDDEN if len(seen) < len(ours) else ""])


def _run(commands: Sequence[str], seconds: float) -> str:
    """Run gdb to its end; what it printed."""
    try:
        done = subprocess.run(
            argv(commands, batch=True),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"gdb has not ended after {seconds:g} s") from None
    return done.stdout
