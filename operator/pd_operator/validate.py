"""Whether a spec can be built; pure.

The API server refuses what its schema and CEL rules can see. Here is all of that once more, for
specs that reach the operator another way, and what CEL cannot see. A spec without problems gives
children that the API server accepts.
"""

from pd_operator.api.deployment import PDDeployment
from pd_operator.checks.adapters import adapter_problems
from pd_operator.checks.args import argument_problems
from pd_operator.checks.compatibility import compatibility_problems
from pd_operator.checks.kv_transfer import kv_transfer_problems
from pd_operator.checks.options import option_problems
from pd_operator.checks.overrides import override_problems
from pd_operator.checks.parallelism import parallelism_problems
from pd_operator.checks.placement import placement_problems
from pd_operator.checks.pods import pod_problems
from pd_operator.checks.problem import Problem
from pd_operator.checks.proxy import proxy_problems
from pd_operator.checks.rdma import rdma_problems
from pd_operator.checks.resources import resource_problems
from pd_operator.checks.scaling import scaling_problems
from pd_operator.checks.scheduling import scheduling_problems
from pd_operator.checks.shape import shape_problems
from pd_operator.checks.speculative import speculative_problems
from pd_operator.checks.store import store_problems

__all__ = ["Problem", "problems"]


def problems(deployment: PDDeployment) -> tuple[Problem, ...]:
    """All that is wrong with a deployment's spec; empty where it can be built."""
    return (
        *shape_problems(deployment),
        *argument_problems(deployment),
        *parallelism_problems(deployment),
        *compatibility_problems(deployment),
        *option_problems(deployment),
        *adapter_problems(deployment),
        *speculative_problems(deployment),
        *resource_problems(deployment),
        *rdma_problems(deployment),
        *placement_problems(deployment),
        *kv_transfer_problems(deployment),
        *pod_problems(deployment),
        *override_problems(deployment),
        *scheduling_problems(deployment),
        *store_problems(deployment),
        *scaling_problems(deployment),
        *proxy_problems(deployment),
    )
