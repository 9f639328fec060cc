# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The recording: its record format in C and in Python, and the names of its files."""

HEAD, RECORDS = "recording.json", "recording.bin"
"""Files of a recording: what it is about, and its records."""
