# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What must be looked at behind a phase of a test also if the phase has failed."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

# Ends of the whole run: nobody waits for a look any more.
_ENDS = (KeyboardInterrupt, GeneratorExit, pytest.exit.Exception)
# What would hide a finding that it tells.
_EXCUSES = (pytest.skip.Exception, pytest.xfail.Exception)


def then(check: Callable[[], str]) -> Generator[None, object, object]:
    """Be the body of a hook's wrapper: fail the phase with what `check` finds behind it.

    A phase that has failed already keeps its failure, which tells that as well.
    """
    try:
        done = yield
    except _ENDS:
        raise
    except BaseException as error:
        if found := check():
            _tell(error, found)
        raise
    if found := check():
        pytest.fail(found, pytrace=False)
    return done


def _tell(error: BaseException, found: str) -> None:
    """Have the failure tell what was found, too."""
    if isinstance(error, _EXCUSES):
        pytest.fail(found, pytrace=False)
    if isinstance(error, pytest.fail.Exception):
        # pytest shows its own failures without their notes.
        error.msg = f"{error.msg}\n{found}"
    else:
        error.add_note(found)
