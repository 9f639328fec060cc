# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Builds mutants one after the other in one directory, so that each takes seconds.

`build/mutants/<release>/` holds `base` (the sources when the run began, so that later edits stay
out), `src` (the build tree) and a directory with the modules of each mutant, which is kept as
long as base and patch stay the same.
"""

import shutil
from pathlib import Path

from kfabric.errors import BuildError
from kfabric.mutants.catalogue import Mutant
from kfabric.vm import cache, kbuild, prepare, supply, tools
from kfabric.vm.spec import Image, Variant

PATCH_SECONDS = 30.0


def apply(patch: Path, tree: Path, check: bool = False) -> None:
    """Apply a patch to a directory tree without any fuzz, or with `check` only try it.

    Raises:
        BuildError: the patch does not fit.
    """
    argv = ["patch", "-p1", "-F0", "-s", "-f", "-N", "-r-", "--no-backup-if-mismatch"]
    argv += ["--dry-run"] if check else []
    done = tools.captured([*argv, "-d", str(tree), "-i", str(patch)], PATCH_SECONDS)
    if done.returncode:
        raise BuildError(f"{patch.name} does not apply", "adapt it", done.stdout)


class Builder:
    """Builds the modules of a checkout, and its mutants, for the guests' image."""

    def __init__(self, source: Path, image: Image) -> None:
        self._source = source
        self._image = image
        self._root = source / "build/mutants" / image.release
        self._base = self._root / "base"
        self._tree = self._root / "src"
        self._key = ""

    def original(self) -> Path:
        """Build everything unchanged; has to be called first.

        Returns:
            The directory with the modules.

        Raises:
            BuildError: the modules do not compile.
        """
        cache.require_plain(self._source)
        with cache.locked(self._root / "lock"):
            kbuild.sync(self._source, self._base)
            paths = sorted(p for p in (self._base / kbuild.CORE).rglob("*") if p.is_file())
            self._key = cache.key(
                [self._image.release.encode(), *(path.read_bytes() for path in paths)]
            )
            target = self._make("original", None)
            kbuild.sync(self._base, self._tree)
            for other in kbuild.trees(self._base)[1:]:
                kbuild.forget_linked(self._tree / other)
                self._compile(other)
                kbuild.strip((self._tree / other).rglob("*.ko"), target)
        return target

    def mutant(self, mutant: Mutant) -> Path:
        """Build one mutant; modules that use ours are taken from the original.

        Returns:
            The directory with the modules.

        Raises:
            BuildError: the patch does not apply, or the result does not compile.
        """
        with cache.locked(self._root / "lock"):
            target = self._make(mutant.name, mutant.patch)
            for module in (self._root / "original").glob("*.ko"):
                if not (self._tree / kbuild.CORE / module.name).exists():
                    shutil.copyfile(module, target / module.name)
        return target

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
        kbuild.collect(self._tree / kbuild.CORE, target)
        stamp.write_text(wanted)
        return target

    def _compile(self, tree: Path) -> None:
        place = supply.of(self._source, self._image.version, prepare.say)
        headers = place.headers(self._image.release)
        kbuild.make(kbuild.tree_command(headers, self._tree, tree, Variant.TEST), self._tree)
