"""Small valid HLO modules, family by family, for the tests that run over all samples."""

from xlapy.testing.samples.sample import FAMILIES, NEWER_THAN_JAXLIB, REFUSED_AT_RUN, Sample, all_samples, samples_of

__all__ = ["FAMILIES", "NEWER_THAN_JAXLIB", "REFUSED_AT_RUN", "Sample", "all_samples", "samples_of"]
