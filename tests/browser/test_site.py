# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The site of the documents: what is in its reference, its links, its search."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from webdriver import Browser, file_url

import kfabric_py
from kfabric.commands import docs
from kfabric_py import aio

pytest.importorskip("sphinx", reason="Sphinx is not installed; make docs installs it")
pytest.importorskip("furo", reason="Sphinx's theme is not installed; make docs installs it")

ROOT = Path(__file__).resolve().parents[2]
EXPORT = re.compile(r"^EXPORT_SYMBOL_GPL\((\w+)\);", re.MULTILINE)
DEAD = {
    "nowhere.md": "a page",
    "contract.md#nowhere": "an anchor of another page",
    "#nowhere": "an anchor of the same page",
}

# What the search finds, when it has ended.
_FOUND = """
return new Promise(resolve => {
    const look = () => {
        const text = document.querySelector(".search-summary")?.innerText ?? "";
        if (/finished|did not match/.test(text))
            resolve([...document.querySelectorAll("ul.search a")].map(link => link.href));
        else
            requestAnimationFrame(look);
    };
    look();
});
"""


class Page(HTMLParser):
    """The anchors of a page, and its links."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.add(value)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with documents that a test may change."""
    top = tmp_path_factory.mktemp("checkout")
    for name in ("docs", "examples"):
        shutil.copytree(ROOT / name, top / name)
    for path in ROOT.glob("*.md"):
        shutil.copy(path, top)
    (top / "kmod").symlink_to(ROOT / "kmod")
    return top


@pytest.fixture(scope="module")
def site(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    target = tmp_path_factory.mktemp("site")
    done = docs.build(checkout, target)
    assert done.returncode == 0, done.stdout
    return target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Every page, by its path in the site."""
    return {str(path.relative_to(site)): Page(path) for path in site.rglob("*.html")}


def test_every_public_name_of_kfabric_py_is_in_the_reference(pages: dict[str, Page]) -> None:
    """A name that is added to a module's ``__all__`` is described, too."""
    ids = pages["docs/site/python.html"].ids
    assert not {f"kfabric_py.{name}" for name in kfabric_py.__all__} - ids
    assert not {f"kfabric_py.aio.{name}" for name in aio.__all__} - ids


def documented() -> Iterator[str]:
    """The exported functions of core and verbs that have kernel-doc."""
    for folder in ("core", "verbs"):
        for path in (ROOT / "kmod" / folder).rglob("*.c"):
            text = path.read_text(encoding="utf-8")
            for name in EXPORT.findall(text):
                if re.search(rf"^/\*\*\n \* {name}\b", text, re.MULTILINE):
                    yield name


def test_every_exported_function_is_in_the_reference(pages: dict[str, Page]) -> None:
    """Its kernel-doc has an anchor."""
    wanted = {f"c.{name}" for name in documented()}
    assert len(wanted) > 100
    assert not wanted - set().union(*(page.ids for page in pages.values()))


def test_every_link_leads_to_a_page_and_an_anchor(site: Path, pages: dict[str, Page]) -> None:
    """Those that Sphinx and its theme made, too."""
    dead = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            path = (site / name).parent / unquote(parts.path) if parts.path else site / name
            key = str(path.resolve().relative_to(site.resolve()))
            if not path.is_file() or (
                parts.fragment and key in pages and parts.fragment not in pages[key].ids
            ):
                dead.append(f"{name}: {link}")
    assert dead == []


def test_a_dead_link_fails_the_build(checkout: Path, site: Path, tmp_path: Path) -> None:
    """The output names each of them: a page, an anchor of a page, an anchor of the same page."""
    target = tmp_path / "site"
    shutil.copytree(site, target)
    page = checkout / "docs/bench.md"
    before = page.read_text(encoding="utf-8")
    page.write_text(before + "".join(f"\n[{what}]({link})\n" for link, what in DEAD.items()))
    try:
        done = docs.build(checkout, target)
    finally:
        page.write_text(before, encoding="utf-8")
    assert done.returncode != 0
    warnings = [line for line in done.stdout.splitlines() if "docs/bench.md:" in line]
    assert len(warnings) == len(DEAD), done.stdout


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("kfi_cntr_read", "docs/site/"),
        ("CompletionQueue", "docs/site/python.html"),
        ("keepalive", "docs/verbs.html"),
    ],
)
def test_the_search_works_without_a_server(
    site: Path, browser: Browser, query: str, page: str
) -> None:
    """From a file, it finds the page, asks for nothing but files, and logs no error."""
    browser.go(f"{file_url(site / 'search.html')}?q={query}")
    found: list[str] = browser.run(_FOUND)
    assert any(page in link for link in found), found
    assert all(url.startswith(("file:", "data:")) for url in browser.requests())
    assert browser.logs("browser") == []
