# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The short subcommands of `kfabric`, one module each."""
