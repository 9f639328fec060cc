# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The verdict on a recording: pure functions from records to findings."""
