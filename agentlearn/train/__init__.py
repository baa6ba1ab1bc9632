"""Gradient GRPO: the weights of a local model learn from the same rollouts. The only home of torch."""
