# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Build a guest image and print its directory, list all images, or remove them from the cache.

An image with additional packages or modules is a layer of another image, and goes with it. In an
installed tool, clean also removes what older versions of the tool have left in the cache.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from kfabric.errors import ExitStatus
from kfabric.terminal.arguments import Parser
from kfabric.vm import cache, image, layer, prepare, source
from kfabric.vm.options import add_image_options, add_kernel_option
from kfabric.vm.spec import Extras


def main(argv: Sequence[str]) -> int:
    """Build an image, list all of them, or remove all of them."""
    parser = Parser(prog="kfabric vm", description=__doc__)
    parser.add_argument("action", choices=["build", "list", "clean"], help="what to do")
    add_kernel_option(parser)
    add_image_options(parser)
    args = parser.parse_args(argv)
    if args.action == "clean":
        image.clean()
        source.remove_others()
    elif args.action == "list":
        for line in listing(cache.root() / "images"):
            print(line)
    else:
        extras = Extras(tuple(args.packages), tuple(args.kernel_modules))
        print(prepare.guest_image(kernel=args.kernel, extras=extras).disk.parent)
    return ExitStatus.OK


def listing(images: Path) -> Iterator[str]:
    """A line for each image: its size, its directory and its kernel; its layers follow it."""
    for facts in sorted(images.glob("*/image.json")):
        layers = facts.parent / layer.DIRECTORY
        yield _line(facts.parent, json.loads(facts.read_text())["release"], layers)
        for added in sorted(layers.glob(f"*/{layer.FACTS}")):
            wanted = json.loads(added.read_text())
            yield _line(added.parent, "+ " + " ".join(wanted["packages"] + wanted["modules"]))


def _line(directory: Path, text: str, without: Path | None = None) -> str:
    size = 0
    for place, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if Path(place, name) != without]
        size += sum(os.lstat(os.path.join(place, name)).st_blocks * 512 for name in names)
    return f"{size >> 20:6} MiB  {directory}  {text}"
