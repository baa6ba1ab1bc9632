"""The prompts of the web domain, as versioned files."""
