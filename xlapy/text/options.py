"""How HLO text is printed: XLA's print options under XLA's names.

Owns: `PrintOptions` and its presets. Must not know: modules.
Source: HloPrintOptions of XLA.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self


class SubcomputationMode(Enum):
    """How a called computation is shown at its caller."""

    OFF = "off"
    NAME_ONLY = "name only"
    FULL_BODIES = "full bodies"
    NON_SEQUENTIAL_BODIES = "non-sequential bodies"
    """Full bodies, except of call, conditional and while, which show nothing."""


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """What to print and how; the defaults are XLA's long form.

    Presets: `long()`, `short()` (what `Module.to_text` of XLA gives), `canonical()` (no names: equal for modules that
    differ in names only). The text reads back to the same module unless something is left out: large constants,
    operands' names, attributes.
    """

    print_large_constants: bool = False
    """Constants of more than 10 elements in full, not as `{...}`."""
    print_only_essential_constants: bool = False
    """Only constants that are all 0, all 1 or integers."""
    print_original_value: bool = True
    print_metadata: bool = True
    print_metadata_only_op_name: bool = False
    print_backend_config: bool = True
    sort_backend_config: bool = False
    """Backend configurations that are JSON with sorted keys."""
    print_infeed_outfeed_config: bool = True
    compact_operands: bool = False
    """At most four operands, then `...(+n)`."""
    include_layout_in_shapes: bool = True
    print_result_shape: bool = True
    print_operand_shape: bool = False
    print_operand_names: bool = True
    print_operand_index_annotation_interval: int = 5
    """`/*index=5*/` before every n-th operand; 0 for none."""
    print_program_shape: bool = True
    """The signature behind a computation's name."""
    print_percent: bool = True
    print_control_dependencies: bool = True
    canonicalize_instruction_names: bool = False
    """`tmp_0`, `tmp_1` ... in place of names."""
    print_ids: bool = True
    """Module and computation names, and the numeric suffixes of instruction names."""
    print_extra_attributes: bool = True
    """The attributes of ops."""
    syntax_sugar_async_ops: bool = True
    """`add-start(...)` in place of an `async-start` that calls a computation of one instruction."""
    print_frontend_attributes: bool = True
    print_name_after_closing_brace: bool = False
    print_parameter_number: bool = True
    print_channel_id: bool = True
    print_inline_stack_frames: bool = False
    """Source file and line in place of the number of a stack frame."""
    compact_gte: bool = False
    """`%t#1` in place of a get-tuple-element."""
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
        """These options with some changed."""
        return dataclasses.replace(self, **changes)
