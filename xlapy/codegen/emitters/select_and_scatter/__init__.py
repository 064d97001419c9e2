"""Emitters of select-and-scatter, the gradient of max-pooling: windows scatter, or elements collect."""
