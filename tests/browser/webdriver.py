# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A browser that a test drives: headless Chromium by its own driver.

WebDriver is a few HTTP calls with JSON, of which the tests need four. selenium,
which wraps them, is 12 MB with a dozen packages below it.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

START_SECONDS = 60.0
CALL_SECONDS = 120.0
SCRIPT_MS = 100_000
_PORT = re.compile(rb"started successfully on port (\d+)")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--window-size=1280,900",
)


class BrowserError(RuntimeError):
    """The browser refused a command; the text is the browser's."""


class Browser:
    """One browser with one page. A context manager; leaving it ends all its processes."""

    def __init__(self, *flags: str) -> None:
        """Start it with a new profile; ``flags`` come after the usual ones."""
        self._profile = tempfile.mkdtemp(prefix="kfabric-browser-")
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0", "--allowed-ips=127.0.0.1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._profile},
            start_new_session=True,
        )
        self._session = ""
        try:
            self._base = f"http://127.0.0.1:{self._port()}"
            self._open([*FLAGS, *flags, f"--user-data-dir={self._profile}/data"])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _port(self) -> int:
        """The driver says on its standard output where it listens."""
        output = self._driver.stdout
        assert output is not None
        said = b""
        deadline = time.monotonic() + START_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                data = os.read(output.fileno(), 4096)
                said += data
                if found := _PORT.search(said):
                    return int(found[1])
                if not data:
                    break
        raise BrowserError(f"chromedriver did not start: {said.decode(errors='replace')}")

    def _open(self, flags: list[str]) -> None:
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": flags},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "timeouts": {"script": SCRIPT_MS, "pageLoad": SCRIPT_MS},
        }
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{answer['sessionId']}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """One call of the protocol; what it returns. Raises BrowserError."""
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self._base + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            answer = json.load(error)["value"]
            raise BrowserError(f"{answer['error']}: {answer['message']}") from error

    def go(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self._call("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *args: Any) -> Any:
        """Run the body of a function in the page; what it returns, a promise's value too."""
        body = {"script": script, "args": list(args)}
        return self._call("POST", f"{self._session}/execute/sync", body)

    def logs(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since the last look: ``browser`` (the console) or ``performance``."""
        entries: list[dict[str, Any]] = self._call(
            "POST", f"{self._session}/se/log", {"type": kind}
        )
        return entries

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last look."""
        asked = []
        for entry in self.logs("performance"):
            answer = json.loads(entry["message"])["message"]
            if answer["method"] == "Network.requestWillBeSent":
                asked.append(str(answer["params"]["request"]["url"]))
        return asked

    def emulate(self, scheme: str = "", media: str = "") -> None:
        """Let the page believe that its user prefers ``light`` or ``dark``, or that it is printed.

        Without arguments the browser's own answers count again.
        """
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._command("Emulation.setEmulatedMedia", media=media, features=features)

    def resize(self, width: int, height: int = 900) -> None:
        """Give the page this size; a narrow one is a phone's."""
        self._command("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=1, mobile=width < 600)  # fmt: skip

    def _command(self, name: str, **params: Any) -> Any:
        """A command of the browser's own protocol."""
        body = {"cmd": name, "params": params}
        return self._call("POST", f"{self._session}/goog/cdp/execute", body)

    def screenshot(self) -> str:
        """The visible part of the page as PNG, base64."""
        return str(self._call("GET", f"{self._session}/screenshot"))

    def close(self) -> None:
        """End the session, then whatever is left of it."""
        try:
            if self._session:
                self._call("DELETE", self._session)
        except (OSError, BrowserError):
            pass  # It hangs or is gone; what is left is ended below.
        finally:
            os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()
            if self._driver.stdout:
                self._driver.stdout.close()
            shutil.rmtree(self._profile, ignore_errors=True)


def file_url(path: Path) -> str:
    """The address of a file."""
    return path.resolve().as_uri()
