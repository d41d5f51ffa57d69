"""What carries cases out on a cluster, where one is asked for."""

from __future__ import annotations

import importlib.util
from functools import partial

from ortbench.core.errors import BadInput
from ortbench.features.suite.job.runs import Runner
from ortbench.plan.options import RawOptions


def case_runner(given: RawOptions) -> Runner | None:
    """What carries cases out on the cluster that was asked for; `BadInput` where the address can be none, or Ray is missing."""
    address, option = given.get("ray"), "--ray"
    if address is None:
        return None
    if address != "auto" and ":" not in address:
        reason = "write auto or a cluster's address, such as 10.0.0.1:6379 or ray://10.0.0.1:10001"
        raise BadInput(f"{option} {address!r}: {reason}", option)
    if importlib.util.find_spec("ray") is None:
        raise BadInput(f"{option}: Ray is not installed; pip install 'ortbench[ray]' brings it", option)
    from ortbench.features.cluster.job.tasks import run_cases  # which needs Ray

    return partial(run_cases, address=address)
