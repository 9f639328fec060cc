# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric trace``: the tracer of any wait queue of any kernel module.

``tracer`` and ``guest`` run on the traced kernel, with only Debian's own Python and bcc.
``command``, ``watch`` and ``table`` make the output.
"""
