# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Loads and unloads kernel modules, with the kernel's reasons in the errors.

Modules are inserted and removed by system call. The kmod tools make checks of their own
before they ask the kernel, and a test of "in use" needs the kernel's answer.
"""

import contextlib
import ctypes
import errno
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from kfabric import names
from kfabric.guest import aim, symbols
from kfabric.guest.kmsg import KernelLog, LogOverrun
from kfabric.guest.waiting import Deadline, DeadlineExpired, patience, wait_until

# In the order of loading; each needs those before it.
OURS: Final = ("kfabric", "kfi_verbs", "kfi_mock", "kfabric_dev")
# Modules of the kernel: rxe for links, the connection manager for kfi_verbs.
NEEDED: Final = ("rdma_rxe", "rdma_cm")
SYS_MODULE = "/sys/module"
MODPROBE_SECONDS = 60.0
_SYSCALLS: Final = {"x86_64": (313, 176), "aarch64": (273, 106)}
_LOG_LINES = 8
_IGNORED = re.compile(r"(?P<module>\w+): unknown parameter '(?P<parameter>[^']*)' ignored")


class ModuleError(OSError):
    """A module did not load or unload.

    Args:
        code: The positive error number.
        what: The operation and the module, in words.
        log: Lines of the kernel log, for the text.
    """

    def __init__(self, code: int, what: str, log: Sequence[str] = ()) -> None:
        text = f"{what}: {os.strerror(code)}"
        super().__init__(code, "\n  ".join([text, *log]))


class ModuleInUse(ModuleError):
    """The kernel refused to unload a module because something holds it."""


@dataclass(frozen=True)
class ModuleState:
    """A loaded module's reference count and holders, from /sys/module."""

    name: str
    references: int
    holders: tuple[str, ...]


def state(name: str) -> ModuleState | None:
    """Return the state of a module, or None if it is not loaded (or built in)."""
    root = f"{SYS_MODULE}/{name}"
    try:
        with open(f"{root}/refcnt", encoding="ascii") as file:
            references = int(file.read())
        holders = tuple(sorted(os.listdir(f"{root}/holders")))
    except FileNotFoundError:
        return None
    return ModuleState(name, references, holders)


def references(name: str) -> int:
    """Return a module's reference count. Raises ModuleError ENOENT if it is not loaded."""
    found = state(name)
    if found is None:
        raise ModuleError(errno.ENOENT, f"module {name} is not loaded")
    return found.references


_own_references: list[Callable[[str], int]] = []


def discount(references: Callable[[str], int]) -> None:
    """Keep references of the harness itself out of :func:`users`.

    `references` returns how many it holds now to the module of that name.
    """
    _own_references.append(references)


def users(name: str) -> int:
    """Return how many references are held, except by other modules and by the harness.

    A module that was loaded meanwhile, and holds this one, is no user.
    """
    found = state(name)
    if found is None:
        return 0
    return found.references - len(found.holders) - sum(own(name) for own in _own_references)


def wait_for_references(name: str, count: int, deadline: Deadline | float = 10.0) -> None:
    """Wait until a module's reference count is `count`. Raises DeadlineExpired."""
    wait_until(
        lambda: references(name) == count,
        f"module {name} with {count} references",
        deadline,
        seen=lambda: state(name),
    )


def insert(path: Path, parameters: str = "") -> list[str]:
    """Load one module file; return the parameters that it does not have.

    Raises ModuleError with the lines of the kernel log.
    """
    name = kernel_name(path.stem)
    with KernelLog() as log, path.open("rb") as image:
        code = _syscall(0, image.fileno(), parameters.encode(), 0)
        if code:
            raise ModuleError(code, f"load {path}", _lines(log))
        ignored = _ignored(log, name) if parameters else []
    _announce(name)
    return ignored


def _announce(name: str) -> None:
    aim.at(name)
    symbols.leave(name)
    for watcher in list(_insert_watchers):
        watcher(name)


def _ignored(log: KernelLog, name: str) -> list[str]:
    """The parameters of a module that the kernel has just ignored."""
    with contextlib.suppress(LogOverrun):
        found = (_IGNORED.search(record.text) for record in log.new() if record.from_kernel)
        return [match["parameter"] for match in found if match and match["module"] == name]
    return []


def _lines(log: KernelLog) -> list[str]:
    return [str(record) for record in log.new()][-_LOG_LINES:]


_watchers: list[Callable[[str], None]] = []
_insert_watchers: list[Callable[[str], None]] = []


def after_insert(watcher: Callable[[str], None]) -> None:
    """Call `watcher` with the name of each module after it was loaded."""
    _insert_watchers.append(watcher)


def no_more(watcher: Callable[[str], None]) -> None:
    """Take back :func:`after_insert`."""
    _insert_watchers.remove(watcher)


def before_unload(watcher: Callable[[str], None]) -> None:
    """Call `watcher` with the name of each module before it is unloaded.

    The watcher must drop its references to the module.
    """
    _watchers.append(watcher)


def remove(name: str) -> None:
    """Unload one module, without waiting for its users.

    Raises:
        ModuleInUse: EWOULDBLOCK while the module has users or holders, EBUSY while it
            is being loaded or unloaded.
        ModuleError: Any other error.
    """
    for watcher in _watchers:
        watcher(name)
    with KernelLog() as log:
        code = _syscall(1, name.encode(), os.O_NONBLOCK)
        if not code:
            aim.off(name)
            return
        lines = _lines(log)
    if code in (errno.EWOULDBLOCK, errno.EBUSY):
        raise ModuleInUse(code, f"unload {name}: in use, {_users(name)}", lines)
    raise ModuleError(code, f"unload {name}", lines)


def need(names: Sequence[str] = NEEDED, parameters: Sequence[str] = ()) -> None:
    """Load modules of the guest's kernel with their own dependencies (modprobe)."""
    for name in names:
        probe(name, parameters)


def probe(name: str, parameters: Sequence[str] = ()) -> list[str]:
    """Do so with one of them; return the parameters that it does not have.

    Raises ModuleError with modprobe's reason and the lines of the kernel log.
    """
    with KernelLog() as log:
        done = subprocess.run(
            ["modprobe", name, *parameters],
            capture_output=True,
            text=True,
            timeout=patience(MODPROBE_SECONDS),
            check=False,
        )
        if done.returncode:
            lines = [done.stderr.strip(), *_lines(log)]
            raise ModuleError(errno.ENOENT, f"modprobe {name}", lines)
        ignored = _ignored(log, kernel_name(name)) if parameters else []
    _announce(kernel_name(name))
    return ignored


def have_ours() -> bool:
    """Whether our modules are loaded, or were built for this guest."""
    return names.MODULES in os.environ or state(OURS[0]) is not None


class Modules:
    """Our four modules in one build variant: the .ko files of `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def from_environment(cls) -> Self:
        """The modules that the harness built for this guest, in $KFABRIC_MODULES."""
        directory = os.environ.get(names.MODULES)
        if not directory:
            # For a user's module, harness/vm/usertests.py decides.
            what = "kfabric's modules were not built for this guest: import kfabric_py in the test"
            raise ModuleError(errno.ENOENT, f"{what} ({names.MODULES} is not set)")
        return cls(Path(directory))

    def file(self, name: str) -> Path:
        """Return the file of a module. Raises ModuleError ENOENT if it is not built."""
        path = self.directory / f"{name}.ko"
        if not path.is_file():
            raise ModuleError(errno.ENOENT, f"{path} is not built")
        return path

    def load(self, names: Sequence[str] = OURS) -> None:
        """Load the dependencies, then those of our modules that are not loaded yet."""
        need()
        for name in OURS:
            if name in names and state(name) is None:
                insert(self.file(name))

    def unload(self, names: Sequence[str] = OURS, deadline: Deadline | float = 10.0) -> None:
        """Unload those of our modules that are loaded, the last one first.

        Dying processes and work items drop their references after a while, so each
        module may stay in use until the common deadline.

        Raises:
            ModuleInUse: A module is in use at the deadline.
        """
        limit = Deadline.of(deadline)
        for name in reversed(OURS):
            if name in names and state(name) is not None:
                remove_when_free(name, limit)

    @contextlib.contextmanager
    def loaded(self, names: Sequence[str] = OURS) -> Iterator[None]:
        """Load the modules for the block, and unload them after it."""
        try:
            self.load(names)
            yield
        finally:
            self.unload(names)


def remove_when_free(name: str, limit: Deadline) -> None:
    """Unload one module once it is free. Raises ModuleInUse at the deadline."""
    for watcher in _watchers:
        watcher(name)
    with contextlib.suppress(DeadlineExpired):
        wait_for_references(name, 0, limit)
    remove(name)


def user_files() -> list[str]:
    """Return the file names, without .ko, of the user's modules that are tested here."""
    directory = os.environ.get(names.MODULE_DIR)
    return (Path(directory) / names.MODULE_ORDER).read_text().split() if directory else []


def image_names() -> list[str]:
    """Return the names of the image's modules that are tested here."""
    return os.environ.get(names.MODPROBE, "").split()


def kernel_name(file: str) -> str:
    """Return the kernel's name for the module in a file."""
    return file.replace("-", "_")


def watched() -> tuple[str, ...]:
    """Return the names of our modules and of those that are tested."""
    return (*OURS, *map(kernel_name, (*image_names(), *user_files())))


def _users(name: str) -> str:
    found = state(name)
    if found is None:
        return "already going"
    holders = f" by {', '.join(found.holders)}" if found.holders else ""
    return f"{found.references} references{holders}"


def _syscall(which: int, *arguments: object) -> int:
    """Make system call finit_module (0) or delete_module (1); return 0 or the error number."""
    machine = platform.machine()
    if machine not in _SYSCALLS:
        raise ModuleError(errno.ENOSYS, f"loading modules on {machine}")
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.syscall(_SYSCALLS[machine][which], *arguments)
    return ctypes.get_errno() if failed else 0
