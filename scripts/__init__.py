"""Programs for work on the project: benchmarks."""
