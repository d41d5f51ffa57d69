from __future__ import annotations

from ortbench.cli.options import Model, command_line
from ortbench.features.tune.plan import TuneOptions
from ortbench.plan.options import RawOptions, build
from ortbench.plan.plan import OutputOptions


def tune(given: RawOptions, model: Model) -> None:
    """Threads, spinning, execution mode, arena, memory pattern and optimisation level, on this machine; with --rate or --concurrency
    threads, spinning, workers and sessions under that load.

    An option that is given is fixed; of a list each value is tried. What is clearly worse is dropped early.
    """
    from ortbench.features.tune import job

    raise SystemExit(job.tune(model, given, build(TuneOptions, given), command_line(), build(OutputOptions, given)))
