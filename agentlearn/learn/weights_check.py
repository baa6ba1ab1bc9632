"""The proof that a model stayed as it was while lessons were learned for it."""

import asyncio

from agentlearn.errors import AgentlearnError
from agentlearn.learn.report import WeightsRecord
from agentlearn.models.endpoint import Endpoint, HoldsWeights


async def weights_sha256(endpoint: Endpoint) -> str | None:
    """Hash of an endpoint's weights; None where they are not to be had here."""
    service = endpoint.service
    return await asyncio.to_thread(service.weights_sha256) if isinstance(service, HoldsWeights) else None


async def frozen(endpoint: Endpoint, before: str | None) -> WeightsRecord:
    """Who answered, and with which weights, now that the run is over. before: their hash as it began.

    Raises AgentlearnError (`weights_changed`) for weights that did not stay the same.
    """
    identity = f"{endpoint.name} ({', '.join(sorted(endpoint.endpoint_state.models)) or 'no answer'})"
    after = await weights_sha256(endpoint)
    if before != after:
        raise AgentlearnError(
            f"the weights of {endpoint.name} changed while lessons were learned ({before} before, {after} after); what"
            " was measured is of two models: begin a new run",
            code="weights_changed",
        )
    if after is not None:
        note = f"unchanged, sha256 {after[:12]} before and after"
    elif endpoint.simulated:
        note = "the simulated model has no weights"
    else:
        note = "the model is served elsewhere: nothing here writes weights, its name is on record"
    return WeightsRecord(identity=identity, sha256_before=before, sha256_after=after, note=note)
