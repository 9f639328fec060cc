# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the guest tests share: calls in threads, the mock provider, connected pairs."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import pytest

import kfabric_py as kp
from kfabric.guest import holds, sleeping
from kfabric.guest.holds import Hold
from kfabric.guest.waiting import Deadline, wait_until

T = TypeVar("T")

#: For tests that need the tracer of any wait queue.
NEEDS_TRACER = [
    pytest.mark.skipif(
        Path("/proc/lockdep").exists(),
        reason="lockdep takes the tracer's breakpoints for NMIs, and reports BPF's own locks",
    ),
    pytest.mark.skipif(
        not any(Path("/sys/module").glob("*/sections/.orc_unwind")),
        reason="without ORC a stack does not tell who has called the function of a breakpoint",
    ),
]

#: Seconds after which a wait that should have ended is given up. Never a
#: criterion: what ends it in time is tested, not when. Who expects tests to fail
#: (harness/mutants/catalogue.py) does not want to wait that long each time.
LIMIT = float(os.environ.get("KFABRIC_TEST_LIMIT", "30"))

#: Seconds after which a call in a thread is given up that has a limit of its own.
#: Shorter than that: at its deadline a call looks once more, finds what nobody woke
#: it for, and returns as if it had been woken.
PATIENCE = LIMIT / 2

#: The character device.
DEVICE = Path("/dev/kfabric")
#: Another user than that of the tests.
OTHER_USER = 65534

MOCK = Path("/sys/kernel/debug/kfi_mock")
DEBUGFS = Path("/sys/kernel/debug")


def become(uid: int = OTHER_USER) -> None:
    """Make this process that of another user."""
    os.setresuid(uid, uid, uid)


@contextlib.contextmanager
def open_to_all() -> Iterator[None]:
    """Let every user open the device."""
    DEVICE.chmod(0o666)
    try:
        yield
    finally:
        DEVICE.chmod(0o600)


class Call(Generic[T]):
    """A call that runs in a thread of its own."""

    def __init__(self, function: Callable[[], T]) -> None:
        """Start it."""
        self._function = function
        self._value: T
        self._error: BaseException | None = None
        self._seen = False
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._started.wait(LIMIT)

    def _run(self) -> None:
        self.tid = threading.get_native_id()
        self._started.set()
        try:
            self._value = self._function()
        except BaseException as error:
            self._error = error

    def asleep(self, where: str = sleeping.WAIT_POINT) -> Call[T]:
        """Return once the thread sleeps below a function that matches, by default kfabric's.

        Raises:
            DeadlineExpired: it did not get there.
            ThreadGone: the call has ended instead; its cause is the call's exception, if any.
        """
        try:
            sleeping.wait_until_asleep(self.tid, where, deadline=LIMIT)
        except sleeping.ThreadGone as gone:
            if (error := self.unseen()) is None:
                raise
            self._seen = True
            raise sleeping.ThreadGone(f"{gone}: {error!r}") from error
        return self

    def at_rest(self) -> Call[T]:
        """Return once the thread sleeps in kfabric, or the call has ended."""
        with contextlib.suppress(sleeping.ThreadGone):
            self.asleep()
        return self

    def unseen(self) -> BaseException | None:
        """The exception that ended the call, if no failure shows it and no test handles it."""
        return None if self._seen else self._error

    @property
    def ident(self) -> int:
        """The thread's number for :func:`signal.pthread_kill`."""
        return self._thread.ident or 0

    @property
    def done(self) -> bool:
        """Has the call ended?"""
        return not self._thread.is_alive()

    @property
    def switches(self) -> int:
        """How often the thread has left its CPU: unchanged means never woken."""
        return sleeping.read_state(self.tid).switches

    def result(self) -> T:
        """Wait for the end of the call; return its result or raise its exception."""
        __tracebackhide__ = True
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            state = sleeping.read_state(self.tid)
            spent = "" if state.off_cpu else f"\n{sleeping.awake(self.tid)}"
            pytest.fail(f"the call has not returned after {PATIENCE:g} s: {state}{spent}")
        self._seen = True
        if self._error is not None:
            raise self._error
        return self._value

    def settle(self) -> None:
        """Wait for the end of the call whatever its outcome was."""
        self._thread.join(LIMIT)


@dataclass
class Mock:
    """The mock provider: a domain, and commands that make things happen."""

    device: kp.Device
    info: kp.Info
    fabric: kp.Fabric
    domain: kp.Domain
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def command(self, *words: object) -> None:
        """Give the provider one command, see docs/mock.md.

        Raises:
            OSError: what the provider says to it.
        """
        fd = os.open(MOCK / "command", os.O_WRONLY)
        try:
            os.write(fd, " ".join(map(str, words)).encode())
        finally:
            os.close(fd)

    def state(self) -> dict[str, dict[str, str]]:
        """Return the provider's state: ``{"hook D1": {"stopped": "0"}, ...}``."""
        found: dict[str, dict[str, str]] = {}
        for line in (MOCK / "state").read_text().splitlines():
            word, *pairs = line.split()
            values = dict(pair.split("=", 1) for pair in pairs)
            name = values.get("name") or values.get("id")
            found[f"{word} {name}" if name else word] = values
        return found

    def endpoint(
        self,
        *,
        cq: kp.CompletionQueue | None = None,
        cntr: kp.Counter | None = None,
        eq: kp.EventQueue | None = None,
        selective: bool = False,
    ) -> kp.Endpoint:
        """Open an enabled endpoint whose receives and sends are reported to these.

        A completion queue is bound in any case, since no endpoint does without.
        """
        # Before the endpoint, so that they are closed after it.
        cq, eq = cq or self.cq(), eq or self.eq()
        ep = self.stack.enter_context(self.domain.endpoint(self.info))
        ep.bind(cq, recv=True, transmit=True, selective=selective)
        if cntr is not None:
            ep.bind(cntr, recv=True, transmit=True)
        ep.bind(eq)
        ep.enable()
        return ep

    def cq(self, size: int = 64, **options: Any) -> kp.CompletionQueue:
        """Open a completion queue that is closed with the test."""
        cq = self.stack.enter_context(self.domain.cq(size, **options))
        # A test that failed has not acknowledged what it got, and the close would wait.
        self.stack.callback(cq._abandon)
        return cq

    def eq(self, size: int = 64, **options: Any) -> kp.EventQueue:
        """Open an event queue that is closed with the test."""
        return self.stack.enter_context(self.fabric.eq(size, **options))

    def counter(self, **options: Any) -> kp.Counter:
        """Open a counter that is closed with the test."""
        return self.stack.enter_context(self.domain.counter(**options))

    def wait_set(self, **options: Any) -> kp.WaitSet:
        """Open a wait set that is closed with the test."""
        return self.stack.enter_context(self.fabric.wait_set(**options))

    def channel(self, **options: Any) -> kp.CompChannel:
        """Open a completion channel that is closed with the test."""
        return self.stack.enter_context(self.fabric.comp_channel(**options))

    def poll_set(self) -> kp.PollSet:
        """Open a poll set that is closed with the test."""
        return self.stack.enter_context(self.domain.poll_set())

    def inject(self, ep: kp.Endpoint, kind: str = "recv", count: int = 1, **options: Any) -> None:
        """Report completions of operations that nobody posted."""
        words = [f"{key}={value}" for key, value in options.items()]
        self.command("inject", ep.trace_id, kind, count, *words)

    def complete(self, ep: kp.Endpoint, kind: str, count: int = 1, **options: Any) -> None:
        """Complete the oldest pending operations."""
        words = [f"{key}={value}" for key, value in options.items()]
        self.command("complete", ep.trace_id, kind, count, *words)

    def hook(
        self,
        name: str,
        of: kp.WaitSet
        | kp.CompletionQueue
        | kp.EventQueue
        | kp.Counter
        | kp.CompChannel
        | kp.Domain
        | kp.RdmEndpoint
        | None,
    ) -> Hook:
        """Have the next thread stop that comes to delay hook ``name`` on an object, or on any.

        Skips the test in a build without hooks. D1, D4 and D5 are on what threads
        sleep in, D3 on what is published on.
        """
        if self.state()["build"]["test"] != "1":
            pytest.skip("needs the modules' test-option build (KFABRIC_TEST=1)")
        oid = of.trace_id if of else 0
        hold = holds.note(name, oid)
        self.command("hook", "arm", name, oid)
        hook = Hook(self, name, hold)
        self.stack.callback(hook.disarm)
        return hook


@dataclass(frozen=True)
class Hook:
    """A delay hook: a place in the module where a thread has been made to stop."""

    mock: Mock
    name: str
    hold: Hold

    def stopped(self) -> None:
        """Return once a thread has stopped there."""
        wait_until(
            lambda: self.mock.state()[f"hook {self.name}"]["stopped"] == "1",
            f"a thread at hook {self.name}",
            Deadline(LIMIT),
        )

    def go(self) -> None:
        """Let the thread go on."""
        try:
            self.mock.command("hook", "go", self.name)
        finally:
            self.hold.over()

    def disarm(self) -> None:
        """Let nobody stop there any more."""
        with contextlib.suppress(OSError):
            self.go()


@dataclass(frozen=True)
class Side:
    """One of two ends over a real RDMA link; its endpoint may also be an RDM one."""

    domain: kp.Domain
    wait_set: kp.WaitSet
    cq: kp.CompletionQueue
    eq: kp.EventQueue
    cntr: kp.Counter
    ep: kp.Endpoint
    buffer: kp.Buffer


def connected_sides(
    device: kp.Device, address: str, stack: contextlib.ExitStack, *, ring: bool = False
) -> tuple[Side, Side]:
    """Connect two MSG endpoints over the link that has this address."""
    offer = device.getinfo(provider="verbs", source=(address, 0))[0]
    fabric = stack.enter_context(device.fabric(offer))
    listen_eq = stack.enter_context(fabric.eq())
    listener = stack.enter_context(fabric.passive_ep(offer))
    listener.bind(listen_eq)
    listener.listen()
    name = listener.getname()
    assert isinstance(name, tuple)
    info = device.getinfo(provider="verbs", dest=(address, name[1]))[0]
    active = _side(device, fabric, info, info, stack, ring=ring)
    active.ep.connect()
    event = listen_eq.sread(timeout=LIMIT)
    assert event is not None and event.request is not None
    passive = _side(device, fabric, info, event.request, stack, ring=ring)
    passive.ep.accept()
    for side in (active, passive):
        connected = side.eq.read()
        while connected is None:
            side.wait_set.wait(timeout=LIMIT)
            connected = side.eq.read()
        assert connected.event is kp.Event.CONNECTED
    return active, passive


def _side(
    device: kp.Device,
    fabric: kp.Fabric,
    info: kp.Info,
    what: kp.Info | kp.ConnectionRequest,
    stack: contextlib.ExitStack,
    *,
    ring: bool,
) -> Side:
    """Open one end: an endpoint, and a wait set with all that it reports to."""
    enter = stack.enter_context
    domain = enter(fabric.domain(info))
    return open_side(device, fabric, domain, lambda: domain.endpoint(what), stack, ring=ring)


def open_side(
    device: kp.Device,
    fabric: kp.Fabric,
    domain: kp.Domain,
    endpoint: Callable[[], kp.Endpoint],
    stack: contextlib.ExitStack,
    *,
    ring: bool = False,
) -> Side:
    """Open a wait set, what is in it, and then the endpoint that reports to them."""
    enter = stack.enter_context
    wait_set = enter(fabric.wait_set(wait_obj=kp.WaitObj.QUEUE))
    cq = enter(domain.cq(64, wait_set=wait_set, ring=ring))
    eq = enter(fabric.eq(wait_set=wait_set))
    cntr = enter(domain.counter(wait_set=wait_set))
    buffer = enter(device.buffer(8192))
    ep = enter(endpoint())
    ep.bind(cq, recv=True, transmit=True, selective=True)
    ep.bind(cntr, recv=True)
    ep.bind(eq)
    ep.enable()
    return Side(domain, wait_set, cq, eq, cntr, ep, buffer)


def _rdm_side(
    device: kp.Device,
    fabric: kp.Fabric,
    info: kp.Info,
    stack: contextlib.ExitStack,
    *,
    ring: bool,
) -> tuple[Side, kp.AddressVector]:
    """Open one end without a connection."""
    domain = stack.enter_context(fabric.domain(info))
    av = stack.enter_context(domain.av())

    def endpoint() -> kp.Endpoint:
        ep = domain.rdm_endpoint(info)
        ep.bind(av)
        # It has all that the tests of both types call.
        return cast(kp.Endpoint, ep)

    return open_side(device, fabric, domain, endpoint, stack, ring=ring), av


def rdm_sides(
    device: kp.Device, address: str, stack: contextlib.ExitStack, *, ring: bool = False
) -> tuple[Side, Side]:
    """Open two RDM endpoints on the link that has this address, which know each other."""
    hints = kp.Info(addr_format=kp.AddrFormat.SOCKADDR_IN, ep_attr=kp.EpAttr(type=kp.EpType.RDM))
    info = device.getinfo(provider="verbs", source=(address, 0), hints=hints)[0]
    fabric = stack.enter_context(device.fabric(info))
    near, near_av = _rdm_side(device, fabric, info, stack, ring=ring)
    far, far_av = _rdm_side(device, fabric, info, stack, ring=ring)
    near.ep.peer = near_av.insert_one(far.ep.getname() or b"")
    far.ep.peer = far_av.insert_one(near.ep.getname() or b"")
    return near, far


class Child:
    """A forked process that runs one function and exits with its result.

    It reports one line through a pipe, for what the parent must know of it.
    """

    def __init__(self, function: Callable[[Callable[[str], None]], int]) -> None:
        """Fork; ``function`` gets a way to report and returns the exit status."""
        read_end, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read_end)
            status = 99
            try:
                status = function(lambda line: _write_all(write_end, f"{line}\n"))
            finally:
                os._exit(status)
        os.close(write_end)
        self._pipe = os.fdopen(read_end)
        self._status: int | None = None

    def report(self) -> str:
        """Return the line that the child reported; empty if it ended without."""
        return self._pipe.readline().strip()

    def kill(self, number: int) -> None:
        """Send the child a signal."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for the child's end and return its exit status, negative for a signal."""
        if self._status is None:
            wait_until(self._reaped, f"end of child {self.pid}", Deadline(LIMIT))
            self._pipe.close()
        assert self._status is not None
        return self._status

    @property
    def ended(self) -> bool:
        """Has it come to its end?"""
        return self._status is not None or self._reaped()

    def _reaped(self) -> bool:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self._status = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def end(self) -> None:
        """Kill the child if it is still there."""
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                self.kill(signal.SIGKILL)
            self.wait()


def _write_all(fd: int, text: str) -> None:
    os.write(fd, text.encode())


@contextlib.contextmanager
def handler(number: int, function: Callable[[], None], *, restart: bool) -> Iterator[None]:
    """Have a signal handled, with or without restarting calls, for the block's duration."""
    old = signal.signal(number, lambda *_: function())
    signal.siginterrupt(number, not restart)
    try:
        yield
    finally:
        signal.signal(number, old)
