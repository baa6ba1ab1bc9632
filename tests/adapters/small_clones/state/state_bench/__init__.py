"""A made-up benchmark in the layout of STATE-Bench, for tests: a company that rents bicycles."""
