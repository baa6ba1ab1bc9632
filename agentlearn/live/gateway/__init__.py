"""A gateway between a program and the service of its model: it adds lessons, records the traffic and takes feedback."""
