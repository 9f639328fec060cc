# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A signalled run completes its clean-up, whichever process gets signals, and however many."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfabric.runner import interrupts

ROOT = Path(__file__).parents[2]
SECONDS = 60.0

RUN = """
import os, pytest, signal

@pytest.fixture
def slow():
    yield
    os.kill(os.getpid(), {again})
    os.write(1, b"cleaned up\\n")

def test_waits(slow):
    os.write(1, b"\\nbegun\\n")
    signal.sigtimedwait([], 50)
"""

KFABRIC = """
import contextlib, signal, sys
from kfabric.runner import testrun

signal.signal(signal.SIGTERM, signal.default_int_handler)
signal.signal(signal.SIGINT, signal.default_int_handler)
with contextlib.suppress(KeyboardInterrupt):
    testrun._run([sys.executable, "-m", "pytest", "-p", "kfabric.runner.plugin", "-s", sys.argv[1]])
"""


@pytest.fixture
def taken() -> Iterator[None]:
    """This process as a run, even if it was started in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    restore = interrupts.take_first()
    yield
    restore()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", interrupts.ENDING)
def test_only_the_first_counts(number: int, taken: None) -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    for other in interrupts.ENDING:
        os.kill(os.getpid(), other)


def test_what_was_ignored_before_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        restore = interrupts.take_first()
        os.kill(os.getpid(), signal.SIGINT)
        restore()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", interrupts.ENDING)
def test_a_signal_to_kfabric_alone_ends_the_tests_in_order(number: int, tmp_path: Path) -> None:
    """As a CI sends it: not to the group, as a terminal does."""
    file = tmp_path / "test_slow.py"
    file.write_text(RUN.format(again=int(number)))
    argv = [sys.executable, "-c", KFABRIC, str(file)]
    pipe = subprocess.PIPE
    run = subprocess.Popen(argv, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)
    watchdog = threading.Timer(SECONDS, run.kill)
    watchdog.start()
    try:
        assert run.stdout is not None
        assert b"begun\n" in iter(run.stdout.readline, b"")
        run.send_signal(number)
        said = run.communicate(timeout=SECONDS)[0].decode()
        assert "cleaned up" in said
        assert "no tests ran" in said
        assert "! Interrupted: by a signal !" in said
        # No place in our files, as pytest shows for any other KeyboardInterrupt.
        assert "KeyboardInterrupt" not in said and "interrupts.py" not in said
    finally:
        watchdog.cancel()
        run.kill()
