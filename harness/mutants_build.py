# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Builds mutants, one after the other in one directory, so that each costs seconds.

``build/mutants/<release>/`` holds ``base`` (the sources when the run began, so that
nobody's edits get mixed in), ``src`` (where they are built) and the modules of each
mutant in a directory of its own, which is kept as long as nothing changes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.errors import BuildError
from harness.mutants import Mutant
from harness.vm import cache, kbuild, kernel
from harness.vm.spec import Variant

PATCH_SECONDS = 30.0


def apply(patch: Path, tree: Path, check: bool = False) -> None:
    """Apply a patch to a directory tree, without any fuzz.

    :param check: only try.
    :raises BuildError: it does not fit (any more).
    """
    argv = ["patch", "-p1", "-F0", "-s", "-f", "-N", "-r-", "--no-backup-if-mismatch"]
    done = subprocess.run(
        [*argv, *(["--dry-run"] if check else []), "-d", str(tree), "-i", str(patch)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATCH_SECONDS,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{patch.name} does not apply", "adapt it", done.stdout)


class Workshop:
    """Where mutants are built.

    :param release: of the guest's kernel.
    """

    def __init__(self, source: Path, release: str) -> None:
        self._source = source
        self._release = release
        self._root = source / "build/mutants" / release
        self._base = self._root / "base"
        self._tree = self._root / "src"
        self._key = ""

    def original(self) -> Path:
        """Build everything as it is; to be called first.

        :return: the directory with the modules.
        :raises BuildError: it does not compile.
        """
        cache.require_plain(self._source)
        kbuild.sync(self._source, self._base)
        self._key = kbuild.key(self._base, self._release, Variant.TEST)
        return self._make("original", None)

    def mutant(self, mutant: Mutant) -> Path:
        """Build one mutant; the modules that use ours stay as they are.

        :return: the directory with the modules.
        :raises BuildError: the patch does not apply, or the result not compile.
        """
        return self._make(mutant.name, mutant.patch)

    def _make(self, name: str, patch: Path | None) -> Path:
        target = self._root / name
        stamp = target / "stamp"
        wanted = cache.key([self._key.encode(), patch.read_bytes() if patch else b""])
        if stamp.exists() and stamp.read_text() == wanted:
            return target
        stamp.unlink(missing_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        kbuild.sync(self._base, self._tree)
        if patch:
            apply(patch, self._tree)
        self._compile(Path(kbuild.CORE))
        for other in kbuild.trees(self._base)[1:]:
            # Their sources are the original's, and so are the symbols' versions.
            if not patch:
                self._compile(other)
        kbuild.collect(self._tree, target)
        stamp.write_text(wanted)
        return target

    def _compile(self, tree: Path) -> None:
        symvers = self._tree / kbuild.CORE / "Module.symvers"
        extra = symvers if tree != Path(kbuild.CORE) else None
        build = kernel.headers(self._release)
        argv = kbuild.make_argv(build, self._tree / tree, Variant.TEST, extra)
        kbuild.make(argv, self._tree)
