"""A program is the same objects whether it is read as text or as a portable artifact, and after it was written."""

from __future__ import annotations

import re

import pytest

from tests.stablehlo.bytecode.artifacts import artifact, text_of
from tests.stablehlo.text.comparison import same
from tests.stablehlo.text.programs import FORMS
from xlapy.stablehlo.bytecode import read_bytecode, write_bytecode
from xlapy.stablehlo.text import read_text

FLAG = re.compile(r"\bx\.\w(?=[,}])")
"""A name without a value, for which artifacts have no form."""

OTHERS = re.compile(r"\b(chlo|check|interpreter|sdy|arith|tensor|shape)\.|\"x\.y\"")
"""Operations of other dialects, which artifacts do not hold."""

STABLE = sorted(name for name, text in FORMS.items() if not OTHERS.search(text))


@pytest.mark.parametrize("name", STABLE)
def test_text_and_bytecode_are_the_same_objects(name: str) -> None:
    data = artifact(FLAG.sub(r"\g<0> = true", FORMS[name]))
    read = read_bytecode(data)
    assert same(read_text(text_of(data)), read) == ""
    assert same(read_bytecode(write_bytecode(read)), read) == ""
