"""What `ortbench code` does: have a worker find out what a program does that runs a mode, and write it."""

from __future__ import annotations

from dataclasses import replace

from ortbench.core.errors import DONE, BenchmarkFailed, Unsupported
from ortbench.core.safe_text import visible
from ortbench.features.code.model import Program
from ortbench.jobs import check_writable, write
from ortbench.measure.process import open_worker
from ortbench.model.protocol import Opened, Prepared
from ortbench.plan.plan import Plan

_WARMUP = 1  # of a mode whose program is written: nothing is timed


def write_code(plan: Plan, out: str | None, notebook: str | None) -> int:
    """Write the program of the first of the plan's modes that can be set up to files, or print it where no file was asked for; the exit
    code. `BadInput` or `BenchmarkFailed` where none can be set up, or no program is written for it."""
    check_writable(out, "--out")
    check_writable(notebook, "--notebook")
    mode, opened, prepared, found = _ask_worker(plan)
    from ortbench.features.code.report import notebook as notebook_text
    from ortbench.features.code.report import write_program

    program = write_program(replace(plan, modes=(mode,)), opened, prepared, found, plan.command)
    texts: list[tuple[str, str, str]] = []
    if out is not None or notebook is None:
        texts.append(("--out", out or "-", program.source))
    if notebook is not None:
        texts.append(("--notebook", notebook, notebook_text(f"# {program.title}\n\n{program.about}", program.parts)))
    saved = [path for option, path, text in texts if write(path, text, option) and path != "-"]
    if len(saved) == len(texts):  # else a program is where this would be
        for path in saved:
            print(f"Saved in {visible(path)}")
    return DONE


def _ask_worker(plan: Plan) -> tuple[str, Opened, Prepared, Program]:
    """The first mode that can be set up, and what a worker says of the model, of the mode, and of what a program does."""
    loop = plan.loop
    # What the program writes is written by the program.
    with open_worker(replace(plan, target=replace(plan.target, optimized_model=None))) as client:
        opened: Opened = client.receive()
        if opened["unsupported"] is not None:
            raise BenchmarkFailed(f"{plan.modes[0]}: {opened['unsupported']}")
        for mode in plan.modes:
            try:
                prepared: Prepared = client.ask(
                    "prepare", mode=mode, warmup=_WARMUP, depth=loop.depth, warmup_ns=loop.warmup_ns
                )
                found: Program = client.ask("program", mode=mode)
                return mode, opened, prepared, found
            except Unsupported as error:
                reason = f"{mode}: {error}"
    raise BenchmarkFailed(reason)
