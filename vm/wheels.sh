#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
# wheels.sh PYTHON DIR: builds the wheels kfabric and kfabric-py into DIR. PYTHON has setuptools.
# They are built from a copy of the files that git knows: setuptools leaves files next to its
# sources, and would pack what else lies there.
set -eu

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$2"
target=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
git ls-files -z pyproject.toml LICENSES harness kfabric_py examples kmod tests/conftest.py \
	tests/guest vm | xargs -0 cp --parents -P -t "$copy"
rm -f "$target"/kfabric-*.whl "$target"/kfabric_py-*.whl
"$1" -m pip wheel -q --no-deps --no-build-isolation --no-index -w "$target" \
	"$copy" "$copy/kfabric_py"
