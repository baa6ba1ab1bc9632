"""The demo of the math domain."""
