# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Rules of the contract as automata for the kernel's runtime verification (RV)."""
