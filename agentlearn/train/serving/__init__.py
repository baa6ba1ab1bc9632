"""Serving local weights to rollouts: the `local:` and `vllm:` endpoints, and weight transfer to a vLLM server."""
