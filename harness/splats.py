# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Finds kernel reports (warnings, lockdep, KASAN, panics, ...) in a console or dmesg text."""

import re
from dataclasses import dataclass

TAIL_LINES = 40
LEAD_LINES = 8
_WORDS_BEFORE = 5
"""Lines of WARN()'s message between the cut mark and the report's title."""

_REPORT_LINES = 120
"""A longer report has lost its end."""

_PREFIX = re.compile(r"^\s*(?:\[\s*\d+\.\d+\]\s*)?(?:\[\s*[TC]\d+\]\s*)?")
"""Time stamp and (CONFIG_PRINTK_CALLER) the task or CPU."""

_PATTERNS: tuple[tuple[str, str], ...] = (
    ("panic", r"Kernel panic - not syncing"),
    ("kasan", r"BUG: KASAN: "),
    ("kcsan", r"BUG: KCSAN: "),
    ("kfence", r"BUG: KFENCE: "),
    ("atomic-sleep", r"BUG: (sleeping function called from invalid|scheduling while atomic)"),
    ("soft-lockup", r"watchdog: BUG: soft lockup"),
    ("hard-lockup", r"(NMI )?watchdog: (BUG: hard|Watchdog detected hard) LOCKUP"),
    ("workqueue", r"BUG: workqueue lockup"),
    ("workqueue", r"workqueue: .* flushing "),
    ("page-state", r"(BUG: )?(Bad page state|page dumped because|Bad rss-counter state)"),
    ("bug", r"(BUG: |kernel BUG at |BUG \S+ \()"),
    ("rcu-usage", r"WARNING: suspicious RCU usage"),
    (
        "lockdep",
        r"WARNING: (possible|bad (unlock|contention)|inconsistent|\S+-safe -> |Nested lock"
        r"|.*locks? .*(freed|held))",
    ),
    ("lockdep", r"\[ BUG: "),
    ("softirq", r"softirq: huh, entered"),
    ("lockdep", r"INFO: (trying to register non-static key|lockdep is turned off)"),
    # Up to 6.18, and since 28ea295f941e (6.19).
    ("warning", r"WARNING: (CPU: \d+ PID: \d+|(\S+:\d+ )?at \S+.*, CPU#\d+: )"),
    ("rcu-stall", r"(rcu: )?INFO: rcu_\w+ (self-)?detected (expedited )?stall"),
    ("hung-task", r"INFO: task .* blocked for more than \d+ seconds"),
    ("oops", r"(Oops: |general protection fault|Unable to handle kernel|double fault:)"),
    ("oops", r"(invalid opcode|divide error|stack segment|int3): \d{4} \["),
    ("ubsan", r"UBSAN: "),
    ("refcount", r"refcount_t: "),
    ("list", r"list_(add|del) corruption"),
    ("debugobjects", r"ODEBUG: "),
    ("leak", r"(kmem_cache_destroy|Objects remaining in) "),
    ("netdev", r"unregister_netdevice: waiting for "),
    ("call-trace", r"Call Trace:"),
)
_SPLATS = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
_LONG = ("lockdep", "rcu-usage", "rcu-stall")
"""Reports that list locks between the title and the trace."""

_OWN_LIMIT = "mem_cgroup_out_of_memory+"
"""In the trace of a process that a cgroup's memory limit has killed."""

_KERNELS_RACES = (
    "data-race in ktime_get_mono_fast_ns / timekeeping_update",
    "data-race in hrtimer_wakeup / schedule_hrtimeout_range_clock",
)
"""Races of the kernel with itself, below a module that has called it.

The tracing clock is a latch, which KCSAN knows since 5c1806c41ce0 (6.13). A timer that ends a sleep
clears a pointer that the sleeper reads without a lock; it only decides whether it sleeps at all.
"""

_RACE_END = "Reported by Kernel Concurrency Sanitizer on:"
_IN_MODULE = re.compile(r"\+0x[0-9a-f]+/0x[0-9a-f]+ \[\w+\]$", re.M)
"""A line of a stack whose function is a module's."""

_RULE = re.compile(r"={20,}$")
"""KCSAN's line before and after its reports, which have no "Call Trace:"."""
_TRACE = re.compile(r"(Call Trace:|CPU: \d+ PID: \d+|Modules linked in:)")
_END = re.compile(r"---\[ end (trace|Kernel panic)|</TASK>")


@dataclass(frozen=True)
class Splat:
    """One report of the kernel about itself."""

    kind: str
    title: str
    """Its first line, without the time stamp."""
    line: int
    """Number of that line, from 1."""
    text: str
    """The whole report; its end is a guess if it has no end mark."""

    def __str__(self) -> str:
        return f"kernel splat ({self.kind}): {self.title}\n{self.text}"


def unstamped(line: str) -> str:
    """A line of the console without its time stamp and indentation."""
    return _PREFIX.sub("", line)


def splats(text: str) -> list[Splat]:
    """Find each kernel report in a console or dmesg text, in order.

    Lines inside a report (its Oops line, its call trace) start no second one.
    """
    lines = [unstamped(line.rstrip("\r")) for line in text.split("\n")]
    found: list[Splat] = []
    number = past = 0
    while number < len(lines):
        kind = _classify(lines[number])
        if kind is None:
            number += 1
            continue
        end = _report_end(lines, number)
        body = "\n".join(lines[_report_start(lines, number, past) : end])
        if not _is_harmless(kind, body):
            found.append(Splat(kind, lines[number].strip(), number + 1, body))
        number = past = end
    return found


def _is_harmless(kind: str, report: str) -> bool:
    """Whether it is a cgroup at its limit, or a race without a module on either stack."""
    if kind == "call-trace":
        return _OWN_LIMIT in report
    title, _, stacks = report.partition("\n")
    return kind == "kcsan" and (
        title.endswith(_KERNELS_RACES) or (_RACE_END in stacks and not _IN_MODULE.search(stacks))
    )


def panic_title(text: str) -> str:
    """Why the kernel panicked, with the last report before it; empty if it did not."""
    match = re.search(r"Kernel panic - not syncing: ?(.*)", text)
    if not match:
        return ""
    reason = match.group(1).strip()
    before = [s.title for s in splats(text[: match.start()]) if s.kind != "call-trace"]
    return f"{reason} ({before[-1]})" if before else reason


def is_of_time(title: str) -> bool:
    """Whether a panic's title says only that something took long, as it may on a busy host."""
    return re.match(r"softlockup:|hung_task:|Hard LOCKUP|RCU Stall", title) is not None


def init_began(text: str) -> bool:
    """Whether the kernel has started its first process."""
    return "Run /init as init process" in text


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines of a console, without carriage returns."""
    return "\n".join(line.rstrip("\r") for line in text.rstrip().split("\n")[-lines:])


def excerpt(text: str) -> str:
    """The best evidence of a guest's end: its last report with a few lines before it."""
    starts = [splat.line for splat in splats(text)]
    if not starts:
        return tail(text)
    # A panic prints its own report directly after that of its cause.
    first = next((line for line in starts[-2:] if starts[-1] - line < _REPORT_LINES), starts[-1])
    lines = text.rstrip().split("\n")[max(0, first - 1 - LEAD_LINES) :]
    return tail("\n".join(lines), _REPORT_LINES)


def _classify(line: str) -> str | None:
    for kind, pattern in _SPLATS:
        if pattern.match(line) or (kind == "panic" and pattern.search(line)):
            return kind
    return None


def _report_start(lines: list[str], title: int, past: int) -> int:
    """The line after the report's cut mark, searched for from line ``past``."""
    for i in range(title - 1, max(past, title - 1 - _WORDS_BEFORE) - 1, -1):
        if "[ cut here ]" in lines[i]:
            return i + 1
    return title


def _report_end(lines: list[str], start: int) -> int:
    """The line after the report that starts at ``start``.

    A report ends at its end mark, or KCSAN's line. One without a mark (refcount, ODEBUG and
    one-liners) is its first line, unless a trace follows directly.
    """
    limit = min(len(lines), start + _REPORT_LINES)
    kind = _classify(lines[start])
    if kind == "kcsan":
        return next((i for i in range(start, limit) if _RULE.match(lines[i])), limit)
    reach = min(limit, start + 12)
    if kind in _LONG:
        reach = next((i for i in range(start + 1, limit) if _starts_new(lines[i])), limit)
    head = next((i for i in range(start, reach) if _TRACE.match(lines[i])), None)
    if head is None:
        return start + 1
    for i in range(head, limit):
        if _END.search(lines[i]):
            return _past_end_marks(lines, i + 1)
    return limit


def _past_end_marks(lines: list[str], start: int) -> int:
    """Skip the register dump and end marks that follow a task's trace."""
    last = start
    for i in range(start, min(len(lines), start + 40)):
        if _END.search(lines[i]):
            last = i + 1
        elif _starts_new(lines[i]):
            break
    return last


def _starts_new(line: str) -> bool:
    kind = _classify(line)
    return kind is not None and kind not in ("call-trace", "panic", "oops")
