# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The offsets of the kernel's structures that the program reads, as macros for its compiler."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kfabric.probes import btf

# Numbers of a module's parts since 6.4.
_PARTS = {"MODULE_TEXT": 0, "MODULE_DATA": 1, "MODULE_INIT": 4}


def offsets() -> Iterator[str]:
    """The macros, as options of the compiler."""
    vmlinux = Path(btf.VMLINUX).read_bytes()
    for macro, name, member in (
        ("TASK_PID", b"task_struct", b"pid"),
        ("TASK_COMM", b"task_struct", b"comm"),
        ("TASK_LEADER", b"task_struct", b"group_leader"),
        ("WORK_FUNCTION", b"work_struct", b"func"),
        ("WORK_TIMER", b"delayed_work", b"timer"),
        ("TASK_EXIT_STATE", b"task_struct", b"exit_state"),
        ("TASK_SLEEP", b"task_struct", b"__state"),
        ("TASK_PENDING", b"task_struct", b"pending"),
        ("TASK_BLOCKED", b"task_struct", b"blocked"),
        ("TASK_SIGNAL", b"task_struct", b"signal"),
        ("SIGNAL_SHARED", b"signal_struct", b"shared_pending"),
        ("SIGPENDING_SET", b"sigpending", b"signal"),
        ("QUEUE_LIST", b"wait_queue_head", b"head"),
        ("SWAITS_LIST", b"swait_queue_head", b"task_list"),
    ):
        yield f"-D{macro}={btf.member_offset(vmlinux, name, member)}"
    yield f"-DQUEUE_BYTES={btf.struct_size(vmlinux, b'wait_queue_head')}"
    # Without PREEMPT_RT there is no rwbase_rt, and with it the first two have other members.
    for macro, name, member in (
        ("FUTEX_KEY", b"futex_q", b"key"),
        ("MUTEX_OWNER", b"mutex", b"owner"),
        ("RWSEM_OWNER", b"rw_semaphore", b"owner"),
        ("RT_MUTEX_OWNER", b"rt_mutex_base", b"owner"),
        ("RT_RWSEM_MUTEX", b"rwbase_rt", b"rtmutex"),
    ):
        offset = 0
        with suppress(btf.BtfError):
            offset = btf.member_offset(vmlinux, name, member)
        yield f"-D{macro}={offset}"
    for macro, offset in _module_offsets(vmlinux).items():
        yield f"-D{macro}={offset}"


def _module_offsets(vmlinux: bytes) -> dict[str, int]:
    """The offsets of a module's name, and of the places of its code and variables."""
    places = {"MODULE_NAME": btf.member_offset(vmlinux, b"module", b"name"), "MODULE_DATA_FROM": 0}
    try:
        parts = btf.member_offset(vmlinux, b"module", b"mem")
    except btf.BtfError:
        # Before 6.4: code, constants and variables are in one piece.
        core, init = (
            btf.member_offset(vmlinux, b"module", name) for name in (b"core_layout", b"init_layout")
        )
        base, text, size = (
            btf.member_offset(vmlinux, b"module_layout", name)
            for name in (b"base", b"text_size", b"size")
        )
        return places | {
            "MODULE_TEXT": core + base,
            "MODULE_TEXT_SIZE": core + text,
            "MODULE_DATA": core + base,
            "MODULE_DATA_FROM": core + text,
            "MODULE_DATA_SIZE": core + size,
            "MODULE_INIT": init + base,
            "MODULE_INIT_SIZE": init + text,
        }
    each = btf.struct_size(vmlinux, b"module_memory")
    base, size = (btf.member_offset(vmlinux, b"module_memory", name) for name in (b"base", b"size"))
    for name, number in _PARTS.items():
        places[name] = parts + number * each + base
        places[f"{name}_SIZE"] = parts + number * each + size
    return places
