"""The examples in docstrings of the public classes and functions run, and print what they show."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy import ops, passes, runtime
from xlapy.base import errors

ROOT = Path(__file__).resolve().parents[2]
GLOBALS = {"np": np, "xla": xla, "ops": ops}
"""The names that the examples use, as the page of the Python interface says."""

WITHOUT = {"AxisRef", "Mesh", "PassEvent", "PassStatistics", "Pass", "XlaError"}
"""Classes of the pages below that are made by other objects or have no behavior of their own."""
PAGES = ("building", "running", "programs", "shapes-and-values", "passes")
"""Pages of the Python interface all of whose classes and functions have an example."""


def public_objects() -> Iterator[tuple[str, Any]]:
    """Returns the public classes and functions, and the methods of the classes, with their names."""
    homes = {"xlapy": (xla, xla.__all__), "ops": (ops, ops.__all__), "passes": (passes, passes.__all__)}
    homes |= {"runtime": (runtime, runtime.__all__), "errors": (errors, dir(errors))}
    for prefix, (home, names) in homes.items():
        for name in names:
            found = getattr(home, name)
            if not callable(found):
                continue
            yield f"{prefix}.{name}", found
            if inspect.isclass(found):
                for attribute, value in vars(found).items():
                    if attribute == "__call__" or not attribute.startswith("_"):
                        yield f"{prefix}.{name}.{attribute}", inspect.unwrap(getattr(value, "__func__", value))


def examples() -> dict[str, doctest.DocTest]:
    parser = doctest.DocTestParser()
    found: dict[str, doctest.DocTest] = {}
    for name, each in public_objects():
        test = parser.get_doctest(inspect.cleandoc(each.__doc__ or ""), dict(GLOBALS), name, None, None)
        if test.examples and test.docstring not in {other.docstring for other in found.values()}:
            found[name] = test
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_a_docstring_run(name: str) -> None:
    lines: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(EXAMPLES[name], out=lines.append)
    assert result.attempted and not result.failed, "".join(lines)


@pytest.mark.parametrize("page", PAGES)
def test_every_class_and_function_of_a_page_has_an_example(page: str) -> None:
    text = (ROOT / "docs" / "reference" / "api" / f"{page}.md").read_text()
    named = re.findall(r"^\.\. auto(?:class|function):: xlapy\.(\S+)$", text, re.MULTILINE)
    with_example = {name.removeprefix("xlapy.") for name in EXAMPLES}
    assert named and {name for name in named if name.split(".")[-1] not in WITHOUT} - with_example == set()
