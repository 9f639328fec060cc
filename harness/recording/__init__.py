# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The record format of a recording, in C and in Python, and the names of its files."""

HEAD, RECORDS = "recording.json", "recording.bin"
"""Files of a recording: its head, and its packed records."""
