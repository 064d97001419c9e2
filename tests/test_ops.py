"""`xlapy` and `xlapy.ops` have the documented names, and load their modules when a name is first used."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import xlapy
from xlapy import opcodes, ops
from xlapy.opcodes.registry import REGISTRY, OpDef

HELPERS = {"append_typed", "element_type_of"}
"""Functions that other families use but `xlapy.ops` does not offer to users."""


def test_every_definition_is_a_constant_of_opcodes() -> None:
    for op in REGISTRY.values():
        assert getattr(opcodes, op.constant_name) is op
        assert op.constant_name in opcodes.__all__


def test_every_builder_function_is_in_ops() -> None:
    for name in ops.__all__:
        assert getattr(ops, name) is getattr(ops, name)
        assert name in dir(ops)


def test_ops_has_every_public_function_of_the_families() -> None:
    families = {op.family for op in REGISTRY.values()}
    for module in {inspect.getmodule(getattr(ops, name)) for name in ops.__all__}:
        assert module is not None
        family = module.__name__.rpartition(".")[2]
        assert family in families
        own = {n for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__}
        assert {n for n in own if not n.startswith("_")} <= {*ops.__all__, *HELPERS}


@pytest.mark.parametrize("name", ops.__all__)
def test_every_function_has_a_docstring(name: str) -> None:
    function = getattr(ops, name)
    assert function.__doc__
    assert function.__annotations__["return"] in ("XlaOp", "tuple[XlaOp, ...]", "tuple[XlaOp, XlaOp]")


@pytest.mark.parametrize("name", ["no_such_function", "NO_SUCH_OP", "ADD", "_private", "annotations_"])
def test_unknown_operation(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'xlapy.ops' has no attribute '{name}'"):
        getattr(ops, name)


def test_definitions_and_functions_are_in_different_modules() -> None:
    assert isinstance(opcodes.ADD, OpDef)
    assert inspect.isfunction(ops.add)


@pytest.mark.parametrize("name", xlapy.__all__)
def test_public_name(name: str) -> None:
    assert getattr(xlapy, name) is not None
    assert name in dir(xlapy)


def test_unknown_public_name() -> None:
    with pytest.raises(AttributeError, match=r"module 'xlapy' has no attribute 'XlaBulider'"):
        xlapy.XlaBulider  # noqa: B018


def _modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*[m for m in sys.modules if m.startswith('xlapy')])"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_import_loads_nothing_else() -> None:
    assert _modules_after("import xlapy") == {"xlapy", "xlapy.hlo", "xlapy.hlo.conversions"}


def test_definitions_load_no_builder() -> None:
    loaded = _modules_after("from xlapy import opcodes; opcodes.ADD")
    assert "xlapy.opcodes.elementwise" in loaded
    layers_above = ("xlapy.builder", "xlapy.hlo.instruction", "xlapy.hlo.module", "xlapy.interpreter")
    assert not [m for m in loaded if m.startswith(layers_above)]
