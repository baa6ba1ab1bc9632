"""Everything simulated, for runs that need no model and no network: generated tasks and sites, a simulated service with
a solver and a reflector, and a tiny lab model.

Nothing that learns or measures imports it: it is found by entry points (`demos`, `commands.lab`, `sim` and `lab` as
endpoints) and answers over HTTP, like any other service.
"""
