# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric top``: what every kfabric object counts, looked at again and again."""
