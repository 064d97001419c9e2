"""Reads the HTML pages that the tools write, either as written or as a browser renders them."""

from __future__ import annotations

import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest


def rendered(path: Path, address: str = "") -> Page:
    """Returns the page after its scripts have run in headless Chromium; skips the test if there is no Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium")
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={path.parent / 'browser'}",
    ]
    command += ["--virtual-time-budget=2000", "--dump-dom", f"{path.as_uri()}{address}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return Page(done.stdout)


class Page(HTMLParser):
    """The elements of a page, and the text of those that have an id."""

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
