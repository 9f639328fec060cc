# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a user asks of the guests of a test run."""

from __future__ import annotations

import pytest

from kfabric.runner import testoptions
from kfabric.vm import asked
from kfabric.vm.spec import VmSpec


def spec(monkeypatch: pytest.MonkeyPatch, *words: str) -> VmSpec:
    """The guest of a command line, whose kind has a kernel parameter of its own."""
    args, _, _ = testoptions.parse(words)
    for name, value in asked.environment(args.memory, args.cpus, args.append).items():
        monkeypatch.setenv(name, value)
    return asked.of_environment(VmSpec(name="one", cmdline=("quiet",)))


def test_a_guest_is_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--memory", "3000", "--cpus", "4", "--append", "a=b", "--append", "c=1 2"]
    wanted = VmSpec(name="one", memory_mib=3000, cpus=4, cmdline=("quiet", "a=b", "c=1 2"))
    assert spec(monkeypatch, *words) == wanted


def test_a_guest_is_as_always_if_nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spec(monkeypatch) == VmSpec(name="one", cmdline=("quiet",))
    monkeypatch.delenv(asked.ENVIRONMENT)
    assert asked.of_environment(VmSpec()) == VmSpec()


@pytest.mark.parametrize("words", [["--cpus", "0"], ["--memory", "10"], ["--cpus", "many"]])
def test_a_guest_that_cannot_be_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        testoptions.parse(words)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kfabric test: {words[0]}: ")
