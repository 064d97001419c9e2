"""HloSnapshot: a program with the arguments and the result of one run.

Responsible for `Snapshot`. Does not depend on how programs run.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.base.errors import ProtoError, XlaError
from xlapy.base.literal import Literal
from xlapy.hlo.module import Module
from xlapy.proto.messages import decode, encode, message_class
from xlapy.proto.read import module_of
from xlapy.proto.values import read_literal, write_literal
from xlapy.proto.write import module_message


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A module, one literal per parameter, the result if the program was run, and the platform (`"cpu"`)."""

    module: Module
    arguments: tuple[Literal, ...] = ()
    result: Literal | None = None
    platform: str = ""

    def to_proto(self) -> bytes:
        """Returns the serialized HloSnapshot."""
        target = message_class("HloSnapshot")()
        target.hlo.hlo_module.CopyFrom(module_message(self.module))
        for argument in self.arguments:
            write_literal(target.arguments.add(), argument)
        if self.result is not None:
            write_literal(target.result, self.result)
        target.execution_platform = self.platform
        return encode(target)

    @staticmethod
    def from_proto(data: bytes, verify: bool = True) -> Snapshot:
        """Reads a serialized HloSnapshot; raises the errors of `xlapy.proto.from_proto`."""
        source = decode("HloSnapshot", data)
        module = module_of(source.hlo.hlo_module, verify)
        try:
            arguments = tuple(read_literal(argument) for argument in source.arguments)
            result = read_literal(source.result) if source.HasField("result") else None
        except XlaError as error:
            raise ProtoError(error.code, f"snapshot of {module.name}: {error.message}") from error
        return Snapshot(module, arguments, result, source.execution_platform)
