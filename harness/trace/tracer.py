# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Loads the kernel part, drains it to a file, and summarises its counts.

    with Tracer(Scope(modules=("rdma_rxe",)), directory) as tracer:
        ...                 # now and then: tracer.drain()
        tracer.stop()       # leaves recording.json, recording.bin, summary.json

Needs root, bcc (Debian's python3-bpfcc) and the kernel's headers, but none of the
project's modules and no other packages.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from kfabric.probes import bpf
from kfabric.probes.loader import ProbeError
from kfabric.probes.program import Program
from kfabric.probes.ring import Ring
from kfabric.recording import HEAD, RECORDS
from kfabric.recording.records import EnderRecord, StackRecord, WaitRecord, split, unpack
from kfabric.trace.bpf import create_ring, mapped, ring_bytes
from kfabric.trace.kernelpart import CONTENTION, MAX_QUEUES, KernelPart
from kfabric.trace.kprobes import KprobeError, Kprobes
from kfabric.trace.marks import Marks
from kfabric.trace.names import WORK, Names
from kfabric.trace.scope import Scope
from kfabric.trace.summary import SUMMARY, Row, Summary, sleeping_stack, spread, stuck
from kfabric.trace.symbols import Symbols, below_tracepoint
from kfabric.trace.userstacks import UserStacks

_KALLSYMS, _MODULES = Path("/proc/kallsyms"), Path("/proc/modules")
_LOSSES = ("ring", "waits", "queues", "unpaired")
_COMPLETION, _BIT, _FUTEX = 2, 17, 20  # kinds of queues
_WITH_STACKS = WaitRecord.FORMAT.size + StackRecord.FORMAT.size
# Fields of a row that have the same name in struct stats.
_SAME = "address waits slept wakes found spurious timeouts interrupted deepest".split()
# LOCK_ENTRY (its upper half) and LOCK_LOOK in the program.
_LOCK_ENTRY, _LOOK = 1, 1 << 16
# Of kfabric: the wake function of its sleepers, and where a queue has its owner.
_KFABRIC = ("kfi_wake_function", "kfi_waitq_layout")


class Tracer(AbstractContextManager["Tracer"]):
    """The loaded tracer. A context manager; leaving it removes all probes.

    The kernel part never wakes its reader, so :meth:`drain` must be called a few times a
    second, or the ring overflows.

    Args:
        scope: The queues to trace.
        directory: The directory for the recording; created if need be.
        ring_mib: The memory of all CPUs' rings together, in MiB.
        compiling: Called before the program is compiled.

    Raises:
        ProbeError: The tracer cannot be loaded here.
    """

    def __init__(
        self,
        scope: Scope,
        directory: Path,
        *,
        ring_mib: float = 32,
        compiling: Callable[[], None] = lambda: None,
    ) -> None:
        began = time.monotonic()
        self.scope = scope
        self.directory = directory
        self.seconds: dict[str, float] = {}
        self._cpus = os.cpu_count() or 1
        self._ring_bytes = ring_bytes(ring_mib, self._cpus)
        self._stopped = False
        self._last_modules = ""
        kallsyms = _KALLSYMS.read_bytes()
        self.symbols = Symbols(kallsyms, _MODULES.read_text(encoding="ascii"))
        self._note("symbols", began)
        part = KernelPart(scope, kallsyms, self.symbols)
        self._bpf = self._load(part, compiling)
        self._note("compile and load" if self._bpf.compiled else "load", began)
        self._stats = mapped(self._bpf[b"stats"], MAX_QUEUES)
        self._switches = mapped(self._bpf[b"switches"], 1)
        self._losses = mapped(self._bpf[b"losses"], len(_LOSSES))
        self._names = Names(self._bpf, self.symbols, lambda: bool(self._switches[0]))
        self._users = UserStacks()
        self._ranges: dict[str, bool] = {}
        self._found: set[str] = set()
        self._open(began, part)

    def _load(self, part: KernelPart, compiling: Callable[[], None]) -> Program:
        try:
            return part.load(cpus=self._cpus, ring_bytes=self._ring_bytes, compiling=compiling)
        except ImportError as error:
            raise ProbeError("python3-bpfcc is not installed") from error
        except ProbeError:
            raise
        except Exception as error:
            raise ProbeError(f"the tracer does not load: {error}") from error

    def _open(self, began: float, part: KernelPart) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._file = (self.directory / RECORDS).open("wb")
        self._rings = self._make_rings()
        self._kprobes = Kprobes()
        self._marks = Marks(self.scope, self._bpf)
        numbers = self._bpf[b"module_numbers"]
        for number, name in enumerate(self.scope.modules):
            numbers[numbers.Key(name.encode())] = numbers.Leaf(number)
        try:
            self.refresh()
            if self.scope.pid:
                self.follow(self.scope.pid)
            for function, address, program in part.probes():
                self._kprobes.attach(function, address, self._bpf.function(program))
        except KprobeError as error:
            self.close()
            raise ProbeError(str(error)) from error
        except BaseException:
            self.close()
            raise
        self._note("attach", began)
        self.load_seconds = time.monotonic() - began
        self.t_start = time.monotonic_ns()
        self._switches[0] = 1

    def _make_rings(self) -> list[Ring]:
        """Make one ring for each CPU; the map "ring" is the first CPU's."""
        rings, table = [], self._bpf[b"rings"]
        for cpu in range(self._cpus):
            fd = create_ring(self._ring_bytes) if cpu else self._bpf[b"ring"].map_fd
            table[table.Key(cpu)] = table.Leaf(fd)
            rings.append(Ring(fd, self._ring_bytes))
            if cpu:
                os.close(fd)
        return rings

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the probes. May be called again."""
        self._marks.close()
        self._kprobes.close()
        self._file.close()
        if not self._stopped:
            self._stopped = True
            for ring in self._rings:
                ring.close()
            self._bpf.cleanup()

    def _note(self, step: str, began: float) -> None:
        spent = sum(self.seconds.values())
        self.seconds[step] = round(time.monotonic() - began - spent, 3)

    def follow(self, pid: int) -> None:
        """Trace a process, and those that it forks from now on."""
        tree = self._bpf[b"tree"]
        tree[tree.Key(pid)] = tree.Leaf(1)

    def refresh(self) -> None:
        """Look for modules that were loaded or that are gone, and for their functions."""
        loaded = _MODULES.read_text(encoding="ascii")
        if loaded == self._last_modules:
            return
        self._last_modules = loaded
        self._read_symbols(loaded)
        for name in self.scope.modules:
            self._ranges[name] = self._set_ranges(name)
        self._found |= {name for name, found in self._ranges.items() if found}
        self._find_kfabric()
        self._marks.refresh(self.symbols, tracing=bool(self._switches[0]))

    def _read_symbols(self, loaded: str) -> None:
        """Read the symbols again if there are other modules, and keep the names so far."""
        fresh = Symbols(b"", loaded).modules
        if fresh == self.symbols.modules:
            return
        self.symbols = Symbols(_KALLSYMS.read_bytes(), loaded)
        self._names.add(self.symbols, self._queues())

    def _find_kfabric(self) -> None:
        """Pass the addresses by which the kernel part knows the queues of kfabric."""
        table = self._bpf[b"kfabric"]
        found = [self.symbols.address(name, "kfabric") or 0 for name in _KFABRIC]
        loaded = "kfabric" in self.symbols.modules and all(found)
        table[table.Key(0)] = table.Leaf(*(found if loaded else (0, 0)))

    def _set_ranges(self, name: str) -> bool:
        """Pass a module's address ranges to the kernel part. False: it is not loaded."""
        index = self.scope.modules.index(name)
        text, data = (self.symbols.range_of(name, code=code) for code in (True, False))
        table = self._bpf[b"modules"]
        places = table[table.Key(0)]
        for ranges, found in ((places.text, text), (places.data, data)):
            ranges[index].start, ranges[index].end = found or (0, 0)
        if not self.symbols.is_loading(name):
            places.init[index].start = places.init[index].end = 0
        table[table.Key(0)] = places
        return text is not None

    @property
    def missing(self) -> list[str]:
        """Modules and functions that are not there now."""
        marks = self._marks.missing()
        return sorted({name for name, found in self._ranges.items() if not found} | marks)

    def _never_found(self) -> tuple[str, ...]:
        """Those that have never been there, also not for a while."""
        return tuple(sorted({*self._ranges} - self._found | self._marks.never_found()))

    def drain(self) -> int:
        """Move the rings' records to the file; return how many."""
        count = 0
        for ring in self._rings:
            records = ring.drain()
            self._file.write(b"".join(records))
            # A wait and its stacks are written together.
            stacked = [record for record in records if len(record) == _WITH_STACKS]
            count += len(records) + len(stacked)
            if self.scope.user_stacks:
                self._meet(stacked)
        return count

    def _meet(self, stacked: Iterable[bytes]) -> None:
        """Pass on the user stacks of waits while their threads are still there."""
        for record in stacked:
            wait, stacks = unpack(split(record))
            assert isinstance(wait, WaitRecord) and isinstance(stacks, StackRecord)
            self._users.meet(stacks.user_sleeper, wait.tid)
            self._users.meet(stacks.user_waker, wait.waker)

    def rows(self) -> list[Row]:
        """The counts of each traced queue, the busiest first."""
        return self._rows(self._queues())

    def _queues(self) -> dict[int, Any]:
        return {number: queue for number, queue in enumerate(self._stats) if queue.wanted}

    def _queue_names(self, queues: dict[int, Any]) -> dict[int, str]:
        return {number: self._names.queue(number, queue) for number, queue in queues.items()}

    def _rows(self, queues: dict[int, Any]) -> list[Row]:
        rows = []
        for number, s in queues.items():
            if not (s.waits or s.seq or s.depth):
                continue
            rows.append(
                Row(
                    number=number,
                    name=self._names.queue(number, s),
                    calls=s.seq,
                    latency=spread(s.latency),
                    **{field: getattr(s, field) for field in _SAME},
                )
            )
        return sorted(rows, key=lambda row: (row.waits, row.calls), reverse=True)

    def losses(self) -> dict[str, int]:
        """The counts of lost events, by kind."""
        return dict(zip(_LOSSES, self._losses, strict=True))

    def stop(self) -> Summary:
        """Remove the probes and write the recording; to be called once.

        Open waits are recorded with the stacks of their threads, so call it before the
        threads end.
        """
        self._switches[0] = 0
        t_stop = time.monotonic_ns()
        works = self._pending_works()
        asleep = self._look_at_holders(t_stop) | self._asleep(works)
        for event in list(self._bpf.raw_tracepoint_fds):
            self._bpf.detach_raw_tracepoint(event)
        self._marks.close()
        self._kprobes.close()
        while self.drain():
            pass
        queues = self._queues()
        pending = list(self._pending_waits(queues))
        self._file.write(b"".join(bytes(each.r) for each in (*pending, *works)))
        self._file.close()
        self._read_symbols(_MODULES.read_text(encoding="ascii"))
        self._names.forget()
        waiting: dict[int, list[Any]] = {}
        for wait in pending:
            waiting.setdefault(wait.r.queue, []).append(wait.r)
        rows = [row.with_open(waiting.get(row.number, [])) for row in self._rows(queues)]
        names = self._queue_names(queues)
        threads = {
            tid.value: comm.text.decode(errors="replace")
            for tid, comm in self._bpf[b"threads"].items()
        }
        summary = Summary(
            rows=tuple(rows),
            stuck=tuple(
                stuck(
                    wait.r,
                    names[wait.r.queue],
                    threads,
                    self._names.frames(wait.stack.sleeper),
                    t_stop,
                )
                for wait in pending
            ),
            losses=self.losses(),
            load_seconds=round(self.load_seconds, 3),
            seconds=round((t_stop - self.t_start) / 1e9, 3),
            steps=self.seconds,
            unstacked=self._bpf[b"unstacked"][0].value,
            missing=self._never_found(),
            late=self._marks.delays(),
        )
        self._leave(summary, rows, names, threads, waiting, asleep, t_stop)
        return summary

    def _pending_works(self) -> list[Any]:
        """The traced work items that are pending, each with a worker that is busy instead."""
        works = [work for work in self._bpf[b"works"].values() if work.wanted]
        busy = {pwq.value: runner for pwq, runner in self._bpf[b"busy"].items()} if works else {}
        for work in works:
            if runner := busy.get(work.pwq):
                known = work.r.busy == runner.tid
                work.r.busy, work.r.t_busy = runner.tid, time.monotonic_ns()
                work.r.busy_queue = work.r.busy_queue if known else 0
        return works

    def _asleep(self, works: list[Any]) -> dict[int, tuple[str, ...]]:
        """Where threads sleep that keep others waiting, or work items from running."""
        tids = {wait.ender for wait in self._bpf[b"open_waits"].values()}
        tids |= {work.r.busy for work in works}
        found = {tid: sleeping_stack(tid) for tid in tids if tid}
        return {tid: frames for tid, frames in found.items() if frames}

    def _items(self, names: dict[int, str]) -> dict[int, str]:
        """The names of the functions of work items, by number."""
        queues = self._queues().items()
        return {number: names[number] for number, queue in queues if queue.kind == WORK}

    def _look_at_holders(self, now: int) -> dict[int, tuple[str, ...]]:
        """Note which threads hold the locks that others wait for; return where those sleep."""
        waiting = [
            key.value for key in self._bpf[b"open_waits"].keys() if key.value >> 32 == _LOCK_ENTRY
        ]
        for entry in waiting:
            bpf.run(self._bpf.function(CONTENTION[0]), entry & 0xFFFFFFFF, _LOOK)
        holders: set[int] = set()
        for ring in self._rings if waiting else ():
            records = ring.drain()
            self._file.write(b"".join(records))
            found = unpack(record for record in records if record[0] == EnderRecord.KIND)
            holders |= {r.ender for r in found if isinstance(r, EnderRecord) and r.t >= now}
        return {tid: frames for tid in holders if (frames := sleeping_stack(tid))}

    def _pending_waits(self, queues: dict[int, Any]) -> Iterator[Any]:
        """The open waits on queues."""
        for wait in self._bpf[b"open_waits"].values():
            if wait.r.queue in queues and wait.r.tgid != os.getpid():
                self._complete(wait)
                # What it waited for was there if the thread did not sleep: the wait is over.
                if wait.kind not in (_COMPLETION, _BIT, _FUTEX) or wait.r.sleeps:
                    yield wait

    def _complete(self, wait: Any) -> None:
        """Fill in the sleeps of an open wait, which are kept with its thread until its end."""
        sleepers = self._bpf[b"sleepers"]
        with suppress(KeyError):
            sleeper = sleepers[sleepers.Key(wait.r.tid)]
            wait.r.sleeps = min(sleeper.sleeps - wait.sleeps_before, 255)
            if wait.r.sleeps:
                wait.r.t_slept, wait.r.state = sleeper.t_slept, sleeper.state
            else:
                wait.r.t_slept = 0

    def _leave(
        self,
        summary: Summary,
        rows: list[Row],
        names: dict[int, str],
        threads: dict[int, str],
        waiting: dict[int, list[Any]],
        asleep: dict[int, tuple[str, ...]],
        t_stop: int,
    ) -> None:
        head = {
            "t_stop": t_stop,
            "losses": summary.losses,
            "tallies": {
                row.number: _tally(self._stats[row.number], waiting.get(row.number, []))
                for row in rows
            },
            "threads": threads,
            "queues": {row.number: names[row.number] for row in rows} | self._items(names),
            "stacks": self._all_stacks(),
            "asleep": asleep,
            "marks": self._marks.calls(),
            "take_marked": bool(self.scope.take),
            "missing": summary.missing,
            "late": self._marks.late,
            "load_seconds": summary.load_seconds,
        }
        (self.directory / HEAD).write_text(json.dumps(head), encoding="utf-8")
        text = json.dumps(asdict(summary), indent=1)
        (self.directory / SUMMARY).write_text(text, encoding="utf-8")

    def _all_stacks(self) -> dict[int, tuple[str, ...]]:
        if not (self.scope.stacks or self.scope.publish or self.scope.take):
            return {}
        table = self._bpf[b"stacks"]
        name = cache(self._names.address)
        found = {}
        for key in table.keys():
            addresses = list(table.walk(key.value))
            if self._users.knows(key.value):
                found[key.value] = self._users.frames(key.value, addresses)
                continue
            found[key.value] = below_tracepoint([name(address) for address in addresses])
        return found


def _tally(stats: Any, pending: list[Any]) -> dict[str, int]:
    """The counts of one queue, for comparison with its records."""
    return {
        "signals": stats.seq,
        "wakes": stats.earlier + stats.ended_wakes + sum(bool(rec.t_wake) for rec in pending),
        "begins": stats.waits + len(pending),
        "ends": stats.waits,
    }
