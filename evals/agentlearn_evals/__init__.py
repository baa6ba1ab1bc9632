"""The evals harness: which library is better, with honest statistics. To come; nothing is here yet."""
