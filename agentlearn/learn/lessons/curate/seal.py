"""Which plans were made by `check` in this process.

`apply` asks here, so that a plan put together by hand, copied with changes or read from a file is not applied: such a
plan is only a record, and its proposals must be checked again. A seal belongs to the very object that `check`
returned. It is no field, hence neither `model_copy` nor pickling nor JSON can carry or forge it, and it goes when the
plan goes.
"""

from weakref import WeakValueDictionary

from agentlearn.types.operation import Plan

_sealed: WeakValueDictionary[int, Plan] = WeakValueDictionary()


def seal(plan: Plan) -> Plan:
    """The same plan, known as checked. Only `check` calls this."""
    _sealed[id(plan)] = plan
    return plan


def is_sealed(plan: Plan) -> bool:
    """Whether `check` returned this very object."""
    return _sealed.get(id(plan)) is plan
