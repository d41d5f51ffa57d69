"""What `ortbench code` does: have a worker set a mode up and prove what it rests on, and write the program that does the same."""

from __future__ import annotations

from ortbench.core.errors import DONE, BenchmarkFailed, Unsupported
from ortbench.core.safe_text import visible
from ortbench.jobs.publishing import check_place, write
from ortbench.measure.process import open_worker
from ortbench.model.protocol import Opened, Prepared, Program
from ortbench.plan.plan import Plan

_WARMUP = 1  # nothing is timed here


def code(plan: Plan, out: str | None, notebook: str | None) -> int:
    """Write the program of the plan's one mode to files, or print it where no file was asked for; the exit code.

    Raises:
        BadInput, BenchmarkFailed: the mode cannot be set up, or no program is written for it.
    """
    check_place(out, "--out")
    check_place(notebook, "--notebook")
    opened, prepared, found = _found(plan)
    from ortbench.report.programs import program

    written = program.write(plan, opened, prepared, found, plan.command)
    texts: list[tuple[str, str, str]] = []
    if out is not None or notebook is None:
        texts.append(("--out", out or "-", written.source))
    if notebook is not None:
        texts.append(("--notebook", notebook, program.notebook(f"# {written.title}\n\n{written.about}", written.parts)))
    saved = [path for option, path, text in texts if write(path, text, option) and path != "-"]
    if len(saved) == len(texts):  # else a program is where this would be
        for path in saved:
            print(f"Saved in {visible(path)}")
    return DONE


def _found(plan: Plan) -> tuple[Opened, Prepared, Program]:
    """What a worker says of the model, of the mode, and of what a program does."""
    (mode,) = plan.modes
    loop = plan.loop
    with open_worker(plan) as client:
        try:
            opened: Opened = client.receive()
            if opened["unsupported"] is not None:
                raise BenchmarkFailed(f"{mode}: {opened['unsupported']}")
            prepared: Prepared = client.ask(
                "prepare", mode=mode, warmup=_WARMUP, depth=loop.depth, warmup_ns=loop.warmup_ns
            )
            found: Program = client.ask("program", mode=mode)
        except Unsupported as error:
            raise BenchmarkFailed(f"{mode}: {error}") from None
    return opened, prepared, found
