"""Lab models without torch: their tokens, their transformer in numpy, and the service that answers as `lab:…`."""
