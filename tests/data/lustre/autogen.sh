#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
# Makes the script configure.
set -eu

install -m 755 configure.in configure
