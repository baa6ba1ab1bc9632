"""All planted faults."""

from tests.bench.planted_faults.faults_in_engine import ENGINE_FAULTS
from tests.bench.planted_faults.faults_in_losses import LOSS_FAULTS
from tests.bench.planted_faults.faults_in_runs import RUN_FAULTS
from tests.bench.planted_faults.faults_in_sampling_plans import PLAN_FAULTS
from tests.bench.planted_faults.faults_in_sharing import SHARING_FAULTS
from tests.bench.planted_faults.faults_in_transfers import TRANSFER_FAULTS
from tests.bench.planted_faults.faults_in_update import UPDATE_FAULTS
from tests.bench.planted_faults.faults_in_weights import WEIGHT_FAULTS

FAULTS = (
    *LOSS_FAULTS,
    *UPDATE_FAULTS,
    *PLAN_FAULTS,
    *SHARING_FAULTS,
    *WEIGHT_FAULTS,
    *TRANSFER_FAULTS,
    *ENGINE_FAULTS,
    *RUN_FAULTS,
)
