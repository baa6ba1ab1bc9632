"""Sampling from a transformers model in this process: batching, key-value cache, chat template."""
