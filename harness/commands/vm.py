# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Build a guest image and print its directory, or remove all images from the cache."""

from collections.abc import Sequence

from kfabric.errors import ExitStatus
from kfabric.terminal.arguments import Parser
from kfabric.vm import image, prepare
from kfabric.vm.options import add_kernel_option


def main(argv: Sequence[str]) -> int:
    """Build an image, or remove all of them."""
    parser = Parser(prog="kfabric vm", description=__doc__)
    parser.add_argument("action", choices=["build", "clean"], help="what to do")
    add_kernel_option(parser)
    args = parser.parse_args(argv)
    if args.action == "clean":
        image.clean()
    else:
        print(prepare.guest_image(kernel=args.kernel).disk.parent)
    return ExitStatus.OK
