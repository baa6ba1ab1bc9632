"""The network boundary of a walk: a proxy decides where the browser may connect, and the browser cannot bypass it."""
