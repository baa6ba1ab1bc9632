"""Learns lessons, distils them into weights, measures both, and proposes the lessons that are no longer needed."""
