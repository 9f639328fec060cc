# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--kcidb FILE``: writes the results as JSON for KCIDB, the database of kernelci.org.

The schema is version 5.3 of https://github.com/kernelci/kcidb-io. What is not known, such as the
commit of a distribution's kernel, is left out.
"""

import argparse
import json
import platform
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kfabric.runner.ktap import skip_reason
from kfabric.runner.outcome import WHOLE, Trouble

VERSION = {"major": 5, "minor": 3}
ORIGIN = "kfabric"
"""The name of the CI system, if the user gives no other."""
# The longest log_excerpt.
EXCERPT = 16384


def origin(text: str) -> str:
    """A type of arguments: the name of a CI system."""
    if not re.fullmatch("[a-z0-9_]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the characters a-z 0-9 _")
    return text


@dataclass
class Result:
    """Result of one test; its worst phase counts.

    Attributes:
        test: its name in pytest, or in what kfabric adds.
        status: PASS, FAIL, ERROR, SKIP or MISS.
        comment: why it was skipped, or a failure in one line.
        text: the details of a failure.
        began: in seconds since 1970, by the host's clock; `None` if it did not run.
        seconds: how long it ran.
        ended: whether its last phase was reported.
    """

    test: str
    status: str = "PASS"
    comment: str = ""
    text: str = ""
    began: float | None = None
    seconds: float = 0.0
    ended: bool = True

    def add(self, report: pytest.TestReport) -> None:
        """Take one phase into account."""
        self.seconds += report.duration
        self.ended = report.when == "teardown" or report.failed
        if report.failed:
            # After a test the guest is checked: a splat or a leak fails the teardown.
            self.status = "ERROR" if report.when == "setup" else "FAIL"
            self.comment = "" if report.when == "call" else f"in {report.when}"
            self.text += report.longreprtext
        elif hasattr(report, "wasxfail"):
            self.comment = f"expected to fail: {report.wasxfail}"
            self.status = "SKIP" if report.skipped else self.status
        elif report.skipped:
            self.status, self.comment = "SKIP", skip_reason(report)

    def to_json(self) -> dict[str, Any]:
        """What the test itself knows of the object of the schema."""
        known: dict[str, Any] = {"status": self.status, "path": path(self.test)}
        known["misc"] = {"test": self.test}
        if self.comment:
            known["comment"] = _text(self.comment)
        if self.text:
            known["log_excerpt"] = _text(self.text)[-EXCERPT:]
        if self.began is not None:
            known["start_time"] = datetime.fromtimestamp(self.began, UTC).isoformat()
            known["duration"] = round(self.seconds, 6)
        return known


@dataclass
class Report:
    """A document: the tests of one pytest run, on one kernel.

    Attributes:
        origin: the name of the CI system.
        title: of the run; ends in ``linux-RELEASE`` if the tests ran in guests.
        run: what the ids of its tests begin with; no other run has the same.
    """

    origin: str
    title: str
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    def to_json(self, results: Iterable[Result]) -> dict[str, Any]:
        kernel = re.search(r"linux-\S+$", self.title)
        where = "in a QEMU guest" if kernel else "on the host, without a kernel of its own"
        name = kernel[0] if kernel else "host"
        # The same kernel has the same id in each run, so that KCIDB and a merge see one.
        common = {"id": f"{self.origin}:{name}", "origin": self.origin, "comment": name}
        build = {**common, "checkout_id": common["id"], "architecture": platform.machine()}
        tests = [
            {
                "id": f"{self.origin}:{self.run}-{number}",
                "origin": self.origin,
                "build_id": common["id"],
                "environment": {"comment": f"{self.title}, {where}"},
                **result.to_json(),
            }
            for number, result in enumerate(results, 1)
        ]
        return {"version": VERSION, "checkouts": [common], "builds": [build], "tests": tests}


class Kcidb:
    """Collects results and writes the file at the end.

    ``more`` returns the problems outside of any test; it is called at the end.
    """

    def __init__(self, path: Path, report: Report, more: Callable[[], Iterable[Trouble]]) -> None:
        self._path = path
        self._report = report
        self._more = more
        self._results: dict[str, Result] = {}

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file whose tests cannot be collected."""
        if report.failed:
            text = report.longreprtext
            self._results[report.nodeid] = Result(report.nodeid, "ERROR", "collection", text)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid not in self._results:
            began = time.time() - report.duration
            self._results[report.nodeid] = Result(report.nodeid, began=began)
        self._results[report.nodeid].add(report)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self) -> None:
        """Write the file, now that the guests' ends are known."""
        for result in self._results.values():
            if not result.ended and result.status != "FAIL":
                result.status, result.comment = "ERROR", "did not end"
        results = [*self._results.values(), *map(of_trouble, self._more())]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write(self._path, self._report.to_json(results))


def of_trouble(trouble: Trouble) -> Result:
    """A problem outside of any test: a guest's bad end, or tests that did not run."""
    status = "MISS" if trouble.name == WHOLE else "FAIL"
    return Result(f"guests::{trouble.name}", status, trouble.reason, trouble.text)


def path(test: str) -> str:
    """The place in KCIDB's tree of tests: words of letters, digits, _ and -, with dots between.

    ``tests/guest/test_cq.py::test_read[a-1]`` is ``tests.guest.test_cq.test_read.a-1``.
    """
    file, _, name = test.partition("::")
    name, _, parameters = name.partition("[")
    words = [*file.removesuffix(".py").split("/"), *name.split("::"), parameters.removesuffix("]")]
    return ".".join(re.sub("[^a-zA-Z0-9_-]", "_", word) for word in words if word)


def merge(
    documents: Sequence[Mapping[str, Any]], troubles: Iterable[Trouble] = ()
) -> dict[str, Any]:
    """One document of several and of more problems; what is in two of them is there once."""
    whole: dict[str, Any] = {"version": VERSION}
    for name, key in (("checkouts", _id), ("builds", _id), ("tests", _test)):
        found: dict[Any, Any] = {}
        for one in (one for document in documents for one in document[name]):
            found.setdefault(key(one), one)
        whole[name] = list(found.values())
    build = whole["builds"][0]
    added = Report(build["origin"], build["comment"]).to_json(map(of_trouble, troubles))
    whole["tests"] += added["tests"]
    return whole


def write(file: Path, document: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _id(one: Mapping[str, Any]) -> Any:
    return one["id"]


def _test(one: Mapping[str, Any]) -> Any:
    """All shards report a file that cannot be collected; each has guests of its own."""
    name = one["misc"]["test"]
    return one["id"] if name.startswith("guests::") else name


def _text(text: str) -> str:
    """A text without characters that the schema or a database refuses."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()
