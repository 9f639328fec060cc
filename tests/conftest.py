# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Shared by all tests: the plugin that runs them in guests."""

from __future__ import annotations

from kfabric.guest import in_guest

# Nested runs are for the host; importing what they need takes seconds in a guest.
pytest_plugins = ["kfabric.runner.plugin", *([] if in_guest() else ["pytester"])]
# They fail on purpose; a search names them (docs/tools.md).
collect_ignore = ["gallery"]
