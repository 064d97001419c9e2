"""Monoids: which reducers are recognized, and their identities."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xlapy as xla
from xlapy import opcodes
from xlapy.base.element_types import BF16, C64, F32, PRED, S8, U4, U32, PrimitiveType
from xlapy.hlo.computation import Computation
from xlapy.hlo.monoids import MONOID_OPS, identity_of, identity_value, monoid
from xlapy.opcodes.registry import OpDef


def reducer(root: str, element_type: str = "f32") -> Computation:
    text = f"""HloModule m
      ENTRY e {{ a = {element_type}[] parameter(0)
        b = {element_type}[] parameter(1)
        ROOT r = {element_type}[] {root} }}"""
    return xla.parse_hlo(text).entry_computation


@pytest.mark.parametrize("root", ["maximum(a, b)", "maximum(b, a)"])
def test_a_monoid_op_of_both_parameters_is_a_monoid(root: str) -> None:
    assert monoid(reducer(root)) is opcodes.MAXIMUM


@pytest.mark.parametrize("root", ["subtract(a, b)", "add(a, a)", "negate(a)"])
def test_anything_else_is_not_a_monoid(root: str) -> None:
    assert monoid(reducer(root)) is None


def test_commutative_operations_that_are_not_associative_are_not_monoids() -> None:
    assert monoid(reducer("mulhi(a, b)", "u32")) is None


@pytest.mark.parametrize(
    ("op", "element_type", "identity"),
    [
        (opcodes.ADD, F32, -0.0),
        (opcodes.ADD, C64, 0),
        (opcodes.AND, PRED, 1),
        (opcodes.AND, S8, -1),
        (opcodes.AND, U4, 15),
        (opcodes.MAXIMUM, BF16, -math.inf),
        (opcodes.MAXIMUM, PRED, 0),
        (opcodes.MAXIMUM, S8, -128),
        (opcodes.MINIMUM, S8, 127),
        (opcodes.MINIMUM, U32, 2**32 - 1),
        (opcodes.MULTIPLY, F32, 1),
        (opcodes.OR, U32, 0),
        (opcodes.XOR, PRED, 0),
    ],
)
def test_identities(op: OpDef, element_type: PrimitiveType, identity: float) -> None:
    found = identity_value(op, element_type)
    assert found == identity
    assert math.copysign(1, found) == math.copysign(1, identity)


@pytest.mark.parametrize("op", sorted(MONOID_OPS, key=lambda op: op.name))
def test_an_identity_changes_no_value(op: OpDef) -> None:
    computation = reducer(f"{op.name}(a, b)", "s32")
    identity = np.int32(identity_of(computation))
    for value in (-(2**31), -1, 0, 7, 2**31 - 1):
        result = xla.Client("interpreter").compile(computation.module)(np.int32(value), identity)
        assert int(result) == value
