# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Writers of the generated documents in docs/."""
