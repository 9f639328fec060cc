# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Where each command of the documents is run as it is printed, and what it does then.

A command without a place has its reason in NOT_RUN. All commands of kfabric and make are at least
parsed by what reads them (tests/unit/test_doc_blocks.py). doc_reader.py runs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from doc_blocks import KFABRIC, Block, blocks

UNIT = "unit"
"""tests/unit/test_doc_blocks.py: boots nothing and takes some seconds."""
VM = "vm"
"""tests/vm/test_document_commands.py in make test-all: takes seconds in a guest."""
CI = "ci"
"""A step of .ci/run, as it is printed."""
DOCUMENTS = "documents"
"""make documents: minutes."""
HOURS = "hours"
"""make documents ARGS="-m hours": many minutes to hours, or a kernel that is built for hours."""

SUITES = (UNIT, VM, CI, DOCUMENTS, HOURS)


@dataclass(frozen=True)
class Run:
    """How commands are run."""

    suite: str
    status: int = 0
    text: str = ""
    """What the output has, besides the lines that the page prints below the command."""
    first: tuple[str, ...] = ()
    """Commands that must have succeeded before it, of the same page or another one."""
    typed: str = ""
    """What a person types at the prompt that the command opens; it ends with the shell."""
    inside: str = ""
    """The command that runs a shell's text in a guest: the page means a prompt there."""
    stock: bool = False
    """The machine runs the guests' kernel, as far as it is asked; modules go to ~/installed."""


NEW_MOD = f"{KFABRIC} new my_mod"
# The file of the page on modules of one's own.
_WAKEUPS = "".join(block.text for block in blocks("toml"))
WATCH_MOD = f"cat >my_mod/wakeups.toml <<'END'\n{_WAKEUPS}END"
NEW_ULP = f"{KFABRIC} new my_ulp --kfabric"
# The reader's own module, outside of the checkout.
OWN_MOD = f'(cd ~ && "$OLDPWD/{KFABRIC}" new my_mod)'
_FILES = "tests/unit/test_compat.py tests/unit/test_vm_wire.py"
SHARD = f"{KFABRIC} test --shard {{0}}/2 --output shard-{{0}} {_FILES}"
VENV = "python3 -m venv ~/kfabric"
GCC = "gcc -Wall -Wextra -Werror -I kmod/include/uapi -o build/wait_set examples/wait_set.c"
FROM_TOP = "make -C kmod KVER=$(uname -r)"
KMOD = FROM_TOP.replace("kmod", "../../kmod", 1)
# As kfabric shell: the modules are loaded.
PROMPT = KFABRIC + " run {}--variant test -- bash -ec 'python3 -m kfabric.guest.ready; eval \"$0\"'"
# A machine after modules_install, with a net device; udevd runs.
BARE = f"""{KFABRIC} run --variant test -- bash -ec '
    mkdir -p /lib/modules/$(uname -r)/extra
    cp $KFABRIC_MODULES/*.ko /lib/modules/$(uname -r)/extra
    /lib/systemd/systemd-udevd --daemon
    ip link add eth0 type dummy
    ip address add 10.0.0.1/24 dev eth0
    ip link set eth0 up
    eval "$0"'"""
# The same with an RDMA device that has the address of the examples, and with their modules.
MACHINE = BARE.replace(
    "eval",
    """depmod
    rdma link add rxe0 type rxe netdev eth0
    cd $KFABRIC_MODULES
    eval""",
)

_KF = re.escape(KFABRIC)

#: By a pattern of the command; the first one that fits counts.
RUNS: Mapping[str, Run] = {
    r"make help": Run(UNIT),
    r"make (mutants|share) ARGS=--list": Run(UNIT),
    rf"{_KF} new .*": Run(UNIT),
    rf"{_KF} prove .*/sbitmap/buggy\.c \S+ \S+/scenario\.c": Run(UNIT, text=" proved"),
    rf"{_KF} prove .*/buggy\.c .*": Run(UNIT, 3, "FOUND: asleep"),
    rf"{_KF} prove .*/fixed\.c .*": Run(UNIT, text=" proved"),
    r"make prove ARGS=--list": Run(UNIT),
    r'eval "\$\(.*register-python-argcomplete kfabric\)"': Run(UNIT),
    rf"{_KF} report --all build/demo": Run(UNIT, text="VERIFIED: "),
    rf"{_KF} merge .*": Run(UNIT, text=" passed", first=(SHARD.format(1), SHARD.format(2))),
    re.escape(GCC): Run(UNIT),
    # Seconds in a guest.
    rf"{_KF} run --variant test -- sh -c '.* build/wait_set .*'": Run(
        VM, text="received: hello", first=(GCC,)
    ),
    rf"{_KF} run -- uname -r": Run(VM, text="-amd64"),
    rf"echo hello \| {_KF} run -- cat": Run(VM, text="hello"),
    rf"{_KF} run --module ~/my_mod -- ls /dev/my_mod": Run(
        VM, text="/dev/my_mod", first=(OWN_MOD,)
    ),
    rf"{_KF} top --module examples/pingpong_ulp .*": Run(VM, text="wait set"),
    rf"{_KF} trace --module 9pnet .* -- find .*": Run(VM, text="\nVERIFIED: "),
    r"sed -i .* my_mod/my_mod\.c": Run(VM, first=(NEW_MOD,)),
    rf"{_KF} trace --module my_mod .* 'timeout .*": Run(VM, 3, "\nLOST: wait 1 of thread head/"),
    rf"{_KF} trace --module my_mod .*": Run(VM, text="\nVERIFIED: 1 wait", first=(NEW_MOD,)),
    r"make (check|docs|wheels|test-all|test-wire)": Run(CI),
    # Minutes.
    r"make setup": Run(DOCUMENTS),
    r"make prove( ARGS=.--quick .*)?": Run(DOCUMENTS, text=" proved"),
    r"make demo": Run(DOCUMENTS, text="VERIFIED: "),
    r"make demo FAULT=lost": Run(DOCUMENTS, 2, "LOST: "),
    r'make gallery ARGS="baton-signal herd"': Run(DOCUMENTS, text="bugs named correctly"),
    r'make test ARGS="tests/guest/test_poll.py -k turns"': Run(DOCUMENTS, text=" passed"),
    rf"{_KF} test (--kernel 6\S+ )?tests/guest/test_\w+\.py": Run(DOCUMENTS, text=" passed"),
    rf"{_KF} test --until-pass 3 .*": Run(DOCUMENTS, text=" passed, "),
    rf"{_KF} test --module my_mod": Run(DOCUMENTS, text="2 passed", first=(NEW_MOD,)),
    rf"{_KF} test --module my_mod --verify-wakeups": Run(
        DOCUMENTS,
        text="1 of these waits was on the queues of wakeups.toml",
        first=(NEW_MOD, WATCH_MOD),
    ),
    rf"{_KF} test --module my_ulp": Run(DOCUMENTS, text="2 passed", first=(NEW_ULP,)),
    rf"{_KF} test (--kernel 6.1 --kernel 6.12 |--kdir ~/linux )?--module ~/my_mod( .*)?": Run(
        DOCUMENTS, text="2 passed", first=(OWN_MOD,)
    ),
    rf"{_KF} test --module examples/pingpong_ulp .*": Run(DOCUMENTS, text=" passed"),
    rf"{_KF} test --modprobe ifb .*": Run(DOCUMENTS, text="1 passed"),
    rf"(KFABRIC_KERNEL=6.12 )?{_KF} shell": Run(DOCUMENTS, typed="exit"),
    rf"{_KF} shell (--kdir ~/linux )?--module ~/my_mod": Run(
        DOCUMENTS, typed="exit", first=(OWN_MOD,)
    ),
    rf"{_KF} (run|modules) --kdir ~/linux( -- uname -r)?": Run(DOCUMENTS),
    rf"{_KF} run --kernel 6.12 .* --cpus 4 -- nproc": Run(DOCUMENTS, text="4\n"),
    rf"{_KF} run --packages strace .*": Run(DOCUMENTS, text="total"),
    rf"{_KF} run --packages linux-perf .*": Run(DOCUMENTS, text="perf version"),
    rf"{_KF} run --kernel-modules null_blk .*": Run(DOCUMENTS, text="/dev/nullb0"),
    rf"{_KF} vm build --packages .*": Run(DOCUMENTS, text="/layers/"),
    rf"{_KF} trace --modprobe null_blk .*": Run(DOCUMENTS, text="\ncomplete: no record was lost"),
    rf"{_KF} run --modprobe null_blk -- grep .*": Run(DOCUMENTS, text="null_exit_hctx [null_blk]"),
    rf"{_KF} trace -- date .*": Run(DOCUMENTS, text="\ntraced "),
    r"grep -A4 steps build/trace/summary\.json": Run(DOCUMENTS, text='"attach": '),
    rf"{_KF} trace .* --module gallery -- .*": Run(DOCUMENTS, text="signal_queue [gallery]"),
    rf"{_KF} trace .* --module gallery --event .*": Run(DOCUMENTS, 3, "WAKE NOT HANDED ON: "),
    r"echo \$\?": Run(DOCUMENTS, text="3\n"),
    r"(insmod|cat) \S*gallery\S*": Run(
        DOCUMENTS, text="thread waiter-2 ", inside=PROMPT.format("")
    ),
    r"cat \S*/kfi_mock/state": Run(DOCUMENTS, inside=PROMPT.format("")),
    rf"{_KF} fuzz --replay .*": Run(DOCUMENTS, text="did not fail"),
    r"make -C kmod KVER=\$\(uname -r\) modules_install": Run(DOCUMENTS, stock=True),
    r"make .*KVER=\$\(uname -r\) modules_install": Run(DOCUMENTS, first=(KMOD,), stock=True),
    r"make -C examples/.*": Run(DOCUMENTS, first=(FROM_TOP,), stock=True),
    r"make .*KVER=\$\(uname -r\).*": Run(DOCUMENTS, stock=True),
    r"(?s:depmod|modprobe -a .*|rdma link add .*|groupadd .*|cp examples/udev/.*|udevadm .*)": Run(
        DOCUMENTS, inside=BARE
    ),
    r"python3 examples/pingpong\.py .*": Run(
        DOCUMENTS, text=" round trips, ", inside=PROMPT.format("")
    ),
    r"modprobe kfi_verbs|insmod \w+_ulp\.ko addr=10\.0\.0\.1|cat \S*_ulp/parameters/result": Run(
        DOCUMENTS, text="state=", inside=MACHINE
    ),
    r"modprobe kfi_verbs aliases=.*": Run(DOCUMENTS, inside=MACHINE),
    r"echo 'module kfi_verbs .*": Run(DOCUMENTS, inside=PROMPT.format("")),
    re.escape(VENV): Run(DOCUMENTS),
    r"~/kfabric/bin/pip install build/wheels/\*\.whl": Run(DOCUMENTS, first=("make wheels",)),
    r"~/kfabric/bin/pip install build/wheels/kfabric_py-\*\.whl": Run(
        DOCUMENTS, first=("make wheels", VENV)
    ),
    r"~/kfabric/bin/pip install --find-links .*": Run(DOCUMENTS, first=("make wheels", VENV)),
    r"~/kfabric/bin/kfabric (setup|new my_mod)": Run(DOCUMENTS),
    r"~/kfabric/bin/kfabric test --module my_mod": Run(DOCUMENTS, text="2 passed"),
    # Many minutes to hours.
    r"make (soak|bench(-gate)?|fuzz|gallery|mutants|prove|share)( .*)?": Run(HOURS),
    r"make test-wire ARGS=.*": Run(HOURS),
    r"(KFABRIC_MODEL_STEPS=\d+ )?make test(-\w+)?( .*)?": Run(HOURS, text=" passed"),
    rf"nice -n -10 {_KF} test": Run(HOURS, text=" passed"),
    rf"{_KF} test (--vms 2|--kernel debug --(coverage|vmcore)) tests/guest.*": Run(
        HOURS, text=" passed"
    ),
    rf"{_KF} test --shard \d/4": Run(HOURS, text="kfabric: shard "),
    rf"{_KF} test --until-fail 50 .*": Run(HOURS, text=" passed, "),
    rf"{_KF} test --schedule .* --record .*": Run(HOURS, 1, "to replay it "),
    rf"{_KF} test --schedule .* --verify-wakeups .*": Run(HOURS, 1, "LOST: wait "),
    rf"{_KF} trace --schedule seeds=1..20 .*": Run(HOURS, 3, "the same failure came in "),
    rf"{_KF} test --schedule seeds=1..20 .*": Run(HOURS, 1, "held at "),
    rf"{_KF} test --schedule seeds=1..12 .*": Run(HOURS, 1, "held at "),
    rf"{_KF} test --record .*": Run(HOURS, 1, "to replay it "),
    rf"{_KF} replay --back-to 'visit .*": Run(HOURS, text="mail_wait () at "),
    rf"{_KF} replay --back-to 'wait .*": Run(HOURS, text="bell_wait () at "),
    rf"{_KF} replay --back-to .*": Run(HOURS, text="was called "),
    rf"echo .* \| {_KF} replay --gdb .*": Run(HOURS, text="$1 = 4"),
    rf"{_KF} replay build/test/[^ ]*": Run(HOURS, text="printed the same to the byte"),
    rf"{_KF} test --schedule .* -m races": Run(HOURS, text="no failure under 4 seeds"),
    rf"{_KF} test --schedule .* careful=1": Run(HOURS, text="no failure under 4 seeds"),
    rf"{_KF} run --kernel debug .*sysrq-trigger'": Run(HOURS, 74, "console and more: "),
    rf"{_KF} post-mortem build/vm/run-\*": Run(HOURS, text="sysrq triggered crash"),
    r"cd /sys/kernel/tracing|echo (1|printk) > .*": Run(
        HOURS, inside=PROMPT.format("--kernel debug ")
    ),
}

#: Why the other commands are parsed and not run: a reason, and patterns of the commands.
NOT_RUN: Mapping[str, tuple[str, ...]] = {
    "runs the commands of this list": (r"make documents( .*)?",),
    "needs other machines; tests/vm/test_far.py plays one": (rf"{_KF} test .*--tx .*",),
    "is about this machine, without a guest; tests/guest/test_trace.py and test_top.py do it": (
        rf"{_KF} (trace|top) --here.*",
    ),
    "needs two machines; tests/guest/test_pingpong_ulp.py and test_rdm_ulp.py have one": (
        r"insmod \w+_ulp\.ko .* (role|peer)=.*",
    ),
    "needs a source tree of Lustre; tests/vm/test_lustre.py has one that stands in": (
        r"build/venv/bin/python examples/lustre/lnet\.py .*",
    ),
    "has a number that the reader finds out; tests/guest/test_mock.py writes all commands": (
        r"echo 'inject 6 .*",
    ),
    "changes this machine": (r"sysctl .*",),
}


def of(command: str) -> Run | None:
    """Where a command is run; None: nowhere."""
    fits = (run for like, run in RUNS.items() if re.fullmatch(like, command, re.DOTALL))
    return None if reason(command) else next(fits, None)


def reason(command: str) -> str:
    """The reason for which a command is not run; empty if there is none."""
    return next(
        (
            text
            for text, several in NOT_RUN.items()
            if any(re.fullmatch(like, command, re.DOTALL) for like in several)
        ),
        "",
    )


@dataclass(frozen=True)
class Play:
    """The commands of a block that one suite runs, one after the other."""

    block: Block
    suite: str
    commands: tuple[str, ...]

    def __str__(self) -> str:
        """The page and the first command: a line's number would change with each edit."""
        words = re.sub(r"[^\w.]+", "-", self.commands[0].removeprefix("build/venv/bin/"))
        return f"{self.block.document}:{words.strip('-')[:60].rstrip('-')}"


def plays(*suites: str) -> list[Play]:
    """What suites run, in the order of the pages. A page's commands run once each."""
    return [
        Play(block, suite, commands)
        for block in blocks("")
        for suite in suites
        if (commands := tuple(_of(block, suite)))
    ]


def _of(block: Block, suite: str) -> Iterator[str]:
    for command in block.commands:
        run = of(command)
        if run and run.suite == suite and block == _shows(block.document, command):
            yield command


def _shows(document: str, command: str) -> Block:
    """The block of a page that shows what a command prints, or the first one that has it."""
    found = [b for b in blocks("") if b.document == document and command in b.commands]
    return max(found, key=lambda block: bool(block.printed[command]))
