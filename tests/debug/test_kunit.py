# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The KUnit cases of the wait core, which run when kfabric is loaded on a kernel with KUnit."""

from __future__ import annotations

import re
from pathlib import Path

from kfabric.vm import prepare
from kfabric.vm.spec import Variant, VmSpec

CASES = prepare.SOURCE / "kmod/core/waitq_kunit.c"
RESULTS = "/sys/kernel/debug/kunit/kfabric_waitq/results"
LOAD = f"insmod $KFABRIC_MODULES/kfabric.ko && cat {RESULTS}"
SECONDS = 120.0


def test_each_case_passes(tmp_path: Path) -> None:
    """All that the source lists have run, and none of them complains."""
    spec = VmSpec(name="kunit", kernel="debug", variant=Variant.TEST)
    with prepare.vm(spec, tmp_path / "guest") as vm:
        done = vm.run(["sh", "-c", LOAD], timeout=SECONDS)
        assert vm.splats() == []
    assert done.rc == 0, done.err.decode()
    cases = re.findall(r"KUNIT_CASE\((\w+)\)", CASES.read_text())
    assert cases
    passed = re.findall(r"^ +ok \d+ -? ?(\w+)$", done.text, re.MULTILINE)
    assert passed == cases, done.text
