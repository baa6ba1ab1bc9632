"""The boundary of a walk: where its browser may connect, enforced by a proxy that the browser cannot go around."""
