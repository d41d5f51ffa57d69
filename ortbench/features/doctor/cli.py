from __future__ import annotations

from typing import Annotated

import typer

from ortbench.core.errors import BadInput
from ortbench.plan.options import RawOptions, check_values
from ortbench.plan.plan_builder import target_of


def doctor(
    given: RawOptions,
    no_noise: Annotated[bool, typer.Option("--no-noise", help="Skip the measurement of this machine's noise.")] = False,
) -> None:
    """Packages, EPs, CUDA, NVIDIA GPUs, the processor and its noise; what is wrong comes with what mends it."""
    target = target_of(given)
    check_values(target)
    if "certify" in given:
        if no_noise:
            raise BadInput("--certify measures this machine's noise: leave --no-noise out", "--no-noise")
        from ortbench.features.certificate import job as certificate

        raise SystemExit(certificate.certify(given, target))
    from ortbench.features.doctor import job

    raise SystemExit(job.doctor(not no_noise, target.python, given.get("json"), given.get("verbose", False)))
