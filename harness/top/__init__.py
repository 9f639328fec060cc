# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric top`: the counts of every kfabric object, sampled again and again."""
