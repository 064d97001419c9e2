"""The directive `{pages}`: a list of the other pages of a folder, each with its title and its first sentence.

A page that is added to the folder appears by itself in the list, and in the navigation. The pages of the configuration
value `linked_pages` are only linked to: a navigation with all of them would be too long on every page. Links whose text
is the name of a file, such as `cpu.md`, get the title of the page or section as their text.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective


class Pages(SphinxDirective):
    """Lists the pages beside the page that has the directive.

    The content names those that come first, in order. With the option `only` it names all. Without, the list goes on
    with the pages that no other list on the page names.
    """

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"only": directives.flag}

    def run(self) -> list[nodes.Node]:
        page = Path(self.env.doc2path(self.env.docname))
        self.env.note_reread()
        names = names_of_list(page, list(self.content), only="only" in self.options)
        folder = page.parent
        items = (_item(name, *title_and_sentence((folder / name).read_text())) for name in names)
        return [*self.parse_text_to_nodes("\n".join(items)), self._toctree(names)]

    def _toctree(self, names: list[str]) -> nodes.Node:
        """Returns a hidden toctree of the pages."""
        folder = self.env.docname.removesuffix("index")
        documents = [f"{folder}{name.removesuffix('.md')}" for name in names]
        tree = addnodes.toctree("", entries=[(None, each) for each in documents], includefiles=documents)
        tree.update_all_atts({"parent": self.env.docname, "hidden": True, "glob": False, "caption": None})
        tree.update_all_atts({"maxdepth": -1, "numbered": 0, "titlesonly": False, "includehidden": False})
        return nodes.compound("", tree, classes=["toctree-wrapper"])


_LISTS = re.compile(r"^```\{pages\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def lists_of(page: Path) -> list[list[str]]:
    """Returns the pages, and the indexes of subfolders, that each list of a page has, relative to its folder."""
    blocks = [block.split() for block in _LISTS.findall(page.read_text())]
    return [names_of_list(page, [n for n in block if n != ":only:"], only=":only:" in block) for block in blocks]


def names_of_list(page: Path, named: list[str], *, only: bool) -> list[str]:
    """Returns the pages of a list that names these."""
    found = sorted([*page.parent.glob("*.md"), *page.parent.glob("*/index.md")])
    names = [path.relative_to(page.parent).as_posix() for path in found if path != page]
    unknown = [name for name in named if name not in names]
    if unknown:
        raise ValueError(f"{page} lists {', '.join(unknown)}, which does not exist")
    taken = set(" ".join(_LISTS.findall(page.read_text())).split())
    return named if only else [*named, *(name for name in names if name not in taken)]


def _item(name: str, title: str, text: str) -> str:
    return f"[{title}]({name})\n: {text}\n" if text else f"[{title}]({name})\n: {title}.\n"


def title_and_sentence(text: str) -> tuple[str, str]:
    """Returns the title of a page and the first sentence of the paragraph after it; "" if no paragraph follows.

    >>> title_and_sentence("# Style\\n\\nHow we write, e.g. [here](x.md). And why.\\n\\n## Code\\n")
    ('Style', 'How we write, e.g. here.')
    """
    title, _, rest = text.partition("# ")[2].partition("\n")
    paragraph = " ".join(rest.strip().partition("\n\n")[0].split())
    if not re.match(r"(?!```)[\w`*\"(\[]", paragraph):
        return title.strip(), ""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    return title.strip(), re.split(r"(?<=\.)(?<!e\.g\.)(?<!i\.e\.) ", plain)[0].rstrip(":")


def _leave_out(app: Any, doctree: nodes.document) -> None:
    """Lets a page that is only linked to be in no toctree."""
    name = app.env.docname
    if any(fnmatch(name, pattern) for pattern in app.config.linked_pages):
        app.env.metadata[name]["orphan"] = True


def _entitle(app: Any, doctree: nodes.document, docname: str) -> None:
    """Replaces the text of links that is the name of a page's file."""
    for link in doctree.findall(nodes.reference):
        if link.get("internal") and re.fullmatch(r"[\w-]+\.md", link.astext()) and "refuri" in link:
            name, _, anchor = link["refuri"].partition("#")
            target = _target(app, docname, name)
            title = _heading(app, target, anchor) if target is not None else None
            if title is not None:
                link.clear()
                link += nodes.emphasis("", title)


def _target(app: Any, docname: str, uri: str) -> str | None:
    path = Path(f"/{docname}").parent / uri.removesuffix(".html") if uri else Path(f"/{docname}")
    parts: list[str] = []
    for part in path.parts[1:]:
        parts = parts[:-1] if part == ".." else [*parts, part]
    found = "/".join(parts)
    return found if found in app.env.titles else None


def _heading(app: Any, docname: str, anchor: str) -> str | None:
    if not anchor:
        title: str = app.env.titles[docname].astext()
        return title
    doctree = app.env.get_doctree(docname)
    for section in doctree.findall(nodes.section):
        if anchor in section["ids"] or anchor in section.get("names", ()) or anchor == section.get("slug"):
            return section.next_node(nodes.title).astext()
    return None


def setup(app: Any) -> dict[str, bool]:
    """Registers the directive and the titles of links."""
    app.add_directive("pages", Pages)
    app.add_config_value("linked_pages", [], "env")
    app.connect("doctree-read", _leave_out, priority=900)
    app.connect("doctree-resolved", _entitle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
