# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The static checks find what they are for, and nothing else."""

from __future__ import annotations

from pathlib import Path

from kfabric.commands import check
from kfabric.commands.check import Exemption

DOCUMENTED = """\
/**
 * kfi_wait - sleep until something is ready
 */
int kfi_wait(void)
{
}
EXPORT_SYMBOL_GPL(kfi_wait);
"""


def test_an_export_needs_kernel_doc() -> None:
    assert check.undocumented(DOCUMENTED) == []
    bare = DOCUMENTED.replace("/**", "/*")
    assert check.undocumented(bare) == ["kfi_wait"]


def test_the_kernel_doc_of_another_function_does_not_count() -> None:
    other = DOCUMENTED.replace(" * kfi_wait -", " * kfi_wait_open -")
    assert check.undocumented(other) == ["kfi_wait"]


def test_an_exemption_covers_its_kind_in_its_files() -> None:
    lines = [
        "kmod/include/kfabric.h:3: CHECK:BIT_MACRO: Prefer BIT",
        "kmod/core/cq.c:3: CHECK:BIT_MACRO: Prefer BIT",
        "kmod/include/kfabric.h:9: WARNING:LONG_LINE: too long",
    ]
    allowed = [Exemption("BIT_MACRO", "kmod/include/*.h")]
    assert check.unexempted(lines, allowed) == lines[1:]


def test_an_exemption_that_covers_nothing_is_a_finding() -> None:
    (finding,) = check.unexempted([], [Exemption("BIT_MACRO", "kmod/*.h")])
    assert "BIT_MACRO kmod/*.h exempts nothing" in finding


def test_the_licence_is_in_one_of_the_first_two_lines(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("#!/bin/sh\n# SPDX-License-Identifier: MIT\n")
    assert check.has_spdx(path)
    path.write_text("\n\n# SPDX-License-Identifier: MIT\n")
    assert not check.has_spdx(path)
