# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Loading modules in a guest that has booted: its part runs there, its failure is told here."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import GuestError, GuestSplat, ModuleLoadError
from harness.vm.machine import Vm


def load(guest: Vm, argv: Sequence[str], what: str) -> str:
    """Run the program that loads them; what it says.

    :param what: says when, behind an error's text.
    :raises ModuleLoadError: one is refused; with the kernel's words.
    :raises GuestError: the kernel did not survive it, or complained.
    """
    try:
        done = guest.run(argv, timeout=guest.spec.deadlines.boot)
    except GuestError as error:
        raise type(error)(f"{error.what}, {what}", error.hint, error.console) from None
    if done.rc:
        first, *rest = done.err.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise ModuleLoadError(first, console="\n".join(rest))
    if splats := guest.splats():
        raise GuestSplat(f"{splats[0].title}, {what}", console=splats[0].text)
    return done.text.strip()
