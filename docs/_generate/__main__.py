"""Writes the generated pages of docs/reference: `python -m docs._generate`."""

from __future__ import annotations

from docs._generate.pages import ROOT, pages


def main() -> None:
    for path, text in pages().items():
        file = ROOT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main()
