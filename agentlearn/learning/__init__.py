"""The loop: assign treatments, roll out, let a learner update its state, and measure on held-out tasks."""
