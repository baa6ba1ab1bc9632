"""Training lab models with torch: small transformers, trained from random weights and a seed by `lab build`."""
