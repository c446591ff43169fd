"""Causal attention in Triton."""
