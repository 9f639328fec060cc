# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Names of kernel addresses and wait queues, and addresses of modules, by /proc's texts.

/proc/kallsyms has a hundred thousand lines, so its lines are searched and not parsed. The
kernel's own symbols come first, in order of their addresses.
"""

import mmap
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

_FAR = 1 << 20  # no symbol is longer
_THIS = "__this_module"  # a variable of each module
_EMPTY = "__key."


@dataclass(frozen=True, slots=True)
class Module:
    """A loaded module: the address of its code, and the size of all its memory.

    ``loading``: its init function has not returned.
    """

    name: str
    address: int
    size: int
    loading: bool = False

    def holds(self, address: int) -> bool:
        """Is the address in the memory after the start of the code?

        In 6.12 that is still all memory; in 7.3 code and variables are separate.
        """
        return self.address <= address < self.address + self.size


def parse_modules(text: str) -> dict[str, Module]:
    """Decode /proc/modules."""
    found = {}
    for line in text.splitlines():
        name, size, _, _, state, address, *_ = line.split()
        found[name] = Module(name, int(address, 16), int(size), state == "Loading")
    return found


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of the kernel or of a module (``module`` is empty for the kernel)."""

    address: int
    kind: str
    name: str
    module: str = ""

    @property
    def is_code(self) -> bool:
        """Is it a function?"""
        return self.kind in "tTwW"


def _parse(line: bytes) -> Symbol:
    address, kind, name, *module = line.decode().split()
    return Symbol(int(address, 16), kind, name, module[0].strip("[]") if module else "")


class Symbols:
    """The symbols of a kernel and its modules.

    Args:
        kallsyms: The text of /proc/kallsyms.
        modules: The text of /proc/modules.
    """

    def __init__(self, kallsyms: bytes, modules: str = "") -> None:
        self._lines = kallsyms.split(b"\n")
        while self._lines and not self._lines[-1]:
            self._lines.pop()
        first = kallsyms.find(b"\t[")
        self._own = kallsyms.count(b"\n", 0, first) if first >= 0 else len(self._lines)
        self._text = kallsyms
        self.modules = parse_modules(modules)

    def is_loading(self, name: str) -> bool:
        """Has the init function of a module not returned yet?"""
        return name in self.modules and self.modules[name].loading

    def address(self, name: str, module: str = "") -> int | None:
        """A symbol's address, the kernel's own first. None: unknown, or hidden."""
        # Plain searches, since a regular expression takes an emulated guest ten times as long.
        for end in (f"\t[{module}]\n",) if module else ("\n", "\t["):
            if (found := self._text.find(f" {name}{end}".encode())) >= 0:
                start = self._text.rfind(b"\n", 0, found) + 1
                return int(self._text[start:found].split()[0], 16) or None
        return None

    def span(self, name: str) -> tuple[int, int] | None:
        """From a symbol of the kernel itself to the next one. None: unknown, or hidden."""
        if not (start := self.address(name)):
            return None
        after = bisect_right(self._lines, b"%016x\xff" % start, hi=self._own)
        return start, _parse(self._lines[after]).address if after < self._own else start

    def find(self, address: int) -> Symbol | None:
        """The last symbol at or before an address, if it is near."""
        index = bisect_right(self._lines, b"%016x\xff" % address, hi=self._own)
        best = _parse(self._lines[index - 1]) if index else None
        if index == self._own:
            index = bisect_right(self._of_modules, address, key=lambda symbol: symbol.address)
            if index and not self._in_module(address, index):
                return None
            best = self._of_modules[index - 1] if index else best
        return best if best and address - best.address < _FAR else None

    def _in_module(self, address: int, index: int) -> bool:
        """Is an address before the module symbol ``index`` in the memory of the one before it?"""
        best = self._of_modules[index - 1]
        module = self.modules.get(best.module)
        if module and module.holds(best.address) and module.holds(address):
            return True
        for follower in self._of_modules[index : index + 1]:
            # Between two parts of a module there may be others.
            near = module and follower.address - best.address <= module.size
            if near and follower.module == best.module:
                return True
        # The length of a last symbol is unknown; each part ends on a page.
        return address <= best.address | (mmap.PAGESIZE - 1)

    def name(self, address: int) -> str:
        """An address as a stack's frame: ``symbol+0x12 [module]``."""
        symbol = self.find(address)
        if symbol is None:
            return f"{address:#x}"
        distance = address - symbol.address
        text = f"{symbol.name}+{distance:#x}" if distance else symbol.name
        return f"{text} [{symbol.module}]" if symbol.module else text

    def variable(self, address: int) -> str:
        """The name of the variable at an address, or empty."""
        symbol = self.find(address)
        return "" if symbol is None or symbol.is_code else self.name(address)

    @cached_property
    def _of_modules(self) -> Sequence[Symbol]:
        """All modules' symbols, in order of their addresses.

        Without lockdep the class of a lock is an empty variable, which comes before the
        variable that has its address.
        """
        symbols = map(_parse, self._lines[self._own :])
        return tuple(sorted(symbols, key=lambda s: (s.address, not s.name.startswith(_EMPTY))))

    def range_of(self, name: str, *, code: bool) -> tuple[int, int] | None:
        """From a module's first function or variable to the end of its last one's page."""
        module = self.modules.get(name)
        if module is None:
            return None
        # Init code and data are elsewhere, and freed after loading.
        near = module.holds
        if not code and (variables := self.address(_THIS, name)) and not near(variables):
            near = Module(name, variables - _FAR, 2 * _FAR).holds
        wanted = [
            symbol.address
            for symbol in self._of_modules
            if symbol.module == name
            and symbol.is_code is code
            and symbol.kind not in "rR"
            and near(symbol.address)
        ]
        if not wanted:
            return None
        # The length of the last symbol is unknown; each part ends on a page.
        return min(wanted), (max(wanted) | (mmap.PAGESIZE - 1)) + 1


class History:
    """The symbols of the kernel and of every module that was seen during a trace.

    The memory of a module that is gone may become another module's. If an address has had
    several names, none of them is certain.
    """

    def __init__(self, first: Symbols) -> None:
        self._seen = [first]

    def add(self, symbols: Symbols) -> None:
        """The modules are different now."""
        self._seen.append(symbols)

    def name(self, address: int) -> str:
        """An address as a stack's frame; a number if its name is not known."""
        names = {symbols.name(address) for symbols in self._seen if symbols.find(address)}
        return names.pop() if len(names) == 1 else f"{address:#x}"

    def variable(self, address: int) -> str:
        """The name of the variable at an address; empty if it is not known."""
        names = {symbols.variable(address) for symbols in self._seen if symbols.find(address)}
        return names.pop() if len(names) == 1 else ""


# Functions between a tracepoint and its program; above them is the program itself.
_TRACING = re.compile(r"^(bpf_trace_run|__bpf_trace_|__traceiter_)")


def below_tracepoint(frames: Sequence[str]) -> tuple[str, ...]:
    """The frames of a stack without those of the tracer's program, if it has any."""
    tracing = [n for n, frame in enumerate(frames) if _TRACING.match(frame)]
    return tuple(frames[tracing[-1] + 1 :] if tracing else frames)


# The kernel's functions above the one that waits or wakes.
_WAITING = re.compile(
    r"^(prepare_to_s?wait|__prepare_to_swait|add_wait_queue|do_wait_intr|wait_woken|"
    r"_*wait_for_common|wait_for_completion|out_of_line_wait_on|_*wait_on_bit|__pollwait|"
    r"_*wake_up|complete|swake_up|ep_ptable_queue_proc|pollwake|__pollwake|"
    r"autoremove_wake_function|default_wake_function|"
    r"(__folio_lock|folio_(wait_|put_wait_|unlock|wake_|end_writeback))|kthread_(stop|park)\b|"
    r"_*(ww_)?mutex_lock|"
    r"down(_(read|write|interruptible|killable|timeout).*)?\b|_*down_(read|write|common)|"
    r"rwsem_(down|wait)|_*percpu_(down|rwsem)|_*rt_mutex_|rwbase_|_*rwbase_)"
)


def function(frame: str) -> str:
    """A frame's function, without the offset: ``pipe_read``, ``rxe_poll [rdma_rxe]``."""
    name, _, module = frame.partition(" ")
    name = name.partition("+")[0]
    return f"{name} {module}" if module else name


def place(frames: Sequence[str]) -> str:
    """The function that waits or wakes: the innermost one outside the wait functions."""
    for frame in frames:
        if not _WAITING.match(frame):
            return function(frame)
    return function(frames[-1]) if frames else ""


def queue_name(
    variable: str,
    sleeper: Sequence[str] = (),
    waker: Sequence[str] = (),
    *,
    kind: str = "queue",
    on_stack: bool = False,
) -> str:
    """Name a queue.

    Args:
        variable: The symbol that contains it, or empty.
        sleeper: The frames of a thread that slept on it, innermost first.
        waker: The frames of a thread that woke it.
        kind: The word for it: "queue", "completion" or a sort of lock.
        on_stack: It is on a stack.
    """
    if variable:
        return variable if kind == "queue" else f"{variable} ({kind})"
    if sleeper:
        slept = "slept on in" if kind in ("queue", "completion") else "locked in"
        where = "on the stack of" if on_stack else slept
        return f"{kind} {where} {place(sleeper)}"
    if waker:
        return f"{kind} woken in {place(waker)}"
    return f"unknown {kind}"
