"""XLA reads the protos that xlapy writes as its own, and xlapy reads the protos that XLA writes."""

from __future__ import annotations

import pytest

from tests import xla_reference
from tests.proto.modules import GROUPS, modules_of, whole
from xlapy.hlo.module import Module
from xlapy.testing.samples.sample import NEWER_THAN_JAXLIB, all_samples

NEWER = {sample.name for sample in all_samples() if sample.note == NEWER_THAN_JAXLIB}


@pytest.mark.parametrize("group", [group for group in GROUPS if group != "random modules"])
def test_both_ways(group: str):
    compared = 0
    for name, text, module in modules_of(group):
        try:
            theirs = xla_reference.to_proto(text)
        except xla_reference.XlaCpuError:
            assert name in NEWER, name
            continue
        printed = xla_reference.print_proto(theirs, print_large_constants=True)
        assert xla_reference.print_proto(module.to_proto(), print_large_constants=True) == printed, name
        read = Module.from_proto(theirs)
        assert whole(read).strip() == printed.strip(), name
        assert xla_reference.print_proto(read.to_proto(), print_large_constants=True) == printed, name
        compared += 1
    assert compared > 0


def test_a_program_of_jax():
    jax = pytest.importorskip("jax")
    lowered = jax.jit(lambda x: jax.numpy.tanh(x).sum()).lower(jax.ShapeDtypeStruct((3, 4), "float32"))
    data = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    assert whole(Module.from_proto(data)).strip() == xla_reference.print_proto(data, print_large_constants=True).strip()
