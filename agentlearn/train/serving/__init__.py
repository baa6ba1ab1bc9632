"""Serving local weights to rollouts: `local:` and `vllm:` endpoints, and keeping a server's weights in step."""
