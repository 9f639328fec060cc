# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Lines of source in a kernel's report: right ones, or none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kfabric.vm import sourcelines

# Lines 5 to 7 are at offsets 0, 1 and 6; g() has the same address in another section.
CODE = """\
	.text
	.globl f
	.type f, @function
f:
	nop
	call f
	nop
	.section .init.text, "ax"
	.type g, @function
g:
	nop
"""
INLINED = """\
static inline __attribute__((always_inline)) void trap(void) { __asm__ volatile("ud2"); }
void outer(void);
void outer(void)
{
	trap();
}
"""


def compiled(place: Path, name: str, text: str, *options: str) -> Path:
    """Compile a file as a module of its name."""
    (place / name).write_text(text)
    module = (place / name).with_suffix(".ko")
    argv = ["gcc", "-c", "-O2", "-fomit-frame-pointer", "-fcf-protection=none", *options]
    subprocess.run([*argv, "-o", str(module), str(place / name)], check=True)
    return module


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """The directory of a user's modules: "mine-1", which the kernel calls mine_1."""
    (tmp_path / "src/sub").mkdir(parents=True)
    compiled(tmp_path / "src/sub", "mine-1.S", CODE, "-g")
    return tmp_path


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        ("RIP: 0010:f+0x0/0x1000 [mine_1]", 5),
        ("RIP: 0010:f+0x6/0x1000 [mine_1]", 7),
        (" f+0x6/0x10 [mine_1]", 6),
        (" ? f+0x6/0x10 [mine_1]", 6),
        ("    [<000000003a8a8b0e>] f+0x6/0x10 [mine_1]", 6),
        ("RIP: 0010:g+0x0/0x10 [mine_1]", 11),
        (" f+0x6/0x10 [mine_1 4b825dc642cb6eb9a060e54bf8d69288fbee4904]", 6),
    ],
)
@pytest.mark.parametrize("stamp", ["", "[   17.972807] ", "[   17.972807][  T123] "])
def test_frame_has_its_line(built: Path, frame: str, line: int, stamp: str) -> None:
    """That of the call, where the kernel shows the address that the call returns to."""
    text = f"BUG: x\n{stamp}{frame}\r\nCode: 90"
    expected = f"BUG: x\n{stamp}{frame} (sub/mine-1.S:{line})\nCode: 90"
    assert sourcelines.add(text, built) == expected


@pytest.mark.parametrize(
    "line",
    [
        "RIP: 0010:f+0x0/0x1000 [another]",
        "RIP: 0010:f+0x0/0x1000",
        "RIP: 0010:h+0x0/0x1000 [mine_1]",
        "RIP: 0010:f+0x5000/0x6000 [mine_1]",
        "WARNING: CPU: 1 PID: 139 at /src/mine.c:17 f+0x0/0x1000 [mine_1]",
        "BUG: KASAN: use-after-free in f+0x1/0x10 [mine_1]",
    ],
)
def test_other_lines_stay_as_they_are(built: Path, line: str) -> None:
    """The titles of reports, too: they are compared."""
    assert sourcelines.add(f"{line}\r\n", built) == f"{line}\r\n"


def test_inlined_function_has_the_line_of_its_caller_too(built: Path) -> None:
    compiled(built / "src", "deep.c", INLINED, "-g")
    shown = sourcelines.add("RIP: 0010:outer+0x0/0x10 [deep]", built)
    assert shown == "RIP: 0010:outer+0x0/0x10 [deep] (deep.c:1, inlined at deep.c:5)"


def test_headers_of_the_kernel_are_named_once(built: Path) -> None:
    """The innermost, where the instruction is; then the lines of the module."""
    header = built / "kernel.h"
    always = "static inline __attribute__((always_inline)) void"
    trap = f'{always} trap(void) {{ __asm__ volatile("ud2"); }}\n'
    header.write_text(f"{trap}{always} twice(void) {{ trap(); }}\n")
    outer = INLINED.partition("\n")[2].replace("trap", "twice")
    compiled(built / "src", "far.c", f'#include "{header}"\n{outer}', "-g")
    shown = sourcelines.add("RIP: 0010:outer+0x0/0x10 [far]", built)
    assert shown == f"RIP: 0010:outer+0x0/0x10 [far] ({header}:1, inlined at far.c:5)"


def test_module_without_debug_information_has_no_lines(built: Path) -> None:
    compiled(built / "src", "bare.S", CODE)
    line = "RIP: 0010:f+0x0/0x10 [bare]"
    assert sourcelines.add(line, built) == line


def test_name_of_two_functions_has_no_line(built: Path) -> None:
    """Which of them it was is not known."""
    twice = CODE.replace("g:", "f2:").replace("g, @", "f2, @")
    module = compiled(built / "src", "twice.S", twice, "-g")
    subprocess.run(["objcopy", "--redefine-sym", "f2=f", str(module)], check=True)
    line = "RIP: 0010:f+0x0/0x10 [twice]"
    assert sourcelines.add(line, built) == line


def test_report_stays_as_it_is_without_the_tools(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(built))
    line = "RIP: 0010:f+0x0/0x10 [mine_1]"
    assert sourcelines.add(line, built) == line


@pytest.mark.parametrize(
    ("function", "offset", "line"), [("f", 6, "sub/mine-1.S:7"), ("h", 0, ""), ("f", 0x5000, "")]
)
def test_instruction_has_its_line(built: Path, function: str, offset: int, line: str) -> None:
    """That of the instruction itself; what is not known has none."""
    assert sourcelines.of("mine_1", function, offset, built) == line
