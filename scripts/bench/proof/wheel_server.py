"""llama.cpp's server out of a package on PyPI that holds it compiled, for machines without a compiler.

Run as a program with the folder of the opened package, a model, a port, threads, and a folder: it serves until it ends.
"""

import importlib
import sys
import threading


def main() -> None:
    """Serve one model with the settings of `server.Server`."""
    package, model, alias, port, threads, folder = sys.argv[1:]
    sys.path.insert(0, package)
    llama = importlib.import_module("xllamacpp")
    given = llama.CommonParams()
    given.model.path, given.port, given.n_ctx, given.n_parallel = model, int(port), 8192, 1
    given.model_alias, given.use_jinja, given.cache_ram_mib, given.slot_save_path = {alias}, True, 0, f"{folder}/"
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = int(threads)
    server = llama.Server(given)  # it ends with this name
    threading.Event().wait()
    del server


if __name__ == "__main__":
    main()
