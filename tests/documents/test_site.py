"""The site of the documentation: it builds, every page is in its navigation, and every public name is documented."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import xlapy
from docs.extensions.file_blocks import BLOCK, place_of, with_captions
from docs.extensions.markdown_docstrings import restructured
from docs.extensions.page_lists import lists_of, title_and_sentence
from tests.documents.test_links import links
from xlapy import distributed, ops, passes, runtime

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
API = "\n".join(path.read_text() for path in (DOCS / "reference" / "api").glob("*.md"))
DOCUMENTED = set(re.findall(r"^\.\. auto\w+:: (\S+)$", API, re.MULTILINE))


# -- navigation


def listed(page: Path) -> list[Path]:
    """Returns the pages that a page's directives put into the navigation."""
    text = page.read_text()
    found: list[Path] = []
    found += [page.parent / name for names in lists_of(page) for name in names]
    for names in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        given = [name for name in names.split() if not name.startswith(":")]
        found += [path for name in given for path in page.parent.glob(f"{name.removesuffix('.md')}.md")]
    return found


def test_every_page_is_in_the_navigation_or_linked_by_an_index() -> None:
    waiting, seen = [DOCS / "index.md"], {DOCS / "index.md"}
    while waiting:
        page = waiting.pop()
        for found in listed(page):
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    for folder in (DOCS / "reference" / "ops", DOCS / "reference" / "errors"):
        seen |= {folder / target.partition("#")[0] for target in links((folder / "index.md").read_text())}
    assert {*DOCS.rglob("*.md")} - seen == set()


def test_the_home_page_lists_the_four_kinds_of_pages() -> None:
    kinds = [page.parent.name for page in listed(DOCS / "index.md")]
    assert kinds == ["tutorials", "how-to", "reference", "explanation"]
    assert set(kinds) <= {path.name for path in DOCS.iterdir() if path.is_dir()}


def test_the_first_sentence_of_a_page() -> None:
    page = "# A title\n\nSee [cpu.md](../cpu.md), e.g. jax 0.10.2: it has\n`a.b` and more. The rest.\n\nAnother.\n"
    assert title_and_sentence(page) == ("A title", "See cpu.md, e.g. jax 0.10.2: it has `a.b` and more.")
    assert title_and_sentence("# A title\n\nThese are:\n\n- one\n") == ("A title", "These are")
    assert title_and_sentence("# A title\n\n## A section\n\nText.\n") == ("A title", "")
    assert title_and_sentence("# A title\n\n```sh\nxlapy\n```\n") == ("A title", "")


def test_a_list_of_pages(tmp_path: Path) -> None:
    for name in ("b.md", "a.md", "e.md", "c/index.md", "c/d.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# T\n")
    page = tmp_path / "index.md"
    page.write_text("# T\n\n```{pages}\nb.md\n```\n")
    assert lists_of(page) == [["b.md", "a.md", "c/index.md", "e.md"]]
    page.write_text("# T\n\n```{pages}\n:only:\n\ne.md\na.md\n```\n\n## Other\n\n```{pages}\n```\n")
    assert lists_of(page) == [["e.md", "a.md"], ["b.md", "c/index.md"]]
    page.write_text("# T\n\n```{pages}\nx.md\n```\n")
    with pytest.raises(ValueError, match=r"lists x\.md, which does not exist"):
        lists_of(page)


# -- blocks that belong in files


def test_a_block_that_belongs_in_a_file_says_where() -> None:
    page = (
        '```python title="a.py"\nx = 1\n```\n'
        '```python title="a.py" after="    \\"b\\","\ny = 2\n```\n'
        '```text title="b.md" before="1. `c`:"\n```z`\n```\n'
        '```text title="new.md"\n1\n```\n```text title="new.md"\n2\n```\n'
        "```sh\nxlapy\n```\n"
    )
    shown = with_captions(page, {"a.py", "b.md"}.__contains__)
    assert re.findall(r"^:caption: (.*)$", shown, re.MULTILINE) == [
        r'"`a.py`, at the end"',
        r'"`a.py`, after the line `\"b\",`"',
        r'"`b.md`, before the line `` 1. `c`: ``"',
        r'"`new.md`, a new file"',
        r'"`new.md`, at the end"',
    ]
    assert "```{code-block} python\n:class: file-block\n" in shown and "````{code-block} text" in shown
    assert shown.endswith("```sh\nxlapy\n```\n")


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("add-*.md")), ids=lambda page: page.stem)
def test_the_text_of_a_guide_names_the_file_of_each_block(page: Path) -> None:
    text = page.read_text()
    unnamed = [
        place.file
        for block in BLOCK.finditer(text)
        if (place := place_of(block)) and f"`{place.file}`" not in _paragraphs_before(text[: block.start()])
    ]
    assert unnamed == []


def _paragraphs_before(text: str) -> str:
    """Returns the text of the section above a block."""
    return re.split(r"^#+ ", text, flags=re.MULTILINE)[-1]


# -- the Python interface


def test_every_public_name_is_documented() -> None:
    objects = {f"xlapy.{name}" for name in xlapy.__all__} - {
        "xlapy.distributed", "xlapy.errors", "xlapy.opcodes", "xlapy.ops",
    }  # fmt: skip
    assert objects - DOCUMENTED == set()
    assert {f"xlapy.ops.{name}" for name in ops.__all__} - DOCUMENTED == set()
    assert {f"xlapy.distributed.{name}" for name in distributed.__all__} - DOCUMENTED == set()
    assert {f"xlapy.passes.{name}" for name in passes.__all__} - DOCUMENTED - {"xlapy.passes.CATALOG"} == set()
    mine = {f"xlapy.runtime.{name}" for name in runtime.__all__} - {
        name.replace("xlapy.", "xlapy.runtime.") for name in objects
    }
    assert mine - DOCUMENTED == set()


def test_docstrings_are_read_as_markdown() -> None:
    assert restructured("Takes `x` and `f(x)`: a*b, and_, `a | b`.") == (
        "Takes :py:obj:`x`\\  and ``f(x)``\\ : a\\*b, and\\_, ``a | b``\\ ."
    )
    assert restructured("See `Shape`.") == "See :py:obj:`.Shape`\\ ."
    assert restructured("First:\n- one\n  more\n- two") == "First:\n\n- one\n  more\n- two"
    assert restructured("An example:\n\n>>> f(`x`)\n1") == (
        "An example:\n\n.. code-block:: pycon\n\n   >>> f(`x`)\n   1"
    )
    assert restructured("Text.\n\n```python\nx = 1\n\ny = 2\n```\n\nMore.") == (
        "Text.\n\n.. code-block:: python\n\n   x = 1\n   \n   y = 2\n\nMore."
    )
    assert (
        restructured("As text:\n\n    a  b\n      c") == "As text:\n\n.. code-block:: text\n\n       a  b\n         c"
    )


# -- the build


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "-d",
        str(tmp_path / "cache"),
    ]
    done = subprocess.run(
        [*command, "docs", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "site" / "reference" / "api" / "running.html").read_text()
    assert 'id="xlapy.Client.compile"' in page
    assert "Verifies and compiles a program for" in page
    assert (tmp_path / "site" / "reference" / "ops" / "dot.html").exists()
    guide = re.sub(r"<[^>]+>", "", (tmp_path / "site" / "how-to" / "add-an-op.html").read_text())
    assert "xlapy/ops.py, after the line sinh," in guide
