# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric test --shard K/N`: which tests a runner has, and runs of pytest with a shard."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus
from kfabric.root import python_path
from kfabric.runner import shards
from kfabric.runner.shards import Shard

ROOT = Path(__file__).parents[2]
GALLERY = [f"tests/guest/test_gallery.py::test_entry[lost-{n}/a b]" for n in range(40)]
OTHERS = [f"tests/guest/test_{file}.py::test_{n}[x]" for file in ("cq", "eq") for n in range(31)]
# Two groups of the same size, of which one has two files.
PAIRS = [
    f"tests/guest/test_{name}.py::test_{n}"
    for name, n in (("trace", 1), ("trace", 2), ("profile_agrees", 1), ("wakeups_load", 1))
]
TESTS = [*GALLERY, *OTHERS, *PAIRS]


def dealt(
    tests: Sequence[str], count: int, together: Callable[[str], object] = shards.group
) -> list[frozenset[str]]:
    """The shards of all runners, each of which has collected in another order."""
    order = random.Random(count)
    return [
        Shard(number + 1, count).of(order.sample(tests, len(tests)), together)
        for number in range(count)
    ]


@pytest.mark.parametrize("together", [shards.group, shards.file])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 200])
def test_every_test_is_in_one_shard(count: int, together: Callable[[str], object]) -> None:
    """Whatever order each runner collects in."""
    found = dealt(TESTS, count, together)
    assert sorted(test for shard in found for test in shard) == sorted(TESTS)


def test_shards_of_single_tests_have_the_same_size() -> None:
    """Or differ by one test."""
    sizes = [len(shard) for shard in dealt(OTHERS, 4)]
    assert sorted(sizes) == [15, 15, 16, 16]


def test_shard_with_a_long_file_gets_fewer_other_tests() -> None:
    """The tests of such a file stay together."""
    found = dealt([*GALLERY, *OTHERS], 2)
    assert sorted(map(len, found)) == [51, 51]
    assert sum(bool(shard & set(GALLERY)) for shard in found) == 1


def test_tests_of_a_file_on_the_host_stay_together() -> None:
    """They may share a guest."""
    files = [
        {shards.file(test) for test in shard}
        for shard in dealt([*GALLERY, *OTHERS], 3, shards.file)
    ]
    assert list(map(len, files)) == [1, 1, 1]


def test_blocks_of_documents_are_dealt_out_one_by_one() -> None:
    """Each of them takes minutes; those of another file stay together."""
    blocks = [f"tests/vm/test_document_commands.py::test_block[docs/a.md:{n}]" for n in range(8)]
    others = [f"tests/vm/test_ends.py::test_{n}" for n in range(4)]
    found = dealt([*blocks, *others], 3, shards.Deal(Shard(1, 3), guests=False)._together)
    assert sorted(map(len, found)) == [4, 4, 4]
    assert set(others) in found


@pytest.mark.parametrize("text", ["", "1", "1/", "/2", "0/2", "3/2", "1/0", "-1/2", "a/b", "1/2/3"])
def test_bad_shard_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="K"):
        shards.parse(text)


def test_shard_is_shown_as_it_was_given() -> None:
    assert str(shards.parse("2/16")) == "2/16"


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a file of tests with the plugin, in this process or in fake guests."""
    monkeypatch.setenv("PYTHONPATH", python_path(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run_text(text: str, shard: str, *arguments: str, guests: int = 0) -> pytest.RunResult:
        pytester.makepyfile(test_toy=text, test_other="def test_z(): pass\n")
        plugins = ["-p", "kfabric.runner.plugin", "-p", "tests.unit.support.fake_guest"]
        directory = f"guests-{shard.replace('/', '-')}"
        where = ["--kfabric-vms", str(guests), "--kfabric-dir", directory] if guests else []
        argv = [*plugins, *where, "-v", "--kfabric-shard", shard, *arguments]
        if guests:
            return pytester.runpytest_subprocess(*argv, timeout=240)
        return pytester.runpytest_inprocess(*argv)

    return run_text


FOUR = "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_a(n): pass\n"


@pytest.mark.parametrize("guests", [0, 2])
def test_runs_of_all_shards_run_every_test_once(run: Run, guests: int) -> None:
    """On the host by files, in guests by tests."""
    ran = []
    for shard in ("1/2", "2/2"):
        result = run(FOUR, shard, guests=guests)
        assert result.ret == ExitStatus.OK
        found = [line for line in result.outlines if "PASSED" in line]
        ran.append(sorted(word for line in found for word in line.split() if "::" in word))
    assert sorted(map(len, ran)) == ([2, 3] if guests else [1, 4])
    everything = [*(f"test_toy.py::test_a[{n}]" for n in range(4)), "test_other.py::test_z"]
    assert sorted(ran[0] + ran[1]) == sorted(everything)


@pytest.mark.parametrize("guests", [0, 1])
def test_empty_shard_is_no_failure_and_is_reported(run: Run, guests: int) -> None:
    """There may be more runners than tests."""
    result = run("def test_a(): pass\n", "3/3", guests=guests)
    assert result.ret == ExitStatus.OK
    result.stdout.fnmatch_lines(["kfabric: shard 3/3 has none of the 2 tests"])


@pytest.mark.parametrize("guests", [0, 1])
def test_no_test_at_all_is_a_failure_in_a_shard_too(run: Run, guests: int) -> None:
    """The filter is wrong then, not the number of runners."""
    result = run("def test_a(): pass\n", "1/3", "-k", "nonesuch", guests=guests)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_shard_is_chosen_after_the_filter(run: Run) -> None:
    """Each runner has one of the two tests that remain."""
    text = "".join(f"def test_{name}(): pass\n" for name in ("a", "b", "wait"))
    for shard in ("1/2", "2/2"):
        result = run(text, shard, "-k", "wait or z")
        assert result.parseoutcomes()["passed"] == 1
        result.stdout.fnmatch_lines([f"kfabric: shard {shard} has 1 of the 2 tests"])


def test_shard_whose_tests_are_all_skipped_is_no_failure(run: Run) -> None:
    """The tests of the others may have run; kfabric merge judges them together."""
    result = run("import pytest\n@pytest.mark.skip\ndef test_a(): pass\n", "2/2")
    result.assert_outcomes(skipped=1)
    assert result.ret == ExitStatus.OK
    result.stdout.fnmatch_lines(["kfabric: nothing was tested: 1 test skipped, none run"])
