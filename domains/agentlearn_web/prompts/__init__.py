"""Versioned prompt files of the web domain."""
