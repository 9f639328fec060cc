# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Install the Debian packages that guests and module builds need on this machine.

It needs root and Debian 12, and takes well under a second if nothing is missing. In a checkout it
makes the Python environment, too, like make setup. The last line confirms that everything is there,
and names the commands to go on with.
"""

import subprocess
from collections.abc import Sequence

from kfabric import root
from kfabric.terminal.arguments import Parser, program
from kfabric.vm import prepare


def main(argv: Sequence[str]) -> int:
    """Install them; the exit status of vm/bootstrap.sh, which prints the reason of a failure."""
    Parser(prog="kfabric setup", description=__doc__).parse_args(argv)
    script = prepare.SOURCE / "vm/bootstrap.sh"
    status = subprocess.run([str(script), "host"], check=False).returncode
    if not status:
        further = (
            f"{program()} new my_mod" if root.INSTALLED else f"make demo, or {program()} new my_mod"
        )
        prepare.say(f"set-up: everything that guests and builds need is installed; next: {further}")
    return status
