# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Fails a phase of a test with findings that are made after it."""

from collections.abc import Callable, Generator, Iterable

import pytest

# These end the whole run, so no check follows.
_ENDS = (KeyboardInterrupt, GeneratorExit, pytest.exit.Exception)
# Outcomes that would hide a finding.
_EXCUSES = (pytest.skip.Exception, pytest.xfail.Exception)


def then(check: Callable[[], str]) -> Generator[None, object, object]:
    """The body of a hook's wrapper: fail the phase with the text that `check` returns.

    A phase that has failed already keeps its failure, with the text added. An empty text
    is no finding.
    """
    try:
        done = yield
    except _ENDS:
        raise
    except BaseException as error:
        if found := check():
            if isinstance(error, _EXCUSES):
                pytest.fail(found, pytrace=False)
            if isinstance(error, pytest.fail.Exception):
                # pytest shows its own failures without their notes.
                error.msg = f"{error.msg}\n{found}"
            else:
                error.add_note(found)
        raise
    if found := check():
        pytest.fail(found, pytrace=False)
    return done


def fail(report: pytest.TestReport, title: str, complaints: Iterable[str]) -> None:
    """Fail a phase that has its report already."""
    text = "\n".join(complaints)
    if report.outcome == "failed":
        add(report, title, text)
        return
    report.outcome = "failed"
    file, line, name = report.location
    report.longrepr = f"{file}:{(line or 0) + 1}: in {name}\n{text}"
    # An expected failure does not cover this one.
    report.__dict__.pop("wasxfail", None)


def add(report: pytest.TestReport, title: str, text: str) -> None:
    """Add a section to a failure's own text, which the terminal, JUnit and KTAP show.

    Of the report's sections JUnit has only pytest's own, and KTAP none.
    """
    if add_section := getattr(report.longrepr, "addsection", None):
        add_section(title, text)
    else:
        report.longrepr = f"{report.longreprtext}\n{f' {title} ':-^80}\n{text}"
