"""The nouns of the library as frozen values: tasks, treatments, trajectories, groups, experiences, operations, runs."""
