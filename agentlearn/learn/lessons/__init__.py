"""Advantages: numbers for weights (`numeric`), words for lessons (the semantic stages)."""
