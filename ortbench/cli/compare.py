"""`ortbench compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import takes
from ortbench.errors import BadInput
from ortbench.gate.baseline import STORED_BASELINE
from ortbench.modes import ALL_MODES, COSTS, LOOP_PHASES, PHASE_NAMES, WHOLE_CHAIN, stage_in, stage_phase
from ortbench.options import Given, make
from ortbench.parsing import parse_share
from ortbench.plan import SAME, Plan
from ortbench.wanted import Wanted


@takes(Plan, STORED_BASELINE, Wanted)
def compare(
    given: Given,
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT.json...", help="Result files, or folders of results: two or more in all."),
    ],
    phase: Annotated[
        list[str],
        typer.Option(
            "--phase",
            metavar="NAME",
            help="upload, inference, download, total; of loops step, loop; of chains stage.NAME, chain; submit, cpu_time; "
            "repeatable. Default: all.",
        ),
    ] = [],  # noqa: B006 - typer reads the default and never keeps it
    same: Annotated[
        str, typer.Option("--same", metavar="P", help="Up to which difference two are called the same.")
    ] = SAME,
) -> None:
    """Hold results against each other: which differences are real."""
    modes, phases = given.get("mode", ()), (*PHASE_NAMES, *LOOP_PHASES, WHOLE_CHAIN, *COSTS)
    for name in modes:
        if name not in ALL_MODES:
            raise BadInput(f"--mode {name!r}: there is no such mode; choose from {', '.join(ALL_MODES)}", "--mode")
    for name in phase:
        if name not in phases and stage_in(name) is None:
            reason = f"there is no such phase; choose from {', '.join(phases)}, {stage_phase('NAME')}"
            raise BadInput(f"--phase {name!r}: {reason}", "--phase")
    margin = parse_share(same, "--same")
    from ortbench.jobs import compare as job

    wanted = make(Wanted, given)
    job.compare(results, tuple(modes), tuple(phase), margin, "force" in given, wanted.markdown, wanted.json)
