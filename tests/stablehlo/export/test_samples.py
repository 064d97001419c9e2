"""jaxlib accepts the StableHLO of every sample that StableHLO can express, and the imported text computes the same."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir as mlir

import xlapy
from tests.passes.runner import arguments_of, execute, is_executable, plain
from xlapy import opcodes
from xlapy.base.error_codes.formats.stablehlo_text import PRINTABLE
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.module import Module
from xlapy.opcodes.registry import REGISTRY, OpDef
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_modules import random_module
from xlapy.testing.samples import FAMILIES, NEWER_THAN_JAXLIB, REFUSED_AT_RUN, samples_of
from xlapy.text import parse_hlo

NEWER = (opcodes.COLLECTIVE_REDUCE,)
"""Opcodes whose StableHLO operations the pinned jaxlib does not have."""

JSON_FOR_FFI = "custom_call_json_config"
"""Samples with a JSON string as the config of a typed FFI call, which must be a dictionary for jaxlib's verifier."""


def written(module: Module) -> str | None:
    """Returns the StableHLO of a module, or None if StableHLO cannot express it."""
    try:
        return module.to_stablehlo()
    except UnsupportedError as error:
        assert error.code == PRINTABLE or error.code.startswith("E38"), str(error)
        return None


def flat(value: Any) -> list[Any]:
    """Returns the leaves of nested tuples, which are separate arguments and results in StableHLO."""
    return [leaf for element in value for leaf in flat(element)] if isinstance(value, tuple) else [value]


def check_values(name: str, module: Module, text: str) -> None:
    arguments = arguments_of(module, 0)
    expected = flat(plain(execute(module, arguments)))
    again = xlapy.parse_stablehlo(text)
    actual = plain(execute(again, [leaf for argument in arguments for leaf in flat(argument)]))
    assert_close(tuple(flat(actual)), tuple(expected), rule="bits", where=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_samples(family: str) -> None:
    samples = samples_of(family)
    chosen = samples if len(samples) < 60 else samples[:: len(samples) // 40]
    with jax_mlir.make_ir_context():
        for sample in chosen:
            module = parse_hlo(sample.text)
            text = written(module)
            if text is None:
                continue
            newer = sample.note == NEWER_THAN_JAXLIB or any(i.op in NEWER for i in module.instructions())
            if not newer and sample.name != JSON_FOR_FFI:
                mlir.Module.parse(text)
            if sample.note != REFUSED_AT_RUN and is_executable(module):
                check_values(sample.name, module, text)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_all_samples(family: str) -> None:
    for sample in samples_of(family):
        module = parse_hlo(sample.text)
        text = written(module)
        if text is not None and sample.note != REFUSED_AT_RUN and is_executable(module):
            check_values(sample.name, module, text)


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_random_modules(seed: int) -> None:
    module = random_module(seed)
    text = written(module)
    if text is not None:
        check_values(f"random_{seed}", module, text)


@pytest.mark.parametrize("op", sorted(REGISTRY.values(), key=lambda op: op.name), ids=lambda op: op.name)
def test_every_opcode_has_a_rule_or_a_reason(op: OpDef) -> None:
    import_module("xlapy.stablehlo.export")
    assert (op in RULES) != (len(RULES.refusals.get(op, "")) > 10)
    if op in RULES and op not in (opcodes.COPY_START, opcodes.COPY_DONE):
        assert Path(inspect.getfile(RULES.find(op))).stem == op.family
