# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The marked functions: those that publish and take what sleepers wait for."""

import time
from contextlib import suppress

from kfabric.probes.loader import ProbeError
from kfabric.probes.program import Program
from kfabric.trace.kernelpart import HEAD_BYTES
from kfabric.trace.kprobes import KprobeError, Kprobes
from kfabric.trace.scope import Scope
from kfabric.trace.symbols import Symbols


class Marks:
    """Marks the functions of a scope as soon as they are there.

    Args:
        scope: Names the functions, and the modules whose coming is recorded.
        program: The loaded kernel part.
    """

    def __init__(self, scope: Scope, program: Program) -> None:
        self._scope = scope
        self._bpf = program
        self._probes = Kprobes()
        # The module of each function that is marked now; empty for the kernel.
        self._modules: dict[str, str] = {}
        self._addresses: dict[str, list[int]] = {}
        self.late: dict[str, dict[str, int]] = {}
        """Marks set during the trace: when their modules came, and when they were set, in ns."""

    def close(self) -> None:
        """Remove all marks; what is known of them stays. May be called again."""
        self._probes.close()

    def reset(self) -> None:
        """Remove all marks, so that :meth:`refresh` sets them again."""
        self._probes.close()
        self._probes = Kprobes()
        self._modules.clear()

    def refresh(self, symbols: Symbols, *, tracing: bool) -> None:
        """Mark the functions that are there and not marked yet.

        Raises:
            ProbeError: A function cannot be marked. While tracing it is left out, since its
                module may go at this moment.
        """
        gone = {*self._modules.values()} - {"", *symbols.modules}
        self._modules = {name: of for name, of in self._modules.items() if of not in gone}
        for names, program in (
            (self._scope.publish, "on_publish"),
            (self._scope.take, "on_take"),
        ):
            for name in names:
                address = symbols.address(name)
                if name in self._modules or address is None:
                    continue
                with suppress(*(ProbeError,) if tracing else ()):
                    self._attach(name, address, program)
                    self._note(name, address, symbols, tracing=tracing)

    def _attach(self, function: str, address: int, program: str) -> None:
        """Run a program when a function begins, and on_return when it returns."""
        try:
            # First, so that no call is seen without its return.
            self._probes.attach_return(function, address, self._bpf.function("on_return"))
            self._probes.attach(function, address, self._bpf.function(program))
        except KprobeError as error:
            raise ProbeError(str(error)) from error

    def _note(self, name: str, address: int, symbols: Symbols, *, tracing: bool) -> None:
        """Remember a mark, and how late it is if the trace had begun."""
        self._addresses.setdefault(name, []).append(address)
        symbol = symbols.find(address)
        module = self._modules[name] = symbol.module if symbol else ""
        if not tracing:
            return
        coming = 0
        if module in self._scope.modules:
            coming = self._bpf[b"comings"][self._scope.modules.index(module)].value
        self.late[name] = {"coming": coming, "attached": time.monotonic_ns()}

    def missing(self) -> set[str]:
        """The functions that are not there now."""
        return {*self._scope.publish, *self._scope.take} - {*self._modules}

    def never_found(self) -> set[str]:
        """The functions that have never been there."""
        return self.missing() - {*self._addresses}

    def calls(self) -> dict[str, int]:
        """How often each function that was marked was called."""
        if not self._addresses:
            return {}
        called = {key.value: count.value for key, count in self._bpf[b"mark_counts"].items()}
        return {
            name: sum(n for at, n in called.items() if any(0 <= at - a < HEAD_BYTES for a in mine))
            for name, mine in self._addresses.items()
        }

    def delays(self) -> dict[str, int]:
        """How long after its module each late mark was set, in ns; 0: the module was there."""
        return {
            name: late["attached"] - late["coming"] if late["coming"] else 0
            for name, late in self.late.items()
        }
