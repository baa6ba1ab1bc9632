"""Serving models on this machine: OpenAI-compatible chat completions over loopback HTTP, and server processes."""
