"""Target-neutral kernel generation: which instructions share a kernel, and the loops that compute them."""
