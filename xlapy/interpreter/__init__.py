"""The reference interpreter: the meaning of every operation, on NumPy arrays."""

from xlapy.interpreter.core import RULES, TOKEN, Context, Plan, evaluate_computation, make_plan

__all__ = ["RULES", "TOKEN", "Context", "Plan", "evaluate_computation", "make_plan"]
