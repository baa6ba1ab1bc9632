"""Options of the Python API whose keyword also takes a simpler value than the setting holds, such as a path as text."""

LOOSE = frozenset({"allow_host", "api_key", "ca_file", "login", "prompt", "record", "rule", "storage_state", "trust"})
