"""Source and target pairs of collective-permutes that are known to be legal.

A collective-permute names every device, so that its pairs are as many as the devices. The partitioner shares one
`Permutation` among all collective-permutes that move data alike: it is checked when it is made, and hashed once.

Responsible for such pairs. Does not depend on how they are found.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.error_codes.operations import collectives as codes
from xlapy.base.errors import ShapeError


class Permutation(tuple[tuple[int, int], ...]):
    """Pairs (source, target) of ids, each of which is source at most once and target at most once.

    Equal to the tuple of the same pairs.
    """

    _hash: int

    @staticmethod
    def make(sources: Sequence[int], targets: Sequence[int]) -> Permutation:
        """Returns the pairs of equal positions. Raises `ShapeError` if an id occurs twice on one side."""
        for what, ids in (("source", sources), ("target", targets)):
            if len(set(ids)) != len(ids):
                raise ShapeError(codes.PERMUTATION_ONCE, f"{what} ids {list(ids)} of a permutation name an id twice")
        return Permutation(zip(sources, targets, strict=True))

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = super().__hash__()
            return self._hash
