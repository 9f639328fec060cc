# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Mutants: patches that each break the modules in one way, and the tests that must fail then."""
