"""Learning rules judged in simulated worlds: the fast loop, the rules, and opponents."""
