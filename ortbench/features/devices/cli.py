from __future__ import annotations

from ortbench.features.devices.plan import listing_of
from ortbench.plan.options import RawOptions


def devices(given: RawOptions) -> None:
    """An EP that does not load is listed with the reason."""
    target, library = listing_of(given)
    from ortbench.features.devices import job

    raise SystemExit(job.show_devices(target, given.get("json"), library, given.get("verbose", False)))
