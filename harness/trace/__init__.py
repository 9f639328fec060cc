# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The tracer of any wait queue of any kernel module: ``kfabric trace``.

``tracer`` and ``guest`` run where the kernel is that is watched, with Debian's own
Python and bcc and nothing else; ``command`` and ``table`` are what a person sees.
"""
