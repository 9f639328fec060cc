# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""JUnit's file also has what no test's report tells: a test case of its own for each.

pytest writes the file before the guests have ended, so this is added to it behind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from harness.runner.outcome import Trouble

CLASS = "guests"
"""The class of these test cases, and so their line in the table of kernels."""

# A console may have any bytes, an XML file may not.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def path(option: str) -> Path:
    """The file that pytest makes of the option --junitxml."""
    return Path(os.path.expanduser(os.path.expandvars(option))).absolute()


def add(report: Path, troubles: Iterable[Trouble]) -> None:
    """Add an error for each to pytest's file."""
    tree = ElementTree.parse(report)
    suite = next(tree.iter("testsuite"))
    for trouble in troubles:
        suite.append(_case(trouble))
        for count in ("tests", "errors"):
            suite.set(count, str(int(suite.get(count, "0")) + 1))
    tree.write(report, encoding="utf-8", xml_declaration=True)


def _case(trouble: Trouble) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=CLASS, name=trouble.name, time="0.000")
    error = ElementTree.SubElement(case, "error", message=_plain(trouble.reason))
    error.text = _plain(trouble.text)
    return case


def _plain(text: str) -> str:
    """A text without what XML cannot have."""
    return _NOT_XML.sub("\ufffd", text)
