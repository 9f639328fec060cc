# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Imports of a test process, run in a guest before it is frozen, to save their time later.

The host sends this file's text to the guest, or the errand has it. There is no checkout yet: it may
import only packages of the image.
"""

# ruff: noqa: F401

import asyncio
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import fcntl
import gc
import io
import mmap
import os
import queue
import shlex
import statistics
import tempfile
import tomllib
import unittest.mock
import xml.etree.ElementTree

import execnet
import pyroute2
import pytest

# A session without tests makes pytest find, import and rewrite its plugins.
with tempfile.TemporaryDirectory() as empty, contextlib.redirect_stdout(io.StringIO()):
    os.chdir(empty)
    pytest.main(["-p", "no:cacheprovider", "-p", "no:hypothesispytest"])
    os.chdir("/")

# Nothing of all this becomes garbage. To look through it again and again takes a third of the time
# in which a test session starts.
gc.collect()
gc.freeze()
