"""`xlapy run --compare single` of a partitioned program: compares it with the program on one device for each replica.

Partitions add in another order than one device does, so that results may differ by rounding errors. If bits differ, the
tolerance is that of `xlapy.testing.program_tolerance`: how far rounding errors of each instruction change the result.

Responsible for the comparison and its report. Does not depend on how programs are partitioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

from xlapy import opcodes
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import UnsupportedError
from xlapy.debugging.fuzzing.implementations import find_implementation, plain
from xlapy.hlo.instruction import describe_instruction
from xlapy.hlo.module import Module
from xlapy.runtime import Client, Executable
from xlapy.runtime.engine.arguments import check_arguments, leaves
from xlapy.spmd.manual_regions import FULL_TO_SHARD, SHARD_TO_FULL
from xlapy.testing.comparison import assert_within
from xlapy.testing.program_tolerance import sharded_tolerances
from xlapy.tools.run.interface import ProgramInterface

Array = np.ndarray[Any, Any]


def compare_with_unpartitioned(
    source: Module,
    executable: Executable,
    arguments: Mapping[int, Sequence[Any]],
    results: Mapping[int, Sequence[Array]],
) -> int:
    """Compares global results with those of the unpartitioned program, and prints how they differ. Returns the exit
    code: 1 if they differ by more than rounding errors.

    source: the program before it was partitioned. arguments, results: of each replica.
    """
    _check_comparable(source)
    interface, replicas = ProgramInterface(executable), executable.num_replicas
    given = [check_arguments(interface.program_shape, arguments[replica]) for replica in range(replicas)]
    whole = Client(executable.platform, devices=replicas, single_process=True).compile(source, replicas, 1)
    expected = whole.execute_sharded(given)
    other = "those of the unpartitioned program on one device" + (" for each replica" if replicas > 1 else "")
    if all(_same_bits(results[replica], leaves(plain(expected[replica]))) for replica in range(replicas)):
        click.echo(f"the results have the same bits as {other}")
        return 0
    differences = _differences(source, executable, given, results)
    for replica, difference in differences.items():
        click.echo(f"{interface.label(replica)}{difference}")
    click.echo(
        f"the results differ from {other} by more than rounding errors"
        if differences
        else f"the results agree with {other}: they differ by rounding errors only"
    )
    return 1 if differences else 0


def _check_comparable(source: Module) -> None:
    for instruction in source.instructions():
        is_call = instruction.op is opcodes.CUSTOM_CALL
        if is_call and instruction.custom_call_target in (FULL_TO_SHARD, SHARD_TO_FULL):
            raise UnsupportedError(
                codes.SINGLE_DEVICE,
                f"{describe_instruction(instruction)} is the boundary of a manual region, which says what each of "
                f"several devices does: {source.name} does not run on one device",
            )


def _same_bits(found: Sequence[Array], expected: Sequence[Array]) -> bool:
    pairs = zip(found, expected, strict=True)
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def _differences(
    source: Module, executable: Executable, given: Sequence[Sequence[Any]], results: Mapping[int, Sequence[Array]]
) -> dict[int, str]:
    """Describes by how much the results of each replica that differs are out of tolerance."""
    implementation = find_implementation(executable.platform)
    tolerances = sharded_tolerances(
        source,
        given,
        executable.num_replicas,
        flush_denormals=implementation.flushes_denormals,
        excess_precision=implementation.excess_precision,
    )
    found: dict[int, str] = {}
    for replica, tolerance in enumerate(tolerances):
        rows = zip(results[replica], leaves(tolerance.expected), leaves(tolerance.deviations), strict=True)
        for number, (actual, expected, deviations) in enumerate(rows):
            try:
                assert_within(
                    actual, expected, deviations, flush_denormals=tolerance.flush_denormals, where=f"result {number}"
                )
            except AssertionError as error:
                found.setdefault(replica, str(error))
    return found
