# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The parts of a command line that all subcommands share: arguments, their errors, tables."""
