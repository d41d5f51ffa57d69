"""What `ortbench load` does: put a load on a model, save what came of it, and show it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.jobs.measuring import Measured, measure, new_place
from ortbench.jobs.publishing import check_wanted, publish_results

if TYPE_CHECKING:
    from ortbench.jobs.load_samples import Arrays
    from ortbench.plan.load_plan import LoadPlan
    from ortbench.plan.output_options import Wanted
    from ortbench.plan.plan import Plan


def load(plan: Plan, put: LoadPlan, wanted: Wanted) -> int:
    """Put a load on a model, save and show what came of it; the exit code."""
    check_wanted(wanted, "json", "junit", "action_json")
    place = new_place(wanted.out, [plan], "load")
    found = measure([plan], place, load=put, quiet=wanted.quiet, traced=wanted.trace is not None)
    return publish_results(found, plan.model, wanted)


def samples(found: Measured) -> Arrays:
    """What ``load-samples.npz`` has."""
    from ortbench.jobs.load_samples import arrays

    return arrays(found.taken[0])


def saved_samples(folder: Path) -> Arrays | None:
    """What the ``load-samples.npz`` of a folder has; None where there is none, `BadInput` where it cannot be read."""
    from ortbench.jobs.load_samples import read

    return read(folder)
