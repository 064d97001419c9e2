"""The interpreter: evaluates every operation on NumPy arrays, like XLA's HloEvaluator.

Importing the package registers the rules of all op families.
"""

from xlapy.base.value import DynamicArray
from xlapy.interpreter import (
    batching,
    collectives,
    contraction,
    control,
    convolution,
    custom,
    dynamic,
    elementwise,
    indexing,
    linalg,
    movement,
    normalization,
    random,
    reduction,
    sorting,
    sources,
    transfer,
    tuples,
)
from xlapy.interpreter.core import (
    RULES,
    TOKEN,
    Context,
    EvaluationPlan,
    ReplaceValue,
    evaluate_computation,
    make_plan,
    rule_of,
)

__all__ = [
    "batching",
    "Context",
    "DynamicArray",
    "EvaluationPlan",
    "RULES",
    "ReplaceValue",
    "TOKEN",
    "collectives",
    "contraction",
    "control",
    "convolution",
    "custom",
    "dynamic",
    "elementwise",
    "evaluate_computation",
    "indexing",
    "linalg",
    "make_plan",
    "movement",
    "normalization",
    "random",
    "reduction",
    "rule_of",
    "sorting",
    "sources",
    "transfer",
    "tuples",
]
