"""Code that runs in the zygote and in the sessions that it forks.

It may import only the standard library and this package, because it runs in a bare interpreter next to untrusted code.
Our own process uses `cell`, `config`, `frames`, `output` and `scratch` too.
"""
