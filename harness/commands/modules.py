# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Build the kernel modules for the guest's kernel, and print their directories."""

from collections.abc import Sequence

from kfabric.errors import ExitStatus
from kfabric.terminal.arguments import Parser
from kfabric.vm import kbuild, prepare
from kfabric.vm.options import add_kernel_option, add_variant_option
from kfabric.vm.spec import Variant


def main(argv: Sequence[str]) -> int:
    """Build one variant or all."""
    parser = Parser(prog="kfabric modules", description=__doc__)
    add_variant_option(parser, "build only this variant; default: all")
    add_kernel_option(parser)
    args = parser.parse_args(argv)
    variants = [Variant(args.variant)] if args.variant else list(Variant)
    image = prepare.guest_image(kernel=args.kernel)
    for variant in variants:
        print(kbuild.ensure(prepare.SOURCE, image, variant, prepare.say))
    return ExitStatus.OK
