"""The configuration of the site (`make site`): Sphinx, MyST for Markdown, and the theme Furo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent / "extensions"), str(Path(__file__).parents[1])]

from pygments.lexers.special import TextLexer  # noqa: E402

from xlapy.base.version import VERSION  # noqa: E402

project = "xlapy"
author = "the xlapy authors"
copyright = author
version = release = VERSION

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "file_blocks",
    "markdown_docstrings",
    "page_lists",
]
exclude_patterns = ["_generate", "extensions"]
linked_pages = ["reference/ops/*", "reference/errors/*"]  # by their indexes, which are in the navigation
autodoc_inherit_docstrings = False
smartquotes = False  # quotes in prose are often quotes of text

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # a heading's anchor is the one that GitHub gives it

autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "undoc-members": True, "special-members": "__call__"}
maximum_signature_line_length = 100
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = False  # every page has the navigation, which would have all methods: half of the build's time

html_theme = "furo"
html_title = f"xlapy {VERSION}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {"navigation_with_keys": True}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app: Any) -> None:
    """Shows HLO and MLIR, for which Pygments has no lexers, as plain text."""
    for language in ("hlo", "mlir"):
        app.add_lexer(language, TextLexer)
