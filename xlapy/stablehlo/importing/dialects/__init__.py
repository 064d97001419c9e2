"""Import rules of the dialects other than StableHLO, and of quantized tensors."""
