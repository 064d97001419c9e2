"""The pages that show tables of the code: operations, errors, functions, flags, commands, entries of PJRT.

Responsible for which these are. The text of each page comes from the module that knows its facts.
"""

from __future__ import annotations

from docs._generate import command_line, flags, functions, stablehlo
from tests.pjrt.c_api import entries_page
from xlapy.tools.explain_error.page import pages as error_pages
from xlapy.tools.ops import builder_page, ops_page

OPERATIONS = "docs/reference/ops"
"""The folder of the pages of operations. It has no other pages."""
ERRORS = "docs/reference/errors"
"""The folder of the pages of error codes. It has no other pages."""


def tables() -> dict[str, str]:
    """Returns the text of each page, by its path in the repository."""
    return {
        **{f"{OPERATIONS}/{name}": text for name, text in ops_page.pages().items()},
        **{f"{ERRORS}/{name}": text for name, text in error_pages()},
        "docs/reference/api/functions.md": functions.page(),
        "docs/reference/builder.md": builder_page.markdown(),
        "docs/reference/command-line.md": command_line.page(),
        "docs/reference/flags.md": flags.page(),
        "docs/reference/stablehlo.md": stablehlo.page(),
        "docs/reference/pjrt-entries.md": entries_page.page(),
    }
