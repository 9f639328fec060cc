# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The commands of the documents that need a guest, run as they are printed.

Those that take seconds are a part of make test-all. For the others, `make documents`, a reader
has a copy of the checkout and sets it up; `-m hours` chooses those that take longer still.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import doc_reader
import doc_runs
import pytest
from doc_reader import Reader
from doc_runs import Play

from kfabric.vm import cache

# For one command: a limit for what hangs. The first one builds what is missing.
SECONDS = {doc_runs.VM: 400.0, doc_runs.DOCUMENTS: 3600.0, doc_runs.HOURS: 48 * 3600.0}

INSTALLED = "~/kfabric/bin/python -c 'from kfabric.vm.source import SOURCE; print(SOURCE)'"


@pytest.mark.parametrize("play", doc_runs.plays(doc_runs.VM), ids=str)
def test_commands_of_a_block_do_what_the_page_says(play: Play, tmp_path: Path) -> None:
    """In a directory that looks like the checkout; each has its status and prints its text."""
    doc_reader.playground(tmp_path).play(play, SECONDS[play.suite])


@pytest.fixture(scope="module")
def reader(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Reader]:
    """A reader who has made the set-up; what it has made stays if a test fails."""
    home = tmp_path_factory.mktemp("home")
    reader = doc_reader.copy(home)
    assert reader.type("make setup", home / "src", SECONDS[doc_runs.DOCUMENTS])[0] == 0
    yield reader
    if (home / "kfabric/bin/kfabric").exists():
        # An installed tool, which has made a checkout of its own.
        status, output = reader.type(INSTALLED, home, SECONDS[doc_runs.VM])
        place = Path(output.split()[-1])
        assert status == 0 and place.parent == cache.root() / "checkouts"
        shutil.rmtree(place)
    if not request.session.testsfailed:
        shutil.rmtree(home)


@pytest.mark.parametrize(
    "play",
    [
        pytest.param(play, marks=getattr(pytest.mark, play.suite), id=str(play))
        for play in doc_runs.plays(doc_runs.DOCUMENTS, doc_runs.HOURS)
    ],
)
def test_block(play: Play, reader: Reader) -> None:
    """The same for long commands, in a checkout of their own."""
    reader.play(play, SECONDS[play.suite])
