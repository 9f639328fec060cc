# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``--kcidb FILE``: writes the results as JSON for KCIDB, the database of kernelci.org.

The schema is version 5.3 of https://github.com/kernelci/kcidb-io. What is not known, such as the
commit of a distribution's kernel, is left out.
"""

import argparse
import json
import platform
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kfabric.runner.outcome import WHOLE, Result, Trouble

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

    def to_json(self, found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """The document of these tests."""
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
                **test,
            }
            for number, test in enumerate(found, 1)
        ]
        return {"version": VERSION, "checkouts": [common], "builds": [build], "tests": tests}


def of_result(result: Result) -> dict[str, Any]:
    """What a test itself knows of the object of the schema."""
    found = _test(result.test, _status(result), _comment(result), result.text)
    if result.began is not None:
        found["start_time"] = datetime.fromtimestamp(result.began, UTC).isoformat()
        found["duration"] = round(result.seconds, 6)
    return found


def _status(result: Result) -> str:
    if result.failed:
        return "FAIL" if result.failed in ("call", "teardown") else "ERROR"
    return "SKIP" if result.skipped else "PASS"


def _comment(result: Result) -> str:
    if result.failed:
        return result.where
    return f"expected to fail: {result.reason}" if result.expected else result.reason


def of_trouble(trouble: Trouble) -> dict[str, Any]:
    """A problem outside of any test: a guest's bad end, or tests that did not run."""
    status = "MISS" if trouble.name == WHOLE else "FAIL"
    return _test(f"guests::{trouble.name}", status, trouble.reason, trouble.text)


def _test(name: str, status: str, comment: str, text: str) -> dict[str, Any]:
    found: dict[str, Any] = {"status": status, "path": path(name), "misc": {"test": name}}
    if comment:
        found["comment"] = _text(comment)
    if text:
        found["log_excerpt"] = _text(text)[-EXCERPT:]
    return found


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
    for name, key in (("checkouts", _id), ("builds", _id), ("tests", _name)):
        found: dict[Any, Any] = {}
        for one in (one for document in documents for one in document[name]):
            found.setdefault(key(one), one)
        whole[name] = list(found.values())
    build = whole["builds"][0]
    added = Report(build["origin"], build["comment"]).to_json(map(of_trouble, troubles))
    whole["tests"] += added["tests"]
    return whole


def save(
    file: Path, report: Report, results: Iterable[Result], troubles: Iterable[Trouble]
) -> None:
    """Write the document of a run."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write(file, report.to_json([*map(of_result, results), *map(of_trouble, troubles)]))


def write(file: Path, document: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _id(one: Mapping[str, Any]) -> Any:
    return one["id"]


def _name(one: Mapping[str, Any]) -> Any:
    """All shards report a file that cannot be collected; each has guests of its own."""
    name = one["misc"]["test"]
    return one["id"] if name.startswith("guests::") else name


def _text(text: str) -> str:
    """A text without characters that the schema or a database refuses."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()
