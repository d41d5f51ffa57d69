from __future__ import annotations

from ortbench.cli.options import Model, command_line
from ortbench.features.sweep.plan import SweepOptions, check_shapes, shapes_of
from ortbench.plan.options import RawOptions, build
from ortbench.plan.plan import OutputOptions


def sweep(given: RawOptions, model: Model) -> None:
    """Lists in --dim and --shape are the shapes; what switching between them costs is measured too."""
    from ortbench.features.sweep import job

    shapes = shapes_of(model, given, command_line())
    check_shapes(shapes)
    raise SystemExit(job.sweep(shapes, build(SweepOptions, given).slo, build(OutputOptions, given)))
