# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What a guest's Python does before the guest is frozen, so that no test process has to.

The text of this file is sent to the guest, which has no checkout yet: only what the
image has can be imported.
"""

# ruff: noqa: F401

import asyncio
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import fcntl
import io
import os
import queue
import shlex
import statistics
import tempfile
import unittest.mock
import xml.etree.ElementTree

import execnet
import pyroute2
import pytest

# A session without tests: pytest finds its plugins, imports and rewrites them.
with tempfile.TemporaryDirectory() as empty, contextlib.redirect_stdout(io.StringIO()):
    os.chdir(empty)
    pytest.main(["-p", "no:cacheprovider", "-p", "no:hypothesispytest"])
    os.chdir("/")
