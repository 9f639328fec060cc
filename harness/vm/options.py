# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Command line options for guests, shared by the subcommands that boot one."""

import argparse
import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from kfabric.errors import GuestError
from kfabric.terminal.arguments import whole
from kfabric.terminal.slow import Slow
from kfabric.vm import layer, prepare, usermodule, versions, workdir
from kfabric.vm.machine import Vm
from kfabric.vm.spec import Extras, Variant, VmSpec
from kfabric.vm.usermodule import UserModule

LEAST_MIB = 256
"""Memory with which a guest still boots."""
MOST_CPUS = 255
"""Virtual CPUs of QEMU's machine."""
_KDIR_HELP = "boot the kernel that you built in DIR; default: that of --kernel"
VMCORE_HELP = "save the guest's memory on a panic; see kfabric post-mortem"


def add_guest_options(
    parser: argparse.ArgumentParser, module: bool = True, variant: str = "none"
) -> None:
    """Add them.

    Args:
        module: with ``--module DIR``; otherwise the caller sets ``args.module``.
        variant: the default of ``--variant``, if no module to load needs kfabric's.
    """
    add_kernel_option(parser)
    add_image_options(parser)
    usermodule.add_options(parser, module)
    text = "build the modules of kfabric and of its tests; $KFABRIC_MODULES names their directory"
    add_variant_option(parser, f"{text}; default: {variant}, or test if a module needs them")
    add_machine_options(parser, 1024)
    parser.add_argument("--vmcore", action="store_true", help=VMCORE_HELP)


def add_machine_options(parser: argparse.ArgumentParser, memory_mib: int) -> None:
    """Add what a guest is made of; ``memory_mib`` is the default of its memory."""
    parser.add_argument(
        "--memory", type=whole(LEAST_MIB), default=memory_mib, metavar="MIB", help="guest memory"
    )
    parser.add_argument(
        "--cpus", type=whole(1, MOST_CPUS), default=2, metavar="N", help="virtual CPUs"
    )
    parser.add_argument(
        "--append",
        action="append",
        default=[],
        metavar="WORD",
        help="kernel parameter; may be repeated",
    )


def add_kernel_option(
    parser: argparse.ArgumentParser, several: bool = False
) -> argparse._MutuallyExclusiveGroup:
    """Add ``--kernel NAME`` and ``--kdir DIR``; both set ``args.kernel``, to a list if several.

    Returns the group of options that exclude one another.
    """
    group = parser.add_mutually_exclusive_group()
    for option, kind, metavar, text in (
        ("--kernel", kernel_name, "NAME", f"one of {kernel_help()}"),
        ("--kdir", kernel_tree, "DIR", _KDIR_HELP),
    ):
        group.add_argument(
            option,
            dest="kernel",
            action="append" if several else "store",
            type=kind,
            default=[] if several else "",
            metavar=metavar,
            help=f"{text}; may be repeated" if several else text,
        )
    return group


def add_image_options(parser: argparse.ArgumentParser) -> None:
    packages = "install these Debian packages in the guest's image, e.g. strace,gdb"
    modules = "put these modules of the kernel into the image, e.g. null_blk,fs/nfs/"
    for option, kind, text, variable in (
        ("--packages", layer.package_names, packages, layer.PACKAGES),
        ("--kernel-modules", layer.module_names, modules, layer.MODULES),
    ):
        parser.add_argument(
            option,
            action="extend",
            type=kind,
            default=[],
            metavar="NAME,...",
            help=f"also {text}; may be repeated; default: ${variable}",
        )


def extras(args: argparse.Namespace) -> Extras:
    """What the image must have: whatever these options name, and the modules to load."""
    return Extras(tuple(args.packages), (*args.kernel_modules, *args.modprobe))


def kernel_name(name: str) -> str:
    """A type: the name of a kernel. Raises UnknownKernel."""
    return versions.load(prepare.SOURCE).find(name).name


def kernel_tree(text: str) -> str:
    """A type: a built kernel's directory, as the name of that kernel. Raises NoKernelTree."""
    return versions.load(prepare.SOURCE).find(str(Path(text).resolve())).name


def kernel_option(name: str) -> str:
    """The option that chooses a kernel by its name."""
    return f"{'--kdir' if '/' in name else '--kernel'} {name}"


def kernel_help() -> str:
    """The names of all kernels, and the default."""
    known = versions.load(prepare.SOURCE)
    default = f"${versions.ENVIRONMENT}, or {known.default}"
    return f"{', '.join(known.kernels)}; default: {default}"


def add_variant_option(
    parser: argparse.ArgumentParser, text: str, default: str | None = None
) -> None:
    variants = [variant.value for variant in Variant]
    parser.add_argument("--variant", choices=variants, default=default, help=text)


def guest(args: argparse.Namespace, name: str) -> tuple[Vm, UserModule | None]:
    """The guest that the options describe, not started, and the module to load in it.

    Its name is unique on this host. The user's commands run in ``vm.here``. Raises KfabricError.
    """
    tested = usermodule.of(args)
    spec = VmSpec(
        name=f"{name}-{os.getpid()}",
        kernel=args.kernel,
        extras=extras(args),
        memory_mib=args.memory,
        cpus=args.cpus,
        variant=Variant(args.variant) if args.variant else None,
        cmdline=tuple(args.append),
        vmcore=args.vmcore,
    )
    if tested:
        image = prepare.guest_image(kernel=spec.kernel, extras=spec.extras)
        spec = usermodule.with_module(spec, image, tested, prepare.say)
    return prepare.vm(workdir.add(spec, usermodule.home(tested), prepare.say)), tested


@contextlib.contextmanager
def disposable(vm: Vm, tested: UserModule | None = None) -> Iterator[Vm]:
    """A running guest with its module loaded; its directory is kept only if the guest failed.

    A line shows a boot, or a module's load, that takes long.
    """
    try:
        with contextlib.ExitStack() as stack:
            with Slow("booting a guest", prepare.say):
                stack.enter_context(vm)
            if tested:
                with Slow(f"loading {tested}", prepare.say):
                    usermodule.load(vm, tested)
            yield vm
    except GuestError:
        prepare.say(f"console and more: {vm.directory}")
        raise
    except BaseException:
        shutil.rmtree(vm.directory, ignore_errors=True)
        raise
    shutil.rmtree(vm.directory, ignore_errors=True)
