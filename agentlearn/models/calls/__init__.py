"""One call of a model: what is asked, how often it is sent, what is recorded of its reply."""
