"""A made-up benchmark in the layout of tau-bench, for tests: a library that lends books."""
