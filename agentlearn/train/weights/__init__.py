"""Loading, checkpointing and hashing model weights."""
