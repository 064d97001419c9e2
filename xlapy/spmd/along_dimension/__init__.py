"""Operations along a dimension that is split over devices: sorts, cumulative operations, FFTs, reductions of tuples.

Without a rule here, such an operation is computed by every device from gathered operands.
"""
