"""Legal HLO modules, family by family, that feed the tests driven by samples."""

from xlapy.testing.samples.sample import FAMILIES, NEWER_THAN_JAXLIB, REFUSED_AT_RUN, Sample, all_samples, samples_of

__all__ = ["FAMILIES", "NEWER_THAN_JAXLIB", "REFUSED_AT_RUN", "Sample", "all_samples", "samples_of"]
