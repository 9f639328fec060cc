# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A picture of a report's page, for the documents.

    PYTHONPATH=. build/venv/bin/python tests/browser/screenshot.py build/demo/report.html a.png

docs/report.png shows tests/data/traces/lost.jsonl, docs/gallery.png the example of docs/tracing.md.
"""

from __future__ import annotations

import argparse
import base64
from pathlib import Path

from webdriver import Browser, file_url


def main() -> None:
    """Take one picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--size", default="1180,900", help="of the window (%(default)s)")
    parser.add_argument("--scheme", default="light", help="of colours (%(default)s, or dark)")
    args = parser.parse_args()
    with Browser("--hide-scrollbars") as browser:
        browser.resize(*map(int, args.size.split(",")))
        browser.emulate(args.scheme)
        browser.go(file_url(args.page))
        args.picture.write_bytes(base64.b64decode(browser.screenshot()))


if __name__ == "__main__":
    main()
