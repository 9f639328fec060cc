# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric merge`: the results of shards as those of one run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from toy_tests import TOYS

from kfabric import cli
from kfabric.errors import ExitStatus
from kfabric.runner import junit, ktap, merge

Play = Callable[..., Path]


@pytest.fixture
def play(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Run files of tests as a runner does; its directory with results."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(shard: str = "", toys: str = TOYS, name: str = "guest") -> Path:
        pytester.makepyfile(test_toy=toys, test_other="def test_z(): pass\n")
        place = pytester.path / f"results-{shard.replace('/', '-')}"
        files = [f"--junitxml={place}/{name}.xml", f"--ktap={place}/{name}.ktap"]
        files += [f"--kcidb={place}/{name}.kcidb.json", "-o", f"junit_suite_name={name} linux-6.1"]
        result = pytester.runpytest_inprocess(
            *("-p", "kfabric.runner.plugin", *files),
            *(["--kfabric-shard", shard] if shard else []),
        )
        assert result.ret in (0, 1, 2)
        if shard:
            junit.mark(place / f"{name}.xml", {"shard": shard})
        return place

    return run


def merged(*words: object) -> int:
    """The exit status of `kfabric merge`."""
    return cli.main(["merge", *map(str, words)])


def results(place: Path) -> Any:
    """What the three files say, without order, ids and times."""
    suite = next(ElementTree.parse(place / "guest.xml").iter("testsuite"))
    counts = [suite.get(key) for key in ("name", "tests", "errors", "failures", "skipped")]
    cases = {
        (c.get("classname"), c.get("name")): [e.tag for e in c] for c in suite.iter("testcase")
    }
    title, files, more = ktap.read((place / "guest.ktap").read_text())
    document = json.loads((place / "guest.kcidb.json").read_text())
    tests = {one["misc"]["test"]: (one["status"], one["path"]) for one in document["tests"]}
    builds = document["version"], document["checkouts"], document["builds"]
    return counts, cases, title, files, more, tests, builds


@pytest.mark.parametrize("count", [1, 2, 4])
def test_shards_merge_to_what_one_run_would_have_given(
    play: Play, pytester: pytest.Pytester, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also with more shards than files, of which some are empty; in any order."""
    whole = play()
    parts = [play(f"{number}/{count}") for number in range(count, 0, -1)]
    capsys.readouterr()
    status = merged(*parts, "--output", pytester.path / "merged")
    assert status == ExitStatus.TEST_FAILED
    assert results(pytester.path / "merged") == results(whole)
    line = f"{pytester.path}/merged/guest.xml: 4 passed, 3 failed, 2 skipped\n"
    assert capsys.readouterr().out == line


def test_merged_tests_have_ids_of_their_own(play: Play, pytester: pytest.Pytester) -> None:
    """They are tests of two runs."""
    merged(play("1/2"), play("2/2"), "--output", pytester.path / "merged")
    document = json.loads((pytester.path / "merged/guest.kcidb.json").read_text())
    assert len({one["id"] for one in document["tests"]}) == len(document["tests"]) == 9


def test_file_that_no_runner_can_collect_counts_once(play: Play, pytester: pytest.Pytester) -> None:
    """In each format."""
    broken = "import nonesuch\n"
    whole = play(toys=broken)
    merged(play("1/2", broken), play("2/2", broken), "--output", pytester.path / "merged")
    found = results(pytester.path / "merged")
    assert found == results(whole)
    assert found[0][1:3] == ["1", "1"]


def test_shard_without_results_fails_the_whole(
    play: Play, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files show it, too: its runner may have died."""
    good = "def test_a(): pass\n"
    lost = play("3/3", good)
    (lost / "guest.ktap").unlink()
    status = merged(play("1/3", good), lost, "--output", pytester.path / "merged")
    assert status == ExitStatus.TEST_FAILED
    counts, _, _, _, more, tests, _ = results(pytester.path / "merged")
    assert counts[1:3] == ["3", "2"], "one test has passed"
    errors = ElementTree.parse(pytester.path / "merged/guest.xml").iter("error")
    reasons = [f"shard {number}/3 has no results" for number in (2, 3)]
    assert [error.get("message") for error in errors] == reasons
    assert [result.directive for result in more] == [f"ERROR {reason}" for reason in reasons]
    assert tests["guests::run"] == ("MISS", "guests.run")
    assert "shard 3/3 has no results" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("toys", "status"),
    [
        ("def test_a(): pass\n", ExitStatus.OK),
        ("import pytest\n@pytest.mark.skip\ndef test_a(): pass\n", ExitStatus.OK),
        ("def test_a(): assert 0\n", ExitStatus.TEST_FAILED),
    ],
)
def test_status_is_that_of_all_shards(
    play: Play, pytester: pytest.Pytester, toys: str, status: ExitStatus
) -> None:
    """One shard alone may have skipped all of its tests."""
    parts = play("1/2", toys), play("2/2", toys)
    assert merged(*parts, "--output", pytester.path / "merged") == status


def test_output_that_looks_like_results_is_output() -> None:
    """A console may print anything."""
    text = "Subtest: none\n\n  ok 1 nothing\n# KTAP version 1\n1..3\nnot ok 2 nothing"
    bad = ktap.Line("test_a[b c]", True, "ERROR in setup", text)
    files = {"a.py": {bad.name: bad}, "b.py": {"test_z": ktap.Line("test_z")}}
    more = [ktap.Line("guest0.0", True, "ERROR panic", text)]
    assert ktap.read(ktap.document("guest", files, more)) == ("guest", files, more)


def test_run_that_skipped_everything_is_not_green(play: Play, pytester: pytest.Pytester) -> None:
    """No shard has reported that."""
    play("1/1", "import pytest\n@pytest.mark.skip\ndef test_a(): pass\n")
    place = pytester.path / "results-1-1"
    report = ElementTree.parse(place / "guest.xml")
    suite = next(report.iter("testsuite"))
    for case in suite.findall("testcase[@name='test_z']"):
        suite.remove(case)
    report.write(place / "guest.xml")
    other = play("", "def test_a(): pass\n", "unit")
    assert merged(place, other, "--output", pytester.path / "merged") == ExitStatus.TEST_FAILED


def test_runs_on_several_kernels_stay_apart(play: Play, pytester: pytest.Pytester) -> None:
    """Each has its file; one that no other runner has is copied."""
    good = "def test_a(): pass\n"
    parts = [play(f"{number}/2", good) for number in (1, 2)]
    for number in (1, 2):
        play(f"{number}/2", good, "guest-6.12")
    other = play("", good, "unit")
    assert merged(*parts, other, "--output", pytester.path / "merged") == ExitStatus.OK
    names = sorted(path.name for path in (pytester.path / "merged").glob("*.xml"))
    assert names == ["guest-6.12.xml", "guest.xml", "unit.xml"]
    assert (pytester.path / "merged/unit.xml").read_text() == (other / "unit.xml").read_text()


@pytest.fixture
def shard(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write results without tests."""

    def write(name: str, number: str) -> Path:
        place = tmp_path / name
        place.mkdir()
        (place / "guest.xml").write_text("<testsuites><testsuite name='guest'/></testsuites>")
        (place / "guest.ktap").write_text(ktap.document("guest", {}))
        (place / "guest.kcidb.json").write_text("{}")
        if number:
            junit.mark(place / "guest.xml", {"shard": number})
        return place

    return write


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("1/2", "1/2", "guest.xml are both shard 1/2"),
        ("1/2", "2/3", "guest.xml are of different runs"),
        ("1/2", "", "guest.xml are of different runs"),
        ("", "", "guest.xml are not of shards"),
    ],
)
def test_results_that_do_not_belong_together_are_refused(
    shard, tmp_path, first, second, text
) -> None:
    """Before anything is written."""
    places = shard("a", first), shard("b", second)
    with pytest.raises(merge.MergeError, match=text):
        merge.main([*map(str, places), "--output", str(tmp_path / "merged")])
    assert not (tmp_path / "merged").exists()


def test_results_are_not_overwritten(shard) -> None:
    place = shard("a", "1/1")
    with pytest.raises(merge.MergeError, match="has results"):
        merge.main([str(place), "--output", str(place)])


@pytest.mark.parametrize("suffix", junit.SUFFIXES)
def test_broken_file_is_one_clear_error(shard, tmp_path, suffix) -> None:
    place = shard("a", "1/1")
    (place / "guest.xml").with_suffix(suffix).write_text("{")
    with pytest.raises(merge.MergeError, match=rf"guest{suffix} cannot be read: "):
        merge.main([str(place), "--output", str(tmp_path / "merged")])


def test_copy_needs_no_mark(shard, tmp_path) -> None:
    """Results of one runner may be merged with those of other kernels' runners."""
    place = shard("a", "")
    shutil.copy(place / "guest.xml", place / "unit.xml")
    assert set(merge.runs([place])) == {"guest"}
