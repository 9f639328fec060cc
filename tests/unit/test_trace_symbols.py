# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Names of addresses and places of modules, from /proc's texts."""

from __future__ import annotations

import pytest

from kfabric.trace.symbols import (
    History,
    Module,
    Symbols,
    below_tracepoint,
    function,
    parse_modules,
    place,
    queue_name,
)

KALLSYMS = b"""0000000000000000 A fixed_percpu_data
000000000001fb40 A __preempt_count
ffffffff81000000 T _text
ffffffff81001000 T pipe_read
ffffffff81001400 t pipe_write
ffffffff82000000 D init_pid_ns
ffffffff82000400 d log_wait
ffffffff82000418 B _end
ffffffffc0101000 t rxe_poll\t[rdma_rxe]
ffffffffc0100000 T rxe_create\t[rdma_rxe]
ffffffffc0104100 d rxe_dev_list\t[rdma_rxe]
ffffffffc0104000 b rxe_wait\t[rdma_rxe]
ffffffffc0104000 b __key.0\t[rdma_rxe]
ffffffffc0900000 t rxe_module_init\t[rdma_rxe]
ffffffffc0201000 t kfi_read\t[kfabric]
"""
MODULES = """rdma_rxe 32768 0 - Live 0xffffffffc0100000
kfabric 16384 2 kfi_mock,kfi_verbs, Live 0xffffffffc0201000 (OE)
"""


@pytest.fixture
def symbols() -> Symbols:
    """A small kernel with two modules."""
    return Symbols(KALLSYMS, MODULES)


def test_modules_are_parsed() -> None:
    """Those with users and those without."""
    assert parse_modules(MODULES)["kfabric"] == Module("kfabric", 0xFFFFFFFFC0201000, 16384)
    assert set(parse_modules(MODULES)) == {"rdma_rxe", "kfabric"}


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (0xFFFFFFFF81001000, "pipe_read"),
        (0xFFFFFFFF81001329, "pipe_read+0x329"),
        (0xFFFFFFFF82000408, "log_wait+0x8"),
        (0xFFFFFFFFC0101004, "rxe_poll+0x4 [rdma_rxe]"),
        (0xFFFFFFFFC0201000, "kfi_read [kfabric]"),
        # Beside it is an empty variable.
        (0xFFFFFFFFC0104000, "rxe_wait [rdma_rxe]"),
        # Heap: nothing begins anywhere near.
        (0xFFFF888001234560, "0xffff888001234560"),
        (0x10, "fixed_percpu_data+0x10"),
    ],
)
def test_addresses_are_named(symbols: Symbols, address: int, name: str) -> None:
    """By the last symbol before them, in the right module."""
    assert symbols.name(address) == name


def test_kernel_without_modules_is_named_as_well() -> None:
    """There is no line with a module then, and perhaps no newline at the end."""
    symbols = Symbols(KALLSYMS[: KALLSYMS.index(b"ffffffffc0101000")].rstrip())
    assert symbols.name(0xFFFFFFFF82000420) == "_end+0x8"


def test_only_variables_hold_queues(symbols: Symbols) -> None:
    """A function's address, or one of the heap, is none."""
    assert symbols.variable(0xFFFFFFFF82000400) == "log_wait"
    assert symbols.variable(0xFFFFFFFFC0104010) == "rxe_wait+0x10 [rdma_rxe]"
    assert symbols.variable(0xFFFFFFFF81001000) == ""
    assert symbols.variable(0xFFFF888001234560) == ""


def test_symbols_are_found_by_name(symbols: Symbols) -> None:
    """Whole names only; None for an unknown one and for one whose address is hidden."""
    assert symbols.address("pipe_write") == 0xFFFFFFFF81001400
    assert symbols.address("rxe_poll") == 0xFFFFFFFFC0101000
    assert symbols.address("rxe_poll", "rdma_rxe") == 0xFFFFFFFFC0101000
    assert symbols.address("rxe_poll", "kfabric") is None
    assert symbols.address("pipe") is None
    assert symbols.address("fixed_percpu_data") is None


def test_module_is_found_without_its_init_code(symbols: Symbols) -> None:
    """That one is elsewhere, and would stretch the module over its neighbours."""
    assert symbols.range_of("rdma_rxe", code=True) == (0xFFFFFFFFC0100000, 0xFFFFFFFFC0102000)
    assert symbols.range_of("rdma_rxe", code=False) == (0xFFFFFFFFC0104000, 0xFFFFFFFFC0105000)
    assert symbols.range_of("siw", code=True) is None
    assert symbols.range_of("kfabric", code=False) is None


APART = (
    KALLSYMS
    + b"""ffffffffc0108000 d kfi_list\t[kfabric]
ffffffffc0108400 d __this_module\t[kfabric]
ffffffffc0109000 b kfi_wait\t[kfabric]
ffffffffc010b000 r kfi_names\t[kfabric]
ffffffffc0a08000 d kfi_once\t[kfabric]
"""
)


def test_variables_may_lie_apart_from_the_code() -> None:
    """As in 7.3: they are next to another module's then."""
    symbols = Symbols(APART, MODULES)
    assert symbols.variable(0xFFFFFFFFC0109000) == "kfi_wait [kfabric]"
    assert symbols.range_of("kfabric", code=False) == (0xFFFFFFFFC0108000, 0xFFFFFFFFC010A000)
    assert symbols.range_of("kfabric", code=True) == (0xFFFFFFFFC0201000, 0xFFFFFFFFC0202000)


def test_span_of_a_symbol_ends_at_the_next_one() -> None:
    """For the tables of wait queues, whose sizes no symbol has."""
    text = b"ffffffff81000000 T first\nffffffff81000040 d table\nffffffff81000140 d last\n"
    symbols = Symbols(text + b"ffffffffc0100000 t other\t[kfabric]\n")
    assert symbols.span("table") == (0xFFFFFFFF81000040, 0xFFFFFFFF81000140)
    assert symbols.span("last") == (0xFFFFFFFF81000140, 0xFFFFFFFF81000140)
    assert symbols.span("unknown") is None


def without(module: str) -> Symbols:
    """The same kernel after a module is gone."""
    mark = f"[{module}]".encode()
    lines = [line for line in KALLSYMS.splitlines(keepends=True) if mark not in line]
    modules = [line for line in MODULES.splitlines(keepends=True) if not line.startswith(module)]
    return Symbols(b"".join(lines), "".join(modules))


KFI_DATA = 0xFFFFFFFFC0205B00


def test_address_after_the_memory_of_a_module_is_not_the_modules(symbols: Symbols) -> None:
    """It belonged to another one, which is gone."""
    assert symbols.variable(KFI_DATA) == ""
    assert symbols.name(KFI_DATA) == "0xffffffffc0205b00"
    assert without("kfabric").name(0xFFFFFFFFC0201000) == "0xffffffffc0201000"


def test_names_of_a_module_that_is_gone_are_kept(symbols: Symbols) -> None:
    history = History(symbols)
    history.add(without("rdma_rxe"))
    assert history.variable(0xFFFFFFFFC0104010) == "rxe_wait+0x10 [rdma_rxe]"
    assert history.name(0xFFFFFFFFC0101004) == "rxe_poll+0x4 [rdma_rxe]"
    assert history.name(0xFFFFFFFF81001329) == "pipe_read+0x329"


def test_address_that_two_modules_had_has_no_certain_name(symbols: Symbols) -> None:
    history = History(symbols)
    other = KALLSYMS.replace(b"rxe_wait\t[rdma_rxe]", b"siw_wait\t[siw]")
    history.add(Symbols(other, "siw 32768 0 - Live 0xffffffffc0100000"))
    assert history.variable(0xFFFFFFFFC0104010) == ""
    assert history.name(0xFFFFFFFFC0104010) == "0xffffffffc0104010"
    assert queue_name(history.variable(0xFFFFFFFFC0104010)) == "unknown queue"


SLEEPER = (
    "prepare_to_wait_event+0x6",
    "pipe_read+0x329",
    "vfs_read+0x2db",
)
POLLER = ("add_wait_queue+0x6", "__pollwait+0x6e", "pipe_poll+0x2c", "do_sys_poll+0x2c0")
DRIVER = ("wait_for_completion+0x6", "rxe_cleanup+0x3c [rdma_rxe]")
WAKER = ("__wake_up_common+0x6", "__wake_up_common_lock+0x82", "p9_client_cb+0x24 [9pnet]")


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        (SLEEPER, "pipe_read"),
        (POLLER, "pipe_poll"),
        (DRIVER, "rxe_cleanup [rdma_rxe]"),
        (WAKER, "p9_client_cb [9pnet]"),
        (("prepare_to_wait+0x5",), "prepare_to_wait"),
        ((), ""),
    ],
)
def test_place_is_the_first_function_of_interest(frames: tuple[str, ...], name: str) -> None:
    """Not the kernel's means of waiting and waking."""
    assert place(frames) == name


def test_functions_keep_their_module() -> None:
    """A frame without the place in its function."""
    assert function("rxe_poll+0x12 [rdma_rxe]") == "rxe_poll [rdma_rxe]"
    assert function("pipe_read") == "pipe_read"


def test_queues_are_named_by_the_best_that_is_known() -> None:
    """Symbol, else sleeper, else waker."""
    assert queue_name("log_wait", SLEEPER, WAKER) == "log_wait"
    assert queue_name("", SLEEPER, WAKER) == "queue slept on in pipe_read"
    assert queue_name("", (), WAKER) == "queue woken in p9_client_cb [9pnet]"
    assert queue_name("") == "unknown queue"
    name = queue_name("", DRIVER, kind="completion", on_stack=True)
    assert name == "completion on the stack of rxe_cleanup [rdma_rxe]"
    assert queue_name("done", kind="completion") == "done (completion)"


LOCKERS = (
    ("__mutex_lock.constprop.0+0x4a2",),
    ("__mutex_lock_interruptible_slowpath+0x13", "mutex_lock+0x2e"),
    ("rwsem_down_read_slowpath+0x2ff", "down_read_interruptible+0x5c"),
    ("rwsem_down_write_slowpath+0x3c5", "down_write_killable+0x5b"),
    ("rt_mutex_slowlock.constprop.0+0x10a", "rt_mutex_lock_interruptible+0x2f"),
    ("__rwbase_read_lock+0x9e", "down_read+0x33"),
    ("__down_common+0x10e", "down+0x3f"),
    ("__percpu_rwsem_trylock+0x9", "percpu_rwsem_wait+0x11a", "__percpu_down_read+0x57"),
)


@pytest.mark.parametrize("frames", LOCKERS)
def test_lock_is_named_by_the_function_that_locks_it(frames: tuple[str, ...]) -> None:
    """The kernel's lock functions above it say nothing."""
    name = queue_name("", (*frames, "foo_write+0x12 [m]"), kind="mutex")
    assert name == "mutex locked in foo_write [m]"
    assert queue_name("foo_mutex [m]", frames, kind="mutex") == "foo_mutex [m] (mutex)"


def test_stack_of_a_tracepoint_begins_below_it() -> None:
    """The tracer's own program has no symbol."""
    mine = ("0xffffffffc0026435", "bpf_trace_run2+0xf2", "__traceiter_contention_begin+0x2e")
    assert below_tracepoint((*mine, "down_write+0x66")) == ("down_write+0x66",)
    assert below_tracepoint(SLEEPER) == SLEEPER


def test_function_with_a_name_like_a_lock_s_is_not_left_out() -> None:
    """Only whole names of the kernel's functions are left out."""
    assert place(("down_to_business+0x1",)) == "down_to_business"
