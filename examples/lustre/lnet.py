# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""LNet's selftest between two guests, over kfabric, and over verbs and TCP for comparison.

    build/venv/bin/python examples/lustre/lnet.py DIR

DIR is a source tree of Lustre. Exit status: 0 if all data was right and every wait that was judged
was in order; 3 or 4 as that of kfabric trace; 1 if a program of Lustre failed.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tree

from kfabric.errors import ExitStatus, KfabricError, report
from kfabric.terminal.arguments import Parser, whole
from kfabric.vm import cache, kbuild, prepare, tools
from kfabric.vm.machine import Command, Vm
from kfabric.vm.source import SOURCE
from kfabric.vm.spec import Extras, Variant, VmSpec

HERE = Path(__file__).resolve().parent
NETS = {"kfi": "kkfilnd", "o2ib": "ko2iblnd", "tcp": "ksocklnd"}
#: What Lustre's programs and modules need in a guest.
EXTRAS = Extras(("libkeyutils1", "libnl-genl-3-200", "libyaml-0-2"), ("sunrpc",))
#: kfilnd copies messages into a slab cache that is not declared for that, which the check refuses.
CMDLINE = ("hardened_usercopy=off",)
ADDRESSES = ("198.19.255.1", "198.19.255.2")
MEMORY_MIB = 2048
#: Seconds for one side to do all that it is told, beside measuring.
SIDE_SECONDS = 900.0
#: Seconds of traffic each way that the probes watch.
WATCHED_SECONDS = 5
_JUDGED = (ExitStatus.FAULT_FOUND, ExitStatus.NOT_VERIFIED)


class LnetError(KfabricError, status=ExitStatus.TEST_FAILED, label="LNet failed"):
    """One side did not do what it was told."""


@dataclass(frozen=True)
class Result:
    """What came of one network."""

    net: str
    read: float
    """MiB/s from the second guest to the first, without probes."""
    written: float
    """MiB/s in the other direction."""
    statuses: tuple[int, ...]
    """Of both sides' verdicts."""
    verdicts: tuple[str, ...]
    """Lines of them."""


class Side:
    """A guest's side of LNet, which takes orders.

    :param vm: the guest.
    :param built: the built tree.
    :param net: the network.
    :param address: its own on the wire.
    :param seconds: of each measurement.
    :param watched: probes watch the wait queues of the modules.
    """

    def __init__(
        self, vm: Vm, built: Path, net: str, address: str, seconds: int, watched: bool
    ) -> None:
        words = ["python3", str(HERE / "side.py"), str(built), net, NETS[net], address]
        if watched:
            scope = [f"--module={name}" for name in _modules(net)]
            output = f"--output={vm.out}/trace-{net}"
            trace = ["python3", "-m", "kfabric.cli", "trace", "--here", output, *scope]
            words = [*trace, "--", *words]
        self._name = f"{net} in {vm.spec.name}"
        timeout = SIDE_SECONDS + 2 * seconds
        self._command: Command = vm.popen(words, timeout=timeout, cwd=str(SOURCE))
        self._lines = self._command.lines()

    def answer(self) -> Any:
        """Wait for its answer; raises LnetError if there is none."""
        for line in self._lines:
            return json.loads(line)
        raise LnetError(f"{self._name} has ended", console=self._errors())

    def ask(self, *words: str) -> Any:
        """Give it an order; its answer."""
        self._command.send(f"{' '.join(words)}\n".encode())
        return self.answer()

    def finish(self) -> int:
        """Have it unload everything; its exit status, which is that of the verdict."""
        self._command.close_stdin()
        for _ in self._lines:
            pass
        status = self._command.exit_status
        if status not in (ExitStatus.OK, *_JUDGED):
            raise LnetError(f"{self._name}: exit status {status}", console=self._errors())
        return status

    def verdict(self) -> list[str]:
        """The verdict's lines, which end the trace's report."""
        lines = self._errors().splitlines()
        traced = max(number for number, line in enumerate(lines) if line.startswith("traced "))
        return [f"{self._name}: {line}" for line in lines[traced + 1 :]]

    def _errors(self) -> str:
        return self._command.errors.decode(errors="replace")


def _modules(net: str) -> tuple[str, ...]:
    """The modules whose wait queues are watched."""
    ours = ("kfi_verbs",) if net == "kfi" else ()
    return ("lnet", NETS[net], "lnet_selftest", *ours)


@contextlib.contextmanager
def guests() -> Iterator[tuple[Vm, Vm]]:
    """Two guests on one wire. What a kernel has reported comes before what followed from it."""
    with contextlib.ExitStack() as stack:
        # A socket needs a short path.
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kfabric-")))
        ends = [sockets / f"end{number}" for number in (0, 1)]
        specs = [
            VmSpec(
                name=f"lnet{number}",
                extras=EXTRAS,
                memory_mib=MEMORY_MIB,
                variant=Variant.PROD,
                core=True,
                cmdline=CMDLINE,
                wire=(ends[number], ends[1 - number]),
            )
            for number in (0, 1)
        ]
        first, second = (stack.enter_context(prepare.vm(spec)) for spec in specs)
        try:
            yield first, second
        finally:
            for vm in (first, second):
                if not vm.alive:
                    raise vm.cause()
                vm.require_no_splat()


def traffic(sides: Sequence[Side], seconds: int) -> tuple[float, float]:
    """Ping both ways, then move data both ways; MiB/s from the second side, and to it."""
    for side in sides:
        side.answer()
    nids = [side.ask("nid") for side in sides]
    for side, nid in zip(sides, reversed(nids), strict=True):
        side.ask("ping", nid)
    read, written = (sides[0].ask("brw", nids[1], way, str(seconds)) for way in ("read", "write"))
    return read, written


def play(pair: tuple[Vm, Vm], built: Path, net: str, seconds: int) -> Result:
    """Measure a network without probes, and then have its waits judged."""
    prepare.say(f"{net}: measuring")
    sides = _both(pair, built, net, seconds, watched=False)
    read, written = traffic(sides, seconds)
    for side in sides:
        side.finish()
    prepare.say(f"{net}: watching")
    sides = _both(pair, built, net, WATCHED_SECONDS, watched=True)
    traffic(sides, WATCHED_SECONDS)
    statuses = tuple(side.finish() for side in sides)
    return Result(net, read, written, statuses, tuple(x for side in sides for x in side.verdict()))


def _both(pair: tuple[Vm, Vm], built: Path, net: str, seconds: int, watched: bool) -> list[Side]:
    return [
        Side(vm, built, net, address, seconds, watched)
        for vm, address in zip(pair, ADDRESSES, strict=True)
    ]


def show(results: Sequence[Result]) -> None:
    """Print the verdicts, then a table."""
    for result in results:
        print(*result.verdicts, sep="\n")
    print(f"{'':6}{'1 to 0':>10}{'0 to 1':>10}   MiB/s between the guests, 1 MiB each, compared")
    for result in results:
        print(f"{result.net:6}{result.read:10.2f}{result.written:10.2f}")


def status(results: Sequence[Result]) -> int:
    """That of a fault, if there is one, else that of a verdict that is none."""
    found = {one for result in results for one in result.statuses}
    return ExitStatus.FAULT_FOUND if ExitStatus.FAULT_FOUND in found else max(found)


def main(argv: Sequence[str]) -> int:
    """Build, boot, play, show; the exit status."""
    parser = Parser(prog="lnet.py", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="a source tree of Lustre")
    words = "this network only; may be repeated"
    parser.add_argument("--net", action="append", choices=tuple(NETS), help=words)
    words = "of traffic each way; default: 20"
    parser.add_argument("--seconds", type=whole(1, 3600), default=20, metavar="S", help=words)
    args = parser.parse_args(argv)
    directory = args.directory.resolve()
    tree.check(directory)
    tools.install(SOURCE, "lustre", "what Lustre is built with cannot be installed")
    image = prepare.guest_image(extras=EXTRAS)
    kbuild.ensure(SOURCE, image, Variant.PROD, prepare.say, others=False)
    # Another run waits: its guests would have the same names.
    with cache.locked(tree.ROOM / "lock"):
        built = tree.ensure(directory, image, Variant.PROD, prepare.say)
        with guests() as pair:
            results = [play(pair, built, net, args.seconds) for net in args.net or NETS]
    show(results)
    return status(results)


if __name__ == "__main__":
    # Unwinds, so that the guests end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        sys.exit(main(sys.argv[1:]))
    except KfabricError as error:
        sys.exit(report(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(ExitStatus.INTERRUPTED)
