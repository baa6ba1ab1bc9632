"""Files of users, for the type checkers."""
