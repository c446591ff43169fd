"""Cross-entropy of a language model's unembedding."""
