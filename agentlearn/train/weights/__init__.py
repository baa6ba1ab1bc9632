"""Loading, saving, checkpointing and hashing model weights."""
