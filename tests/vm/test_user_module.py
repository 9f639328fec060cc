# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""`kfabric test --module` with a copy of the example ULP outside of the checkout, and --modprobe.

Sound, and broken: each broken one has one fault, and must be red for it, by name.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from doc_blocks import shown

from kfabric.errors import ExitStatus
from kfabric.root import ROOT
from tests.vm.commands import complaints, kfabric

EXAMPLE = ROOT / "examples/pingpong_ulp"
RUN_SECONDS = 400.0
TESTS = '''
from pathlib import Path

RESULT = Path("/sys/module/pingpong_ulp/parameters/result")


def played(wait_until):
    wait_until(lambda: not RESULT.read_text().startswith("state=playing"), "the end", 60)
    return RESULT.read_text()


def test_game_of_the_command_line(module):
    """It was loaded with its parameters before any test, on the existing link."""
    from kfabric.guest.waiting import wait_until

    assert module.loaded == ("pingpong_ulp",)
    text = played(wait_until)
    assert text.startswith("state=passed"), text
    assert text.count("messages=31") == 2


def test_another_game_beside_our_fixtures(module, verbs, mock):
    """A test may load it again, and use the project's fixtures."""
    from kfabric.guest.waiting import wait_until

    module.unload()
    module.load(addr=verbs.address, count=3)
    assert played(wait_until).count("messages=3 ") == 2
    mock.cq()


def test_it_is_as_before():
    """The previous test's module has been unloaded."""
    assert Path("/sys/module/pingpong_ulp/parameters/count").read_text() == "31\\n"
'''


@dataclass(frozen=True)
class Run:
    """The results of a nested run."""

    status: int
    output: str
    cases: dict[str, str]
    """Test -> the texts of its failures and errors."""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Run]:
    """Test a copy of the example, with one text of a file replaced by another."""
    directory = tmp_path / "their/mod"
    shutil.copytree(EXAMPLE, directory)
    (directory / "tests/test_game.py").write_text(TESTS)

    def run_it(
        file: str = "main.c",
        old: str = "",
        new: str = "",
        tests: str = "mod/tests/test_game.py",
        options: tuple[str, ...] = (),
    ) -> Run:
        text = (directory / file).read_text()
        assert old in text
        (directory / file).write_text(text.replace(old, new, 1) if old else text)
        report = tmp_path / "junit.xml"
        argv = ["test", "--vms=1", f"--kfabric-dir={tmp_path}/guests", f"--junitxml={report}"]
        argv += ["--module=mod"]
        argv += ["--module-param=addr={address}", "--module-param=pingpong_ulp.count=31"]
        done = kfabric(*argv, *options, "--", tests, seconds=RUN_SECONDS, cwd=directory.parent)
        return Run(done.returncode, done.stdout + done.stderr, complaints(report))

    return run_it


def test_sound_module_is_green(run) -> None:
    """Built, loaded with parameters, tested with our fixtures, unloaded; nothing is left.

    By its own test, too, which is there to be copied with it.
    """
    done = run(tests="mod/tests")
    assert done.status == ExitStatus.OK
    assert list(done.cases.values()) == ["", "", "", ""]


def test_probes_are_nothing_that_it_leaves_behind(run) -> None:
    """Those of --verify-wakeups hold references to kfabric until the end of the tests."""
    done = run(options=("--verify-wakeups",))
    assert done.status == ExitStatus.OK
    assert list(done.cases.values()) == ["", "", ""]


def test_object_that_stays_open_is_named(run) -> None:
    """The fabric of each side is never closed: class, id, and the thread that opened it.

    Also under the probes, which hold references themselves.
    """
    broken = "pp_close(side, &side->fabric->fid);", "side->fabric = NULL;"
    done = run("side.c", *broken, options=("--verify-wakeups",))
    assert done.status == ExitStatus.TEST_FAILED
    text = done.cases["test_it_is_as_before"]
    line = r"left behind, unloaded: kfabric's objects of class fabric: 0 before, \d after "
    assert re.search(line + r"\(fabric \d+, opened by \S+/\d+; fabric \d+, opened by ", text)
    assert "pingpong_ulp left behind, unloaded: users of kf" in text


def test_module_that_cannot_be_unloaded_is_named(run) -> None:
    """It holds a reference to itself."""
    done = run("main.c", "int err = 0;\n", "int err = 0;\n\n\t__module_get(THIS_MODULE);\n")
    assert done.status == ExitStatus.TEST_FAILED
    assert "unload pingpong_ulp: in use, 1 references" in "".join(done.cases.values())


def test_oops_in_its_init_is_named(run) -> None:
    """With its line of source. No test has run, so none fails: the run does."""
    before = (EXAMPLE / "main.c").read_text().partition("int err = 0;\n")[0]
    done = run("main.c", "int err = 0;\n", "int err = *(volatile int *)8;\n")
    assert done.status == ExitStatus.PANIC
    assert "while the modules of" in done.output and "their/mod were loaded" in done.output
    assert list(done.cases) == ["run"]
    line = rf"RIP: \w+:pp_init\+\S+ \[pingpong_ulp\] \(main\.c:{before.count(chr(10)) + 1}\)"
    assert re.search(line, done.cases["run"])


def test_compile_error_is_the_compilers(run) -> None:
    """No guest boots for it."""
    done = run("main.c", "int err = 0;\n", "int err = nobody;\n")
    assert done.status == ExitStatus.BUILD
    assert "their/mod/main.c:" in done.output
    last = done.output.splitlines()[-1]
    assert last.startswith("kfabric: module build failed: ") and "nobody" in last


def test_makefile_without_a_module_is_refused(run) -> None:
    """And is distinguished from one that does not build."""
    done = run("Kbuild", "obj-m += pingpong_ulp.o", "")
    assert done.status == ExitStatus.USAGE
    assert "their/mod builds no module" in done.output


def test_parameter_that_it_does_not_have_is_refused(run) -> None:
    """No guest boots for it."""
    done = run(options=("--module-param=nosuch=1",))
    assert done.status == ExitStatus.USAGE
    line = "--module-param nosuch=1: pingpong_ulp has no parameter nosuch; it has addr, count, "
    assert line in done.output.splitlines()[-1]
    assert "booting" not in done.output
    assert done.cases == {}


# Of the documents, as it is printed there.
IMAGE_TESTS = f"""{shown("tests/vm/test_user_module.py").text}

def test_guest_has_no_kfabric():
    assert not Path("/sys/module/kfabric").exists()
"""

# For a guest with three CPUs, 1500 MiB, and a kernel parameter.
ASKED_TESTS = """
import os
from pathlib import Path


def test_guest_is_as_asked_for():
    assert os.cpu_count() == 3
    assert "ifb.asked=yes" in Path("/proc/cmdline").read_text().split()
    total = Path("/proc/meminfo").read_text().split()[1]
    assert 1350 * 1024 < int(total) < 1500 * 1024
"""


@pytest.fixture
def probe(tmp_path: Path) -> Callable[..., Run]:
    """Test modules of the image."""
    directory = tmp_path / "theirs"
    directory.mkdir()

    def probe_it(*words: str, tests: str = IMAGE_TESTS) -> Run:
        (directory / "test_ifb.py").write_text(tests)
        report = tmp_path / "junit.xml"
        argv = ["test", "--vms=1", f"--junitxml={report}", f"--kfabric-dir={tmp_path}/guests"]
        done = kfabric(*argv, *words, "--", "test_ifb.py", seconds=RUN_SECONDS, cwd=directory)
        assert [path.name for path in directory.iterdir()] == ["test_ifb.py"]
        return Run(done.returncode, done.stdout + done.stderr, complaints(report))

    return probe_it


def test_module_of_the_image_is_loaded_and_unloaded(probe) -> None:
    """Its devices would be left behind, if it stayed; nothing else is loaded for it."""
    done = probe("--modprobe=ifb", "--module-param=numifbs=3")
    assert done.status == ExitStatus.OK
    assert list(done.cases.values()) == ["", ""]


def test_guest_has_the_memory_the_cpus_and_the_parameters_asked_for(probe) -> None:
    words = ["--memory=1500", "--cpus=3", "--append=ifb.asked=yes"]
    done = probe("--modprobe=ifb", *words, tests=ASKED_TESTS)
    assert done.status == ExitStatus.OK, done.output
    assert list(done.cases.values()) == [""]
    assert "1 guest of 1500 MiB" in done.output


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (["--modprobe=nosuch"], ExitStatus.USAGE, "no such kernel module: nosuch in kernel "),
        (
            ["--modprobe=ifb", "--module-param=nosuch=1"],
            ExitStatus.MODULE_LOAD,
            "ifb has no parameter nosuch",
        ),
    ],
)
def test_what_the_kernel_does_not_have_is_named(
    probe, words: list[str], status: ExitStatus, reason: str
) -> None:
    """In one line, before any test."""
    done = probe(*words)
    assert done.status == status
    assert reason in done.output
    # Of a run whose guest has booted, the results have the reason.
    assert done.cases.keys() <= {"run"}
