# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The kernels' names, and how modules are built for kernels of another suite."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kfabric.errors import ExitStatus, SetupError
from kfabric.guest import waiting
from kfabric.vm import apt, prepare, supply, versions
from kfabric.vm.headers import Headers
from kfabric.vm.spec import SLOW, VmSpec
from kfabric.vm.versions import Built, Stock, UnknownKernel, Version

TEXT = """
default = "old"
[kernels.old]
suite = "bookworm"
package = "linux-image-amd64"
[kernels.new]
suite = "trixie"
package = "linux-image-amd64"
archive = "trixie-backports"
"""


@pytest.fixture(autouse=True)
def _no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(versions.ENVIRONMENT, raising=False)


def test_a_kernel_is_found_by_its_name() -> None:
    new = Version("new", "trixie", Stock("linux-image-amd64", "trixie-backports"))
    assert versions.parse(TEXT).find("new") == new


def test_the_archive_is_by_default_the_userlands_suite() -> None:
    origin = versions.parse(TEXT).find("old").origin
    assert origin == Stock("linux-image-amd64", "bookworm")


def test_no_name_means_the_default_and_the_environment_changes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = versions.parse(TEXT)
    assert known.find().name == "old"
    monkeypatch.setenv(versions.ENVIRONMENT, "new")
    assert known.find().name == "new"
    assert known.find("old").name == "old"


def test_an_unknown_name_is_one_line_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownKernel) as caught:
        versions.parse(TEXT).find("6.66")
    assert caught.value.line() == "no such kernel: 6.66; vm/versions.toml has old, new"
    assert caught.value.status is ExitStatus.USAGE


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('default = "old"', "", "default"),
        ('default = "old"', 'default = "gone"', "gone"),
        ('suite = "trixie"', "", "new: .*suite"),
        ('suite = "trixie"', "suite = 13", "new: .*suite"),
        ("archive", "archiv", "new: .*archiv"),
    ],
)
def test_a_wrong_entry_is_refused(before: str, after: str, complaint: str) -> None:
    with pytest.raises(SetupError, match=complaint):
        versions.parse(TEXT.replace(before, after))


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vm").mkdir()
    (tmp_path / versions.FILE).write_text("default = \n")
    with pytest.raises(SetupError, match=versions.FILE):
        versions.load(tmp_path)


BUILT = """
[kernels.debug]
suite = "bookworm"
source = "linux-source-6.1"
configs = ["guest", "debug"]
memory_mib = 2560
slow = 6
append = ["a=1"]
"""


def test_a_kernel_may_be_built_here() -> None:
    """Its entry has its guests' requirements."""
    debug = versions.parse(TEXT + BUILT).find("debug")
    assert debug.origin == Built("linux-source-6.1", ("guest", "debug"))
    assert (debug.memory_mib, debug.slow, debug.append) == (2560, 6.0, ("a=1",))
    assert "debug" not in versions.parse(TEXT + BUILT).matrix()


def test_a_kernels_source_may_have_additions() -> None:
    """A kernel of Debian has none: it is built already."""
    found = versions.parse(TEXT + BUILT + 'additions = ["rv"]\n').find("debug")
    assert found.origin == Built("linux-source-6.1", ("guest", "debug"), ("rv",))
    with pytest.raises(SetupError, match="additions"):
        versions.parse(TEXT + 'additions = ["rv"]\n')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('["guest", "debug"]', '"guest"'),
        ('["guest", "debug"]', "[1]"),
        ("slow = 6", 'slow = "6"'),
        ("source =", 'package = "x"\nsource ='),
        ('configs = ["guest", "debug"]', ""),
    ],
)
def test_a_wrong_entry_of_a_built_kernel_is_refused(before: str, after: str) -> None:
    with pytest.raises(SetupError, match="debug: "):
        versions.parse(TEXT + BUILT.replace(before, after))


def test_a_guest_gets_what_its_kernel_needs() -> None:
    """More memory and time, its parameters, and its slowness; never less than the spec's."""
    debug = versions.parse(TEXT + BUILT).find("debug")
    spec = VmSpec(cmdline=("b=2",), env={"X": "y"}).on(debug)
    assert (spec.memory_mib, spec.cmdline) == (2560, ("a=1", "b=2"))
    assert spec.env == {"KFABRIC_SLOW": "6", "X": "y"}
    assert spec.deadlines.boot == 6 * VmSpec().deadlines.boot
    assert VmSpec(memory_mib=4096).on(debug).memory_mib == 4096
    stock = versions.parse(TEXT).find()
    assert VmSpec().on(stock) == VmSpec()
    assert SLOW == waiting.SLOW, "what the guest reads"


def test_the_projects_own_file_is_understood() -> None:
    assert versions.load(prepare.SOURCE).find().suite == apt.SUITE


SOURCES = [
    "http://mirror/bookworm/ bookworm main",
    "http://mirror/bookworm/ bookworm-updates main",
    "http://mirror/bookworm-security/ bookworm-security main",
    "http://elsewhere/ other main",
]


@pytest.mark.parametrize(
    ("suite", "lines"),
    [
        ("bookworm", SOURCES[:3]),
        (
            "trixie",
            [
                "http://mirror/bookworm/ trixie main",
                "http://mirror/bookworm/ trixie-updates main",
                "http://mirror/bookworm-security/ trixie-security main",
            ],
        ),
        ("trixie-backports", ["http://mirror/bookworm/ trixie-backports main"]),
        ("sid", ["http://mirror/bookworm/ sid main"]),
    ],
)
def test_another_suite_comes_from_where_the_hosts_own_does(
    monkeypatch: pytest.MonkeyPatch, suite: str, lines: list[str]
) -> None:
    monkeypatch.setattr(apt, "_read", lambda argv: SOURCES)
    assert apt.archives(suite) == [f"deb {line}" for line in lines]


def test_only_suites_without_releases_may_be_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "_read", lambda argv: [])
    late = 'Acquire::Check-Valid-Until "false"'
    assert late in apt.options("sid")
    assert late not in apt.options("trixie")


def test_only_the_hosts_own_suite_is_built_with_the_hosts_tools(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def make(*_: object) -> None:
        raise SetupError("a build root is wanted")

    monkeypatch.setattr(supply.buildroot, "ensure", make)
    own = Version("own", apt.SUITE, Stock("linux-image-amd64", apt.SUITE))
    assert isinstance(supply.of(tmp_path, own, print), supply.Host)
    for suite, archive in (("trixie", "trixie"), (apt.SUITE, "bookworm-backports")):
        with pytest.raises(SetupError, match="build root"):
            supply.of(tmp_path, Version("x", suite, Stock("linux-image-amd64", archive)), print)


def test_on_the_host_a_command_is_run_as_it_is(tmp_path: Path) -> None:
    assert Headers(tmp_path).command(["make", "modules"], tmp_path) == ["make", "modules"]


def test_in_a_build_root_a_command_finds_the_shared_directory(tmp_path: Path) -> None:
    """And the mount is not visible on the host."""
    root, shared = tmp_path / "root", tmp_path / "shared"
    shared.mkdir()
    needs = subprocess.check_output(["ldd", "/bin/sh"], text=True).split()
    for file in [word for word in needs if word.startswith("/")] + ["/bin/sh"]:
        (root / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / file[1:])
    headers = Headers(Path("/usr/src/x"), root)
    argv = ["/bin/sh", "-c", 'cd "$0" && echo "$1" >made', str(shared), "two words"]
    subprocess.run(headers.command(argv, shared), check=True, timeout=60)
    assert (shared / "made").read_text() == "two words\n"
    assert list((root / str(shared).lstrip("/")).iterdir()) == []


def test_the_headers_in_two_places_are_both_copied(tmp_path: Path) -> None:
    root, guest = tmp_path / "root", tmp_path / "guest"
    build, common = Path("/usr/src/linux-headers-7-amd64"), Path("/usr/src/linux-headers-7-common")
    for tree in (build, common):
        for part in ("include", "arch/x86/include"):
            (root / tree.relative_to("/") / part).mkdir(parents=True)
    (root / build.relative_to("/") / "Makefile").write_text(f"include {common}/Makefile\n")
    (root / common.relative_to("/") / "include/list.h").write_text("x")
    (guest / "lib/modules/7-amd64").mkdir(parents=True)
    Headers(build, root).install("7-amd64", guest)
    assert (guest / common.relative_to("/") / "include/list.h").read_text() == "x"
    assert (guest / "lib/modules/7-amd64/build").readlink() == build
    assert (guest / "lib/modules/7-amd64/source").readlink() == common
