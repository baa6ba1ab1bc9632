"""The demo of the web domain."""
