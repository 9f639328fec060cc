# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What the bench measures: a line for each measurement, for either guest.

Each line is repeated, in turn with the lines that it is compared to.
"""

from collections.abc import Iterable

PROVIDERS = ("sockets", "udp", "shm", "tcp")
"""Of libfabric; the fastest of them counts."""

MEMBERS = 4096
FEW_MEMBERS, MANY_MEMBERS = 16, 65536
THREADS = 256
FLOOD = 1_000_000
CROWDS = {"sleeper": 1024, "member": 16384, "cq": 1024}
"""How many of each kind are made to see what memory one takes."""
_ROUNDS, _REPEATS = 2000, 5
_FEW_ROUNDS, _MANY_REPEATS = 400, 40
_EVENTS, _HERD = 10_000, 1_000
_CALLS, _SLOW_CALLS = 10_000, 20
NO_LIMIT, LIMIT_MS = -1, 60_000
_RXE_COUNTED, _RXE_TIMED = (2000, 3), (1000, 10)
PLAIN, WATCHED, PROFILED, RDM = "plain", "watched", "profiled", "rdm"
"""Kinds of ping-pong over rxe: plain, with the probes, while a profile is open, and with tagged
messages between RDM endpoints."""
ON_A_LINK = ("rdmread", "rawread", "tags", "trip")
"""Measurements of the test module whose first argument is the address of an RDMA link."""
READ_SIZE, READ_DEPTH = 1 << 20, 4
_READS, _READ_REPEATS = 16, 8
FEW_TAGS, MANY_TAGS = 10, 10_000
FEW_ENDPOINTS, MANY_ENDPOINTS = 10, 1000
"""Of one node."""
PAIR = 2
"""Endpoints that send or receive; the others are idle."""
_TAGGED = 2000
_LOOP_ROUNDS, _LOOP_REPEATS = 100, 3
LOOPS = ("kfabric", "pyverbs")
"""Libraries of the event loops in Python over a completion channel."""
KFABRIC, VERBS, LIBFABRIC = "kfabric", "verbs", "libfabric"
FLOWS = (KFABRIC, VERBS)
"""Batches of messages in a process, whose completions are polled: from rings, by ibv_flow.c."""
TALKERS = (KFABRIC, VERBS, LIBFABRIC)
"""Ping-pongs between processes: an ioctl a turn, ibv_rc_pingpong -e, and fi_talk.c."""
BATCH, _BATCHES = 64, 50
"""Messages that are posted at once, and how often."""
DEAD_PEERS, _EXITS = 64, 3
ROUNDS_AT = {
    **dict.fromkeys(("pingpong", "trip"), 2),
    **dict.fromkeys(("rdmread", "rawread", "events", "herd", "talk"), 1),
    "rxe": 0,
}
"""Which argument of a line is its number of operations; of others it is the last one."""


def _rxe(messages: int, repeats: int) -> Iterable[str]:
    """Ping-pongs over rxe.

    Half of the plain ones come before those with the probes, half after them, because a guest
    gets slower in the course of time. They do not alternate: attaching the probes patches the
    kernel's text, which an emulated CPU may not survive many times.
    """
    before = repeats // 2
    others = ((WATCHED, repeats), (PROFILED, repeats), (RDM, repeats))
    kinds = ((PLAIN, before), *others, (PLAIN, repeats - before))
    return (f"rxe {messages} {kind}" for kind, times in kinds for _ in range(times))


def _reads(repeats: int) -> Iterable[str]:
    """Reads of remote memory, with bare verbs and with kfabric in turn."""
    numbers = f"{READ_SIZE} {_READS} {READ_DEPTH}"
    return (f"{name} {numbers}" for _ in range(repeats) for name in ("rawread", "rdmread"))


def _trips(rounds: int, repeats: int, far: int) -> Iterable[str]:
    """Ping-pongs over rxe, with bare verbs and with kfabric in turn, one thread on CPU `far`."""
    numbers = f"batch {rounds} 0 {far} {NO_LIMIT}"
    return (f"trip {kind} {numbers}" for _ in range(repeats) for kind in ("raw", "msg"))


INSTRUCTIONS: tuple[str, ...] = (
    *(
        f"pingpong {kind} {policy} {_ROUNDS} 0 0 {limit}"
        for _ in range(_REPEATS)
        for policy in ("batch", "normal")
        for limit in (NO_LIMIT, LIMIT_MS)
        for kind in ("flag", "bare", "kfi")
    ),
    f"poll {FEW_MEMBERS} 1 {_CALLS}",
    f"poll {MANY_MEMBERS} 1 {_CALLS}",
    f"poll {MEMBERS} 0 {_CALLS}",
    f"ioctl {MEMBERS} {_CALLS}",
    *(f"fi_poll {provider} {MEMBERS} {_SLOW_CALLS}" for provider in PROVIDERS),
    *_rxe(*_RXE_COUNTED),
    *_reads(1),
    *_trips(_ROUNDS, 1, 0),
    f"tags {FEW_TAGS} 0 {_TAGGED}",
    f"tags {MANY_TAGS} 0 {_TAGGED}",
    f"tags {FEW_TAGS} {FEW_ENDPOINTS - PAIR} {_TAGGED}",
    f"tags {FEW_TAGS} {MANY_ENDPOINTS - PAIR} {_TAGGED}",
    *(f"events {kind} {_LOOP_ROUNDS}" for _ in range(_LOOP_REPEATS) for kind in LOOPS),
    *(f"talk {kind} {_ROUNDS}" for _ in range(_LOOP_REPEATS) for kind in TALKERS),
    *(f"flow {kind} {BATCH} {_BATCHES}" for _ in range(_LOOP_REPEATS) for kind in FLOWS),
    f"herd {THREADS} {_HERD} 1 1",
)
"""The plan of a guest with one CPU that counts its instructions."""

TIMES: tuple[str, ...] = (
    *(
        f"pingpong {kind} batch {_FEW_ROUNDS} 0 1 {limit}"
        for _ in range(_MANY_REPEATS)
        for limit in (NO_LIMIT, LIMIT_MS)
        for kind in ("flag", "bare", "kfi")
    ),
    f"herd {THREADS} {_EVENTS} 1 1",
    f"herd {THREADS} {_EVENTS} 1 0",
    f"herd {THREADS} {_HERD} 0 1",
    f"epoll {THREADS} {_HERD}",
    f"flood {FLOOD}",
    *(f"memory {kind} {count}" for kind, count in CROWDS.items()),
    *_rxe(*_RXE_TIMED),
    *_reads(_READ_REPEATS),
    *_trips(_FEW_ROUNDS, _MANY_REPEATS, 1),
    *(f"exit {DEAD_PEERS}" for _ in range(_EXITS)),
)
"""The plan of a guest with two CPUs. Ping-pongs are short, so that some of them run while the host
is idle."""
