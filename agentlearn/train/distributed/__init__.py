"""Training in several processes under `torchrun`: commands of the leading process, gradient exchange, shards."""
