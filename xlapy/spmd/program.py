"""A program with shardings as what each device runs of it, collectives among it.

Owns: `partition`, the signatures of modules and computations. Must not know: where shardings come from, how single
instructions are cut up (`body.py`).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Alias, Module, ModuleConfig
from xlapy.hlo.sharding import Sharding
from xlapy.hlo.traverse import post_order
from xlapy.passes.control_flow.inline_calls import InlineCalls
from xlapy.passes.expand.expand import Expand
from xlapy.passes.remove_dead_code import RemoveDeadCode
from xlapy.passes.rewrite import Writer, remove_uncalled
from xlapy.spmd.body import Body, Lies, wished
from xlapy.spmd.combining import combine_all_reduces
from xlapy.spmd.regions import Axes
from xlapy.spmd.splits import sharding_of

Inspect = Callable[[Instruction, Sharding], None]
"""Is told the sharding of what a custom call InspectSharding is given."""


@dataclass(frozen=True)
class Partitioned:
    """How the arrays that come in and go out are split, one a leaf."""

    parameters: tuple[Sharding, ...]
    results: tuple[Sharding, ...]


def partition(
    module: Module, devices: int, each: frozenset[str] = frozenset(), inspect: Inspect | None = None
) -> Partitioned:
    """Makes of a module for all devices what each of them runs.

    each: targets of custom calls without results that each device is to make with its parts of the operands.
    inspect: called with each custom call InspectSharding and the sharding of its operand.
    `UnsupportedError` for infeeds, outfeeds and transfers, and for what is left to be put together but by sums.
    """
    Expand(ops=("async-done",)).run(module)
    InlineCalls(composites=True).run(module)
    RemoveDeadCode().run(module)
    before, old = list(module.computations), module.entry_computation
    program = Program(module, devices, each, inspect)
    given = [wished(parameter, devices) for parameter in old.parameters]
    wanted = wished(old.root_instruction, devices)
    module.entry = program.computation(old, given, wanted)
    remove_uncalled([computation for computation in before if not computation.callers])
    module.config = _config(module.config, module.entry)
    RemoveDeadCode().run(module)
    for computation in module.computations:
        combine_all_reduces(computation)
    told = [sharding_of(lie, devices) for lies in given for lie in lies]
    return Partitioned(tuple(told), tuple([sharding_of(lie, devices) for lie in wanted]))


def _config(config: ModuleConfig, entry: Computation) -> ModuleConfig:
    """Without layouts of whole arrays, pairs of buffers that are not of one size any more, and donors that no result
    is as large as."""
    kept = [alias for alias in config.input_output_alias if _is_of_one_size(alias, entry)]
    sizes = {leaf.byte_size for _, leaf in entry.root_instruction.shape.leaves()}
    shapes = [parameter.shape for parameter in entry.parameters]
    donors = [
        d for d in config.buffer_donors if shapes[d.parameter_number].subshape(d.parameter_index).byte_size in sizes
    ]
    return dataclasses.replace(
        config, entry_computation_layout=None, input_output_alias=tuple(kept), buffer_donors=tuple(donors)
    )


def _is_of_one_size(alias: Alias, entry: Computation) -> bool:
    given = entry.parameters[alias.parameter_number].shape.subshape(alias.parameter_index)
    return given.compatible(entry.root_instruction.shape.subshape(alias.output_index))


class Program:
    """What the computations of a module share."""

    def __init__(self, module: Module, devices: int, each: frozenset[str], inspect: Inspect | None) -> None:
        self.module = module
        self.devices = devices
        self.each = each
        self.inspect = inspect
        self.channels = itertools.count(1)
        for instruction in module.instructions():  # those of one number would meet in turn, on the host
            if (
                instruction.op.family == "collectives"
                and getattr(instruction.attributes, "channel_id", None) is not None
            ):
                instruction.attributes = instruction.attributes.replace(channel_id=next(self.channels))

    def computation(self, old: Computation, given: Sequence[Lies], wanted: Lies, apart: Axes = ()) -> Computation:
        """A computation on the parts of its arguments, the results of which lie as is wanted. apart: in the region by
        hand at such a place of the devices."""
        new = edit.add_computation(self.module, old.name)
        body = Body(self, Writer(old.root_instruction, new), old, apart)
        for parameter, lies in zip(old.parameters, given, strict=True):
            body.bind(parameter, lies)
        for instruction in post_order(old):
            if instruction.op is not opcodes.PARAMETER:
                body.add(instruction)
        root = old.root_instruction
        body.write.source = root
        edit.set_root(new, body.tied(root.shape, body.placed(body.values[root], wanted)))
        return new
