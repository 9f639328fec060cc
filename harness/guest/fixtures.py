# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The fixtures of tests/guest, as a plugin for tests in other directories.

A fixture in their own conftest.py replaces one of the same name.
"""

import importlib.util
import sys
from types import ModuleType

from kfabric.root import ROOT

HERE = ROOT / "tests/guest"


def load() -> ModuleType:
    """Import the conftest.py of tests/guest under another name."""
    # At the end, so that their modules come first.
    sys.path += [str(HERE), str(HERE / "support")]
    spec = importlib.util.spec_from_file_location("kfabric_fixtures", HERE / "conftest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
