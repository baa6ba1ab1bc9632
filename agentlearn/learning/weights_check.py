"""Checks that the weights of a model did not change while lessons were learned for it."""

import asyncio

from agentlearn.errors import AgentlearnError
from agentlearn.learning.report import WeightsRecord
from agentlearn.models.endpoint import Endpoint, HoldsWeights


async def weights_sha256(endpoint: Endpoint) -> str | None:
    """Return the hash of an endpoint's weights; None when they are not on this machine."""
    service = endpoint.service
    return await asyncio.to_thread(service.weights_sha256) if isinstance(service, HoldsWeights) else None


async def weights_record(endpoint: Endpoint, before: str | None) -> WeightsRecord:
    """Return which model answered, and the hash of its weights. before: their hash at the start of the run.

    Raises AgentlearnError (`weights_changed`) when the two hashes differ.
    """
    identity = f"{endpoint.name} ({', '.join(sorted(endpoint.endpoint_state.models)) or 'no answer'})"
    after = await weights_sha256(endpoint)
    if before != after:
        raise AgentlearnError(
            f"the weights of {endpoint.name} changed while lessons were learned ({before} before, {after} after); the"
            " scores before and after are not of the same model, so start a new run",
            code="weights_changed",
        )
    if after is not None:
        note = f"unchanged, sha256 {after[:12]} before and after"
    elif endpoint.simulated:
        note = "the simulated model has no weights"
    else:
        note = "weights not checked (remote model); agentlearn never changes them"
    return WeightsRecord(identity=identity, sha256_before=before, sha256_after=after, note=note)
