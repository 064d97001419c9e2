"""How exact an approximated function must be: `ResultAccuracy`.

Owns: the request and its text. Must not know: which functions take one. Source: ResultAccuracy of xla_data.proto.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.base.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """How exact a back end must compute a function: `highest`, or within a tolerance; else as it does by default.

    `atol` and `rtol` bound the absolute and relative error, `ulps` that in units in the last place; 0 does not bound.
    """

    highest: bool = False
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def to_text(self) -> str:
        """The inside of `result_accuracy={...}` in HLO text; empty for the default. Raises InvalidArgumentError."""
        tolerances = (self.atol, self.rtol, self.ulps)
        if min(tolerances) < 0 or (self.highest and any(tolerances)):
            raise InvalidArgumentError(f"result_accuracy is either highest or tolerances >= 0, given {self}")
        if self.highest:
            return "mode=highest"
        text = f"tolerance={{atol={self.atol:g},rtol={self.rtol:g},ulps={self.ulps}}}"
        return text if any(tolerances) else ""
