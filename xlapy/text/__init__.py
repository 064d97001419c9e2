"""HLO text: `parse_hlo` reads it, `print_module` prints it as XLA does, `PrintOptions` selects what is printed."""

from xlapy.text.options import PrintOptions, SubcomputationMode
from xlapy.text.parser import parse_hlo
from xlapy.text.printer import print_computation, print_instruction, print_module

__all__ = [
    "PrintOptions",
    "SubcomputationMode",
    "parse_hlo",
    "print_computation",
    "print_instruction",
    "print_module",
]
