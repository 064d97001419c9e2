"""The shardings of partitioned programs as JSON, for serialized executables.

Responsible for that form. Does not depend on how programs are partitioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlapy.base.errors import XlaError
from xlapy.base.shape import Shape
from xlapy.hlo.sharding import Sharding
from xlapy.runtime.storage.lazy_module import describe_shape, shape_from
from xlapy.spmd.entry.shardings import EntryShardings


def describe_shardings(shardings: EntryShardings) -> dict[str, Any]:
    """Describes the shardings of an entry computation as JSON, for `shardings_from`."""
    return {
        **describe_shape(shardings.program_shape),
        "parameter_shardings": [sharding.to_text() for sharding in shardings.parameters],
        "result_shardings": [sharding.to_text() for sharding in shardings.results],
    }


def shardings_from(description: Mapping[str, Any], num_partitions: int) -> EntryShardings:
    """The inverse of `describe_shardings`. `ValueError`, `KeyError` or `TypeError` for malformed descriptions."""
    program = shape_from(description)
    shapes = [leaf for shape in program.parameters for _, leaf in shape.leaves()]
    parameters = _read(description["parameter_shardings"], shapes)
    results = _read(description["result_shardings"], [leaf for _, leaf in program.result.leaves()])
    return EntryShardings(parameters, results, program, num_partitions)


def _read(texts: Sequence[str], shapes: Sequence[Shape]) -> tuple[Sharding, ...]:
    try:
        shardings = tuple([Sharding.parse(text) for text in texts])
        for sharding, shape in zip(shardings, shapes, strict=True):
            sharding.check(shape)
    except XlaError as error:
        raise ValueError(error.message) from error
    return shardings
