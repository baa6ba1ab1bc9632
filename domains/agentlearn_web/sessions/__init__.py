"""How walks start and what they trust: saved sessions, logins, certificates, and the hosts that the user allows."""
