"""What the commands that look at stored runs print: runs, groups, rollouts and the origins of lessons."""
