"""Sharding rules: the dimensions of operands and results that may be split together, for each operation.

A factor is a group of dimensions that are split alike, in the sense of Shardy's op sharding rules. In `dot(a, b)` of
matrices, one factor is dimension 0 of `a` and of the result; another is dimension 1 of `b` and of the result; a third
is dimension 1 of `a` and dimension 0 of `b`, a reduction factor that is not a dimension of the result.

One module for each family of operations. Does not depend on devices or on how arrays are distributed.
"""
