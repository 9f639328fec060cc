# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What all subcommands share: arguments and their errors, tables, the output of a command."""
