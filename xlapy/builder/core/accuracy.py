"""The requested accuracy of an approximated function: `ResultAccuracy`.

Responsible for the request and its text. Does not depend on which functions accept one. Source: ResultAccuracy of
xla_data.proto.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.errors import InvalidArgumentError


@checked_class
@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """The accuracy that a back end must reach: `highest`, or within a tolerance. The default leaves the choice to the
    back end.

    `atol` and `rtol` bound the absolute and relative error, `ulps` the error in units in the last place. 0 means no
    bound.

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[3]"), "x")
    >>> ops.exp(x, xla.ResultAccuracy(ulps=2)).instruction.result_accuracy
    'tolerance={atol=0,rtol=0,ulps=2}'
    """

    highest: bool = False
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def to_text(self) -> str:
        """The text inside `result_accuracy={...}` in HLO text; empty for the default. Raises InvalidArgumentError for
        invalid tolerances.
        """
        tolerances = (self.atol, self.rtol, self.ulps)
        if min(tolerances) < 0 or (self.highest and any(tolerances)):
            raise InvalidArgumentError(
                codes.ACCURACY, f"result_accuracy is either highest or tolerances >= 0, given {self}"
            )
        if self.highest:
            return "mode=highest"
        text = f"tolerance={{atol={self.atol:g},rtol={self.rtol:g},ulps={self.ulps}}}"
        return text if any(tolerances) else ""
