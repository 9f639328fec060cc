# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric bench`: the cost of a wait, compared with the least that it can cost."""
