# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The probes of kfabric's tracepoints: kernel part, loader and recorder, for guests only."""
