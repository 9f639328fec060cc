# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""How Sphinx makes a site of the documents and of the comments in the sources.

The source directory is the checkout: its pages stay where they are, and their links are those
that also lead a reader of the files. ``kfabric docs`` runs Sphinx.
"""

import enum
import re
import subprocess
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

project = "kfabric"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "docs/site/*.rst", "examples/*/README.md"]
exclude_patterns = [".git", "build"]

html_theme = "furo"
html_title = "kfabric"
html_extra_path = ["index.html"]
html_copy_source = False
html_show_search_summary = False  # It is fetched, which a browser refuses for files.

# As on GitHub, every heading is an anchor.
myst_heading_anchors = 6

nitpicky = True
nitpick_ignore_regex = [
    ("c:.*", ".*"),  # the kernel's, and those without kernel-doc
    ("py:.*", r"(asyncio|collections\.abc|ctypes|dataclasses|fcntl|os|select|selectors)(\..*)?"),
    # Names of types in signatures.
    ("py:class", r"kfabric_py\._.*|Client|Handle|Local|Remote|W|WriteableBuffer"),
]
# All members of a class, but not those of these bases.
autodoc_default_options = {"inherited-members": "int, tuple, BaseException, OSError"}
autodoc_member_order = "bysource"
autodoc_typehints = "description"

# The pages below a page. Those of the front page are in the order of the table in docs/README.md.
CHILDREN = {"docs/uapi": ["/docs/uapi/*"], "docs/adr/README": ["/docs/adr/*"]}
PAGE = re.compile(r"^\| \[[^]]+\]\(([\w./-]+)\.md\)", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([\w-]+)">')


def add_children(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add a page's table of contents, which the files do without."""
    children = CHILDREN.get(docname, [])
    if docname == root_doc:
        table = (Path(app.srcdir) / "docs/README.md").read_text(encoding="utf-8")
        pages = [f"docs/{name}" for name in PAGE.findall(table)]
        children = ["docs/README", *pages, "/examples/*/README", "/docs/site/*"]
    if children:
        source[0] += "\n".join(["\n```{toctree}", ":hidden:", ":glob:", "", *children, "```", ""])


def add_anchors(app: Sphinx, doctree: nodes.document) -> None:
    """Let links lead to a page's explicit anchors, as they lead to its headings."""
    slugs = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
    for raw in doctree.findall(nodes.raw):
        for name in ANCHOR.findall(raw.astext()):
            slugs[name] = (raw.line, name, name)


def find_in_package(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Find what a docstring of any module names as its users do: in the package."""
    if node["refdomain"] != "py":
        return None
    node["py:module"], node["py:class"] = "kfabric_py", None
    return env.domains.python_domain.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], node["reftarget"], node, content
    )


def leave_out(
    _app: Sphinx, _kind: str, name: str, member: object, _skip: bool, _options: object
) -> bool | None:
    """Whether to leave out a member: "Attributes" has a tuple's fields, and nothing an enum's."""
    if isinstance(member, enum.Enum):
        return False
    return True if type(member).__name__ == "_tuplegetter" or name == "errno" else None


class KernelDoc(SphinxDirective):
    """The kernel-doc comments of the files that match a pattern, with a section for each file.

    With ``:export:`` only those of exported functions.
    """

    required_arguments = 1
    option_spec: ClassVar = {"export": directives.flag}

    def run(self) -> list[nodes.Node]:
        top = Path(self.env.srcdir)
        mark = "\nEXPORT_SYMBOL" if "export" in self.options else "\n/**\n"
        found: list[nodes.Node] = []
        for path in sorted(top.glob(self.arguments[0])):
            self.env.note_dependency(path)
            if mark in path.read_text(encoding="utf-8") and (text := self._text(path)):
                name = path.relative_to(top).as_posix()
                text = "\n".join([name, "-" * len(name), "", text])
                found += self.parse_text_to_nodes(text, allow_section_headings=True)
        return found

    def _text(self, path: Path) -> str:
        argv = ["perl", self.config.kernel_doc, "-rst", "-sphinx-version", "3.0"]
        argv += ["-export"] if "export" in self.options else []
        done = subprocess.run([*argv, path], capture_output=True, text=True, check=True)
        return done.stdout.strip()


def setup(app: Sphinx) -> None:
    app.add_config_value("kernel_doc", "", "env")
    app.add_directive("kernel-doc", KernelDoc)
    app.connect("source-read", add_children)
    app.connect("doctree-read", add_anchors)
    app.connect("missing-reference", find_in_package)
    app.connect("autodoc-skip-member", leave_out)
