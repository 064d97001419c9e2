"""Worked examples of every operation with their values, and invalid modules that violate one constraint each."""

from xlapy.testing.examples.example import Example, Refusal, all_examples, all_refusals, examples_of, refusals_of

__all__ = ["Example", "Refusal", "all_examples", "all_refusals", "examples_of", "refusals_of"]
