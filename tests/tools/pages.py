"""Reads the pages that the tools write."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """Every element of a page, and the text of those that have an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.title = ""
        self.data: dict[str, str] = {}
        self._inside: str | None = None
        self.feed(text)
        self.close()

    def json(self, id: str) -> Any:
        return json.loads(self.data[id])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = "title" if tag == "title" else dict(attrs).get("id")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title += data
        elif self._inside is not None:
            self.data[self._inside] = self.data.get(self._inside, "") + data
