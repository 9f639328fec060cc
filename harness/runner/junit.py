# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Adds the problems that no test report shows to pytest's JUnit file, as test cases.

pytest writes the file before the guests have ended, so this runs afterwards.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from kfabric.runner.outcome import Trouble

CLASS = "guests"
"""Class of these test cases, and their row in the table of kernels."""

# Characters that a console may print, but an XML file may not have.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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


def _plain(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
