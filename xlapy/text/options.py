"""Options for printing HLO text, under the names of XLA's `HloPrintOptions`.

Responsible for `PrintOptions` and its presets. Does not depend on modules.
Source: HloPrintOptions of XLA.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from xlapy.base.arguments.checking import checked_class


class SubcomputationMode(Enum):
    """How a called computation is printed at its caller."""

    OFF = "off"
    NAME_ONLY = "name only"
    FULL_BODIES = "full bodies"
    NON_SEQUENTIAL_BODIES = "non-sequential bodies"
    """Full bodies, but nothing for the computations of call, conditional and while."""


@checked_class
@dataclass(frozen=True, slots=True)
class PrintOptions:
    """Selects what is printed and how. The defaults are XLA's long form.

    Presets: `long()`; `short()`, XLA's `ShortParsable`; `canonical()`, which prints no names
    and so gives equal text for modules that differ only in names. The text reads back to the same module unless the
    options leave out large constants, operand names or attributes.

    >>> module = xla.parse_hlo("HloModule m  ENTRY e { x = f32[3] parameter(0)  ROOT y = f32[3] negate(x) }")
    >>> text = module.to_text(print_percent=False, include_layout_in_shapes=False)
    >>> text.splitlines()[4]
    '  ROOT y = f32[3] negate(x)'
    """

    print_large_constants: bool = False
    """Print constants of more than 10 elements in full, not as `{...}`."""
    print_only_essential_constants: bool = False
    """Print only constants that are all 0, all 1 or integers; the others as `{...}`."""
    print_original_value: bool = True
    print_metadata: bool = True
    print_metadata_only_op_name: bool = False
    print_backend_config: bool = True
    sort_backend_config: bool = False
    """Sort the keys of backend configurations that are JSON."""
    print_infeed_outfeed_config: bool = True
    compact_operands: bool = False
    """Print at most four operands, then `...(+n)`."""
    include_layout_in_shapes: bool = True
    print_result_shape: bool = True
    print_operand_shape: bool = False
    print_operand_names: bool = True
    print_operand_index_annotation_interval: int = 5
    """Print `/*index=5*/` before every n-th operand; 0: before none."""
    print_program_shape: bool = True
    """Print the signature of a computation after its name."""
    print_percent: bool = True
    print_control_dependencies: bool = True
    canonicalize_instruction_names: bool = False
    """Print `tmp_0`, `tmp_1` ... in place of names."""
    print_ids: bool = True
    """Print the names of modules and computations, and the numeric suffixes of instruction names."""
    print_extra_attributes: bool = True
    """Print the attributes of ops."""
    syntax_sugar_async_ops: bool = True
    """Print `add-start(...)` in place of an `async-start` that calls a computation of one instruction."""
    print_frontend_attributes: bool = True
    print_name_after_closing_brace: bool = False
    print_parameter_number: bool = True
    print_channel_id: bool = True
    print_inline_stack_frames: bool = False
    """Print the source file and line in place of the number of a stack frame."""
    compact_gte: bool = False
    """Print `%t#1` in place of a get-tuple-element."""
    print_subcomputation_mode: SubcomputationMode = SubcomputationMode.NAME_ONLY
    is_in_nested_computation: bool = False
    indent_amount: int = 0

    @classmethod
    def long(cls) -> Self:
        """XLA's default."""
        return cls()

    @classmethod
    def short(cls) -> Self:
        """XLA's `ShortParsable`: no metadata, no `%`, no signatures; constants in full."""
        return cls(
            print_large_constants=True,
            print_metadata=False,
            print_operand_index_annotation_interval=0,
            print_program_shape=False,
            print_percent=False,
            print_control_dependencies=False,
        )

    @classmethod
    def canonical(cls) -> Self:
        """XLA's `Canonical`: no names, called computations in full at their callers."""
        return cls(
            print_metadata=False,
            print_backend_config=False,
            print_operand_names=False,
            print_operand_shape=True,
            print_operand_index_annotation_interval=0,
            print_program_shape=False,
            print_percent=False,
            print_control_dependencies=False,
            canonicalize_instruction_names=True,
            print_subcomputation_mode=SubcomputationMode.FULL_BODIES,
        )

    def replace(self, **changes: Any) -> PrintOptions:
        """A copy of these options with the given fields changed."""
        return dataclasses.replace(self, **changes)
