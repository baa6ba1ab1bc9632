"""Models that this machine serves itself: OpenAI-compatible chat completions over loopback HTTP."""
