# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Adds to pytest's JUnit file what pytest does not know, and merges the files of shards.

The problems that no test report shows become test cases. pytest writes the file before the guests
have ended, so this runs afterwards.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from kfabric.runner.outcome import Trouble

CLASS = "guests"
"""Class of these test cases, and their row in the table of kernels."""

SUFFIXES = (".xml", ".ktap", ".kcidb.json")
"""Of the three files with the results of a run."""

# Characters that a console may print, but an XML file may not have.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def begin(report: Path, name: str) -> None:
    """Write a file without test cases, as pytest does at the end of a session."""
    suites = ElementTree.Element("testsuites", name="pytest tests")
    counts = dict.fromkeys(("errors", "failures", "skipped", "tests"), "0")
    ElementTree.SubElement(suites, "testsuite", counts, name=name, time="0.000")
    report.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suites).write(report, encoding="utf-8", xml_declaration=True)


def add(report: Path, troubles: Iterable[Trouble]) -> None:
    tree = ElementTree.parse(report)
    suite = next(tree.iter("testsuite"))
    for trouble in troubles:
        case = ElementTree.SubElement(suite, "testcase", classname=CLASS, name=trouble.name)
        case.set("time", "0.000")
        error = ElementTree.SubElement(case, "error", message=_plain(trouble.reason))
        error.text = _plain(trouble.text)
        for count in ("tests", "errors"):
            suite.set(count, str(int(suite.get(count, "0")) + 1))
    tree.write(report, encoding="utf-8", xml_declaration=True)


def mark(report: Path, properties: Mapping[str, str]) -> None:
    """Add properties of the whole run; an earlier one of the same name is replaced."""
    tree = ElementTree.parse(report)
    suite = next(tree.iter("testsuite"))
    known = suite.find("properties")
    if known is None:
        known = ElementTree.Element("properties")
        suite.insert(0, known)
    for one in [one for one in known if one.get("name") in properties]:
        known.remove(one)
    for name, value in properties.items():
        ElementTree.SubElement(known, "property", name=name, value=_plain(value))
    tree.write(report, encoding="utf-8", xml_declaration=True)


def marked(report: Path, name: str) -> str:
    """A property of the whole run, or nothing."""
    suite = next(ElementTree.parse(report).iter("testsuite"))
    found = suite.find(f"properties/property[@name='{name}']")
    return "" if found is None else found.get("value", "")


def failed(report: Path) -> list[str]:
    """The names of the tests that failed; a guest that did not boot, say, is none."""
    cases = ElementTree.parse(report).iter("testcase")
    tests = [case for case in cases if case.get("classname") != CLASS]
    bad = [case for case in tests if {child.tag for child in case} & {"failure", "error"}]
    return [".".join(filter(None, _key(case))) for case in bad]


def merge(reports: Sequence[Path], merged: Path) -> None:
    """Write the test cases of some runs as one run, whose time is the sum.

    A case that a second run has, too, is a file that cannot be collected; it counts once.
    """
    tree = ElementTree.parse(reports[0])
    suite = next(tree.iter("testsuite"))
    for known in suite.findall("properties"):
        suite.remove(known)
    seen = {_key(case) for case in suite.iter("testcase")}
    seconds = float(suite.get("time", "0"))
    for report in reports[1:]:
        other = next(ElementTree.parse(report).iter("testsuite"))
        seconds += float(other.get("time", "0"))
        suite.extend(
            case
            for case in other.findall("testcase")
            if case.get("classname") == CLASS or _key(case) not in seen
        )
        seen |= {_key(case) for case in other.iter("testcase")}
    counts = {"tests": "testcase", "errors": "testcase/error", "failures": "testcase/failure"}
    for count, where in {**counts, "skipped": "testcase/skipped"}.items():
        suite.set(count, str(len(suite.findall(where))))
    suite.set("time", f"{seconds:.3f}")
    tree.write(merged, encoding="utf-8", xml_declaration=True)


def _key(case: ElementTree.Element) -> tuple[str | None, str | None]:
    return case.get("classname"), case.get("name")


def _plain(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
