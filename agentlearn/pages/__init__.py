"""Records of the store as typed parts, and the two ways to show them: lines of a terminal, and pages."""
