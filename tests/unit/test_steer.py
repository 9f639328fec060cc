# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Steering: the plugin's board, the plans that are written to it, and the names of points."""

from __future__ import annotations

import json
import math
import re
import struct
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from kfabric import names
from kfabric.guest import aim
from kfabric.steer import board, plan, show
from kfabric.steer.board import Holds
from kfabric.steer.plan import Aim, Function, Plan
from kfabric.vm import argv, plugins

BASE = board.AREA.start
HOLDS = Holds(7, 2, 1_000_000, 0b1001)
FUNCTIONS = [Function("put", 0x40), Function("get", 0x100), Function("init", 0x200)]


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A board as the plugin makes it."""
    path = tmp_path / names.BOARD
    with path.open("wb") as file:
        file.truncate(board.SIZE)
    return path


def head(path: Path) -> bytes:
    """What precedes the counts, and the points that are chosen."""
    with path.open("rb") as file:
        return file.read(24 + 16 * 88 + 8)


def entry(path: Path, number: int) -> tuple[str, int, int, int, int]:
    """One entry of the modules, read as plugin.c declares it."""
    name, *rest = struct.unpack_from("<56sQQQQ", head(path), 24 + number * 88)
    return (name.rstrip(b"\0").decode(), *rest)


def pass_point(path: Path, number: int, visits: int, holds: int, held_ns: int) -> None:
    """Count at a point, as the plugin does."""
    with path.open("r+b") as file:
        file.seek(24 + 16 * 88 + (1 << 22) // 8 + number * 16)
        file.write(struct.pack("<IIQ", visits, holds, held_ns))


def test_board_has_the_size_that_the_plugin_maps(tmp_path: Path) -> None:
    """The numbers in plugin.c and in board.py are the same."""
    source = board.PLUGIN.read_text()
    assert re.search(r"#define MODULES (\d+)", source)[1] == str(board.MODULES)  # type: ignore[index]
    assert "#define POINTS (1U << 22)" in source and board.POINTS == 1 << 22
    begin, end = re.findall(r"#define MODULES_\w+ (0x\w+)ULL", source)
    assert board.AREA == range(int(begin, 16), int(end, 16))
    assert board.SIZE == 24 + 16 * 88 + (1 << 22) // 8 + (1 << 22) * 16


@pytest.mark.parametrize(("text", "version"), [("7.2.22", 1), ("9.0.0", 2), ("10.0.2", 2)])
def test_plugin_has_the_interface_that_qemu_takes(
    text: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU 9 and later refuse the first one; the version has two digits by now."""
    monkeypatch.setattr(argv, "version", lambda: f"QEMU emulator version {text} (Debian)")
    assert plugins.gcc()[-1] == f"-DINTERFACE={version}"


def test_plugin_compiles_with_the_layout_that_the_host_reads(tmp_path: Path) -> None:
    """The size of the board, and the places of the chosen points and of the counts."""
    source = tmp_path / "layout.c"
    wanted = {"modules": 24, "chosen": 24 + 16 * 88, "points": 24 + 16 * 88 + (1 << 22) // 8}
    checks = [f"offsetof(struct board, {name}) == {at}" for name, at in wanted.items()]
    checks += [f"sizeof(struct board) == {board.SIZE}", "offsetof(struct module, end) == 80"]
    asserts = "".join(f'_Static_assert({check}, "");\n' for check in checks)
    source.write_text(f'#include "{board.PLUGIN}"\n{asserts}')
    argv = [*plugins.gcc(), "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "so"), str(source)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_module_is_aimed_at_where_it_is(empty: Path) -> None:
    """Its entry has its addresses, and the board the seed's numbers and its points."""
    board.aim(empty, "mod", range(BASE, BASE + 0x1000), HOLDS)
    assert entry(empty, 0) == ("mod", 0, 0x1000, BASE, BASE + 0x1000)
    assert struct.unpack_from("<QQQ", head(empty)) == (7, 2, 1_000_000)
    assert head(empty)[24 + 16 * 88] == 0b1001


def test_points_of_a_module_keep_their_numbers_when_it_is_loaded_again(empty: Path) -> None:
    """Elsewhere, and after another module was loaded: what was counted stays its own."""
    board.aim(empty, "first", range(BASE, BASE + 0x1000), HOLDS)
    board.aim(empty, "second", range(BASE + 0x1000, BASE + 0x3000), HOLDS)
    pass_point(empty, 0x1008, 5, 1, 300)
    board.aim(empty, "second", range(BASE + 0x8000, BASE + 0xA000), HOLDS)
    assert entry(empty, 1) == ("second", 0x1000, 0x2000, BASE + 0x8000, BASE + 0xA000)
    assert list(board.uses(empty)) == [board.Use("second", 8, 5, 1, 300)]


def test_a_module_takes_the_place_of_one_that_was_unloaded(empty: Path) -> None:
    """The plugin would find the old one first; its counts stay readable."""
    board.aim(empty, "old", range(BASE, BASE + 0x2000), HOLDS)
    pass_point(empty, 0x1FFF, 2, 0, 0)
    board.aim(empty, "new", range(BASE + 0x1000, BASE + 0x2000), HOLDS)
    assert entry(empty, 0)[-1] == 0
    assert entry(empty, 1) == ("new", 0x2000, 0x1000, BASE + 0x1000, BASE + 0x2000)
    assert list(board.uses(empty)) == [board.Use("old", 0x1FFF, 2, 0, 0)]


@pytest.mark.parametrize("start", [0, BASE - 0x1000, board.AREA.stop - 8])
def test_code_elsewhere_is_refused(empty: Path, start: int) -> None:
    """The plugin does not look there."""
    with pytest.raises(ValueError, match="is no address of a module"):
        board.aim(empty, "mod", range(start, start + 0x1000), HOLDS)


def test_too_much_code_is_refused(empty: Path) -> None:
    """A board has room for 4 MiB of code and for 16 modules."""
    board.aim(empty, "large", range(BASE, BASE + board.POINTS - 0x1000), HOLDS)
    with pytest.raises(ValueError, match="no room for 8192 bytes of small"):
        board.aim(empty, "small", range(BASE, BASE + 0x2000), HOLDS)


def test_the_seventeenth_module_is_refused(empty: Path) -> None:
    """With its name."""
    for number in range(16):
        begin = BASE + number * 0x1000
        board.aim(empty, f"mod{number}", range(begin, begin + 0x1000), HOLDS)
    with pytest.raises(ValueError, match="16 modules, and not for one_more"):
        board.aim(empty, "one_more", range(BASE, BASE + 0x1000), HOLDS)


def test_a_seed_chooses_the_same_points_each_time() -> None:
    """Whatever was loaded before; another seed or module has others."""
    first = Plan(3).holds("mod", FUNCTIONS, 0x1000)
    assert Plan(3).holds("mod", [], 0x1000) == first
    assert Plan(4).holds("mod", FUNCTIONS, 0x1000).chosen != first.chosen
    assert Plan(3).holds("other", FUNCTIONS, 0x1000).chosen != first.chosen


def test_seeds_choose_many_points_or_few_and_hold_often_or_long() -> None:
    """From one of two to one of sixteen; both styles come."""
    all_holds = [Plan(seed).holds("mod", [], 0x10000) for seed in range(1, 41)]
    assert {(one.one_visit_of, one.longest_ns) for one in all_holds} == set(plan.STYLES)
    thin = {round(math.log2(0x10000 / one.chosen.bit_count())) for one in all_holds}
    assert thin == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("point", "chosen"),
    [
        ("get", range(0x100, 0x200)),
        ("get+0x1c", range(0x11C, 0x11D)),
        ("init", range(0x200, 0x1000)),
        ("unknown", range(0)),
    ],
)
def test_points_that_are_named_are_held_and_no_others(point: str, chosen: range) -> None:
    """A function has all of its points; the last one goes to the end of the code."""
    holds = Plan(3, (point,)).holds("mod", FUNCTIONS, 0x1000)
    assert {bit for bit in range(0x1000) if holds.chosen >> bit & 1} == set(chosen)


def test_named_points_change_nothing_of_how_long_a_seed_holds() -> None:
    """So that fewer points of a seed may show the same."""
    every, named = (Plan(5, points).holds("mod", FUNCTIONS, 0x1000) for points in ((), ("get",)))
    assert (every.seed, every.one_visit_of) == (named.seed, named.one_visit_of)
    assert every.longest_ns == named.longest_ns


@pytest.mark.parametrize("text", ["", "a b", "get+28", "get+0x", "get+0x1C", "[mod]", "a+0x1+0x2"])
def test_what_is_no_point_is_refused(text: str) -> None:
    """A point is a function, with or without an offset in lower-case hexadecimal."""
    assert not plan.is_point(text)


@pytest.mark.parametrize("text", ["get", "get+0x1c", "get.isra.0+0x0", "__pfx_get"])
def test_points_are_named_as_the_kernel_names_code(text: str) -> None:
    """Also the compiler's parts of functions."""
    assert plan.is_point(text)


def test_a_plan_comes_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was; without one there is none."""
    monkeypatch.delenv(names.STEER, raising=False)
    assert Plan.of_environment() is None
    sent = Plan(3, ("get+0x1c",), ("mod", "other"))
    for name, value in sent.environment().items():
        monkeypatch.setenv(name, value)
    assert Plan.of_environment() == sent


@pytest.fixture
def guest(empty: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of a guest's process, with a plan for the module mod."""
    monkeypatch.setenv(names.OUT, str(empty.parent))
    monkeypatch.delenv(names.MODULE_DIR, raising=False)
    for name, value in Plan(3, ("get+0x1c",), ("mod",)).environment().items():
        monkeypatch.setenv(name, value)
    found = [(one.name, BASE + 0x5000 + one.offset) for one in FUNCTIONS]
    monkeypatch.setattr(aim, "_functions", lambda _: found)
    return empty.parent


def test_the_guest_aims_at_a_module_under_test(guest: Path) -> None:
    """Once it is loaded; the host finds the names of its points."""
    aim.at("mod")
    assert entry(guest / names.BOARD, 0) == ("mod", 0, 0x1000, BASE + 0x5000, BASE + 0x6000)
    pass_point(guest / names.BOARD, 0x11C, 4, 2, 2_500_000)
    (held,) = show.read(show.boards(guest))
    assert held == show.Held("mod", "get+0x1c", "", 4, 2, 2_500_000)
    assert held.place() == "get+0x1c [mod]"


def test_the_guest_leaves_other_modules_alone(guest: Path) -> None:
    """Those that the plan does not name."""
    aim.at("rdma_rxe")
    assert entry(guest / names.BOARD, 0)[0] == ""
    assert not (guest / names.AIMS).exists()


def test_a_module_without_functions_is_refused_by_name(
    guest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in which nothing is held must not look like a search."""
    monkeypatch.setattr(aim, "_functions", lambda _: [])
    with pytest.raises(OSError, match="no CPU can be held in mod: the kernel names no function"):
        aim.at("mod")


def test_a_module_that_is_gone_is_held_no_more(guest: Path) -> None:
    """Other code may get its place; what was counted stays."""
    aim.at("mod")
    pass_point(guest / names.BOARD, 0x11C, 4, 2, 2_500_000)
    aim.off("mod")
    assert entry(guest / names.BOARD, 0) == ("mod", 0, 0x1000, BASE + 0x5000, 0)
    (held,) = show.read(show.boards(guest))
    assert held.holds == 2


def test_a_board_that_is_full_is_an_error_with_the_modules_name(
    guest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any error of a module that does not load."""
    monkeypatch.setattr(board, "_entries", lambda _: [])
    with pytest.raises(OSError, match="no CPU can be held in mod: a board has room for 16"):
        aim.at("mod")


def test_kernel_that_names_no_function_of_a_module_is_no_crash() -> None:
    """grep fails if it finds nothing."""
    assert aim._functions("no_such_module") == []


def test_function_with_two_names_has_all_of_its_points() -> None:
    """As cleanup_module, which is a module's own function, too, and often the last one."""
    twice = [*FUNCTIONS, Function("cleanup_module", 0x200)]
    holds = Plan(3, ("cleanup_module",)).holds("mod", twice, 0x1000)
    assert holds.chosen.bit_count() == 0xE00


def test_line_that_a_guest_did_not_finish_is_left_out(guest: Path) -> None:
    """It may panic at any time."""
    aim.at("mod")
    with (guest / names.AIMS).open("a") as file:
        file.write('{"module": "ot')
    pass_point(guest / names.BOARD, 0x11C, 4, 2, 2_500_000)
    (held,) = show.read(show.boards(guest))
    assert held.point == "get+0x1c"


def test_without_a_plan_nothing_is_aimed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the kernel's list of functions read."""
    monkeypatch.delenv(names.STEER, raising=False)
    monkeypatch.setattr(aim, "_functions", lambda _: pytest.fail("read"))
    aim.at("mod")


def test_the_table_has_the_longest_holds_first_and_adds_up_guests(tmp_path: Path) -> None:
    """A point that two guests have passed is one row."""
    for number, guest in enumerate(("vm1", "vm2")):
        out = tmp_path / guest / "out"
        out.mkdir(parents=True)
        with (out / names.BOARD).open("wb") as file:
            file.truncate(board.SIZE)
        board.aim(out / names.BOARD, "mod", range(BASE, BASE + 0x1000), HOLDS)
        aimed = json.dumps(asdict(Aim("mod", tuple(FUNCTIONS), "")))
        (out / names.AIMS).write_text(f"{aimed}\n")
        pass_point(out / names.BOARD, 0x40, 10, 0, 0)
        pass_point(out / names.BOARD, 0x104, 3, 1 + number, 400_000)
    table = show.markdown(show.read(show.boards(tmp_path)))
    assert table.splitlines()[2:] == [
        f"| get+0x4 | mod | 6 | 3 | 0.8 | {'█' * 20} |  |",
        "| put+0x0 | mod | 20 | 0 | 0.0 |  |  |",
    ]
