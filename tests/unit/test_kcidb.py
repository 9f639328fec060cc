# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The file for KCIDB, and what version 5.3 of its schema requires."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from toy_tests import TOYS

from kfabric.errors import ExitStatus
from kfabric.root import python_path
from kfabric.runner import kcidb
from kfabric.runner.kcidb import Report
from kfabric.runner.outcome import WHOLE, Result, Trouble

ROOT = Path(__file__).parents[2]
# The schema's essentials. No property may be null, and none may be added.
ORIGIN = "[a-z0-9_]+"
ID = rf"{ORIGIN}:[^\0]*"
PATH = r"([a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*)?"
TEXT = r"[^\0]*"
STATUS = "FAIL|ERROR|MISS|PASS|DONE|SKIP"
CHECKOUT: Mapping[str, str | type] = {"id": ID, "origin": ORIGIN, "comment": TEXT}
BUILD = {**CHECKOUT, "checkout_id": ID, "architecture": "[a-z0-9_]*"}
TEST = {
    **CHECKOUT,
    "build_id": ID,
    "path": PATH,
    "status": STATUS,
    "start_time": datetime,
    "duration": float,
    "log_excerpt": r"[^\0]{0,16384}",
    "environment": dict,
    "misc": dict,
}
REQUIRED = {
    "checkouts": (CHECKOUT, {"id", "origin"}),
    "builds": (BUILD, {"id", "origin", "checkout_id"}),
    "tests": (TEST, {"id", "origin", "build_id"}),
}


def check(document: Mapping[str, Any]) -> None:
    """Compare a document with the schema's essentials."""
    assert document["version"] == {"major": 5, "minor": 3}
    assert set(document) == {"version", *REQUIRED}
    for name, (known, required) in REQUIRED.items():
        objects = document[name]
        assert len({one["id"] for one in objects}) == len(objects)
        for one in objects:
            assert required <= set(one) <= set(known)
            for key, value in one.items():
                of_property(known[key], value)
            assert one["id"].startswith(f"{one['origin']}:")
    assert {one["checkout_id"] for one in document["builds"]} <= ids(document, "checkouts")
    assert {one["build_id"] for one in document["tests"]} <= ids(document, "builds")
    for test in document["tests"]:
        assert set(test["environment"]) <= {"comment", "compatible", "misc"}


def of_property(kind: str | type, value: Any) -> None:
    """A string's pattern, or another type."""
    if isinstance(kind, str):
        assert re.fullmatch(kind, value, re.DOTALL), value
    elif kind is datetime:
        assert datetime.fromisoformat(value).tzinfo is not None
    else:
        assert isinstance(value, kind)


def ids(document: Mapping[str, Any], name: str) -> set[str]:
    """The ids of all objects of a kind."""
    return {one["id"] for one in document[name]}


@pytest.fixture
def run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[pytest.RunResult, dict[str, Any]]]:
    """Run a file of tests with the plugin; the result and the document."""
    monkeypatch.setenv("PYTHONPATH", python_path(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run_text(text: str, *arguments: str) -> tuple[pytest.RunResult, dict[str, Any]]:
        pytester.makepyfile(test_toy=text)
        plugins = ["-p", "kfabric.runner.plugin", "-p", "tests.unit.support.fake_guest"]
        argv = [*plugins, "--kcidb=results.kcidb.json", *arguments]
        # Guests need a process of their own, which takes longer.
        guests = any(word.startswith("--kfabric-vms") for word in arguments)
        if guests:
            result = pytester.runpytest_subprocess(*argv, timeout=240)
        else:
            result = pytester.runpytest_inprocess(*argv)
        return result, json.loads((pytester.path / "results.kcidb.json").read_text())

    return run_text


@pytest.mark.parametrize("guests", [0, 1])
def test_document_of_a_run_follows_the_schema(run, guests) -> None:
    """Each test has its status, its own id, and its time by the host's clock."""
    where = ["--kfabric-vms=1", "--kfabric-dir=guests", "-o", "junit_suite_name=guest linux-6.1.0"]
    _, document = run(TOYS, *(where if guests else []))
    check(document)
    found = {one["misc"]["test"].partition("::")[2]: one for one in document["tests"]}
    assert {name: one["status"] for name, one in found.items()} == {
        "test_good": "PASS",
        "test_bad": "FAIL",
        "test_skipped": "SKIP",
        "test_expected": "SKIP",
        "test_setup": "ERROR",
        "test_teardown": "FAIL",
        "test_word[a.b c]": "PASS",
        "test_word[d#e]": "PASS",
    }
    assert found["test_skipped"]["comment"] == "no such device"
    assert found["test_expected"]["comment"] == "expected to fail: not yet"
    assert found["test_teardown"]["comment"] == "in teardown"
    assert "no link" in found["test_setup"]["log_excerpt"]
    assert found["test_word[a.b c]"]["path"] == "test_toy.test_word.a_b_c"
    assert all("start_time" in one and "duration" in one for one in found.values())
    (build,) = document["builds"]
    assert build["id"] == ("kfabric:linux-6.1.0" if guests else "kfabric:host")


def test_failure_is_one_whatever_its_teardown_says(run) -> None:
    """A skip there must not hide it."""
    _, document = run("""
import pytest

@pytest.fixture
def device():
    yield
    pytest.skip("no such device")

def test_a(device): assert 1 == 2
""")
    (one,) = document["tests"]
    assert one["status"] == "FAIL" and "1 == 2" in one["log_excerpt"]


def test_run_in_which_pytest_breaks_is_not_green(run, pytester) -> None:
    """It would be a document without tests."""
    pytester.makeconftest("def pytest_runtestloop(): raise RuntimeError('no loop')")
    _, document = run("def test_a(): pass\n", "--ktap=test.ktap")
    check(document)
    (one,) = document["tests"]
    assert (one["status"], one["path"]) == ("ERROR", "pytest.internal")
    assert "no loop" in one["log_excerpt"]
    assert "not ok 1 internal # ERROR in session" in (pytester.path / "test.ktap").read_text()


def test_nothing_is_invented(run) -> None:
    """The commit, the repository and the compiler of a distribution's kernel are not known."""
    _, document = run("def test_a(): pass\n")
    (checkout,), (build,) = document["checkouts"], document["builds"]
    assert set(checkout) == {"id", "origin", "comment"}
    assert set(build) == {"id", "origin", "comment", "checkout_id", "architecture"}


def test_origin_is_the_users(run) -> None:
    """KCIDB knows the CI system by it."""
    _, document = run("def test_a(): pass\n", "--kcidb-origin=my_ci")
    check(document)
    assert {one["origin"] for one in document["tests"]} == {"my_ci"}


def test_file_that_cannot_be_collected_is_an_error(run) -> None:
    _, document = run("import nonesuch\n")
    check(document)
    (one,) = document["tests"]
    assert (one["status"], one["path"]) == ("ERROR", "test_toy")
    assert "nonesuch" in one["log_excerpt"] and "start_time" not in one


def test_guest_that_dies_after_its_last_test_is_a_failure_of_its_own(run) -> None:
    """Otherwise the document would be green."""
    result, document = run(
        """
import atexit, os, signal

def panic():
    with open(os.environ["FAKE_CONSOLE"], "a") as console:
        console.write("[    9.000000] Kernel panic - not syncing: late\\n")
    os.kill(os.getpid(), signal.SIGKILL)

def test_a(): atexit.register(panic)
""",
        "--kfabric-vms=1",
        "--kfabric-dir=guests",
    )
    assert result.ret == ExitStatus.PANIC
    check(document)
    found = {one["path"]: one for one in document["tests"]}
    assert found["test_toy.test_a"]["status"] == "PASS"
    assert found["guests.guest0_0"]["status"] == "FAIL"
    assert "guest kernel panic: late" in found["guests.guest0_0"]["comment"]


def test_tests_that_did_not_run_are_missed() -> None:
    """As KCIDB calls it."""
    result = kcidb.of_trouble(Trouble(WHOLE, "5 tests did not run", "why"))
    assert (result["status"], result["misc"]) == ("MISS", {"test": "guests::run"})


def test_long_text_keeps_its_end() -> None:
    """The end has the error; the schema limits the length."""
    result = Result("a.py::test_b", "call", text=f"{'x' * 20_000}the end\0\udc80")
    excerpt = kcidb.of_result(result)["log_excerpt"]
    assert len(excerpt) == kcidb.EXCERPT and excerpt.endswith("the end\ufffd?")


def test_ids_of_two_runs_differ_and_their_kernel_does_not() -> None:
    """So KCIDB keeps the tests of both, of one build."""
    tests = [kcidb.of_result(Result("a.py::b"))]
    one, two = (Report("kfabric", "guest linux-6.1").to_json(tests) for _ in "12")
    assert one["builds"] == two["builds"]
    assert not ids(one, "tests") & ids(two, "tests")


@pytest.mark.parametrize("text", ["", "My", "my-ci", "my:ci", "a b"])
def test_bad_origin_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="a-z 0-9 _"):
        kcidb.origin(text)
