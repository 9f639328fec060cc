# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Open a shell in a new guest with kfabric's modules loaded; its end is the end of the guest.

With --module or --modprobe these modules are loaded, and kfabric's only if they need them. A
kernel of --kdir that cannot have kfabric's modules has none loaded.
"""

import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence

from kfabric.errors import UsageError
from kfabric.terminal.arguments import Parser
from kfabric.terminal.streams import copy
from kfabric.vm import kbuild, prepare, usermodule
from kfabric.vm.machine import Command
from kfabric.vm.options import add_guest_options, disposable, guest
from kfabric.vm.spec import Variant

READY = ("python3", "-m", "kfabric.guest.ready")
_OTHERWISE = f"use kfabric run --variant test -- sh -c '{' '.join(READY)} && CMD'"


def main(argv: Sequence[str]) -> int:
    """Run a login shell on a terminal; its exit status."""
    parser = Parser(prog="kfabric shell", description=__doc__)
    add_guest_options(parser, variant="test; with --module or --modprobe none")
    args = parser.parse_args(argv)
    if not sys.stdin.isatty():
        raise UsageError("standard input is not a terminal", _OTHERWISE)
    if not (args.module or args.modprobe):
        args.variant = args.variant or Variant.TEST.value
    lacking = kbuild.lacking(prepare.version(args.kernel))
    if args.variant and lacking:
        prepare.say(f"kfabric's modules are not built: the kernel lacks {', '.join(lacking)}")
        args.variant = None
    vm, tested = guest(args, "shell")
    with disposable(vm, tested):
        if args.variant and not tested:
            prepare.say(usermodule.run_loader(vm, READY, "while our modules were loaded"))
        prepare.say(f"guest is up after {vm.boot_seconds:.1f} s; exit ends it")
        size = os.get_terminal_size()
        env = {"TERM": os.environ.get("TERM", "vt100")}
        shell = vm.popen(
            ["bash", "-l"],
            env=env,
            cwd=vm.here,
            pty=(size.lines, size.columns),
        )
        with _terminal(shell):
            # A daemon, because the read of a terminal cannot be cancelled.
            threading.Thread(target=_send_keys, args=[shell], daemon=True).start()
            copy(shell.output())
    return shell.exit_status


def _send_keys(shell: Command) -> None:
    while data := os.read(sys.stdin.fileno(), 1024):
        shell.send(data)


@contextlib.contextmanager
def _terminal(shell: Command) -> Iterator[None]:
    """Pass every key to the guest, also Ctrl-C, and each change of the terminal's size."""

    def changed(*_: object) -> None:
        size = os.get_terminal_size()
        shell.resize(size.lines, size.columns)

    attributes = termios.tcgetattr(sys.stdin)
    handler = signal.signal(signal.SIGWINCH, changed)
    tty.setraw(sys.stdin, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)
        signal.signal(signal.SIGWINCH, handler)
