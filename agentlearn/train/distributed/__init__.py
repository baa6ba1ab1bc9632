"""Training in several processes under `torchrun`: collectives, the leading process, sharded weights."""
