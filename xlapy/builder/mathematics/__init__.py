"""Special functions built from HLO operations: functions of XlaOps, element by element, like those of `xlapy.ops`."""

from xlapy.builder.mathematics.bessel import bessel_i1e
from xlapy.builder.mathematics.error_functions import erf_inv, erfc
from xlapy.builder.mathematics.gamma import digamma, lgamma, polygamma, zeta
from xlapy.builder.mathematics.representation import conjugate, is_inf, is_neg_inf, is_pos_inf, next_after, square

__all__ = [
    "bessel_i1e",
    "conjugate",
    "digamma",
    "erf_inv",
    "erfc",
    "is_inf",
    "is_neg_inf",
    "is_pos_inf",
    "lgamma",
    "next_after",
    "polygamma",
    "square",
    "zeta",
]
