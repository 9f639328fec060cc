# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric post-mortem`: the sleeping threads in the memory of a guest that panicked."""
