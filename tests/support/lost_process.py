"""Doing to a connection what the end of a process does to it."""

import os
import socket
from multiprocessing.connection import Connection


def end_of_process(connection: Connection) -> None:
    """Close both directions of the connection, also while another thread reads from it."""
    with socket.socket(fileno=os.dup(connection.fileno())) as one:
        one.shutdown(socket.SHUT_RDWR)
