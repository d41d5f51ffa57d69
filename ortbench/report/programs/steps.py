"""What the program of a loop is filled with: its states, and the inputs and outputs of its steps."""

from __future__ import annotations

from typing import Any

from ortbench.model.protocol import Opened, Program, ProgramLoop, StepInput
from ortbench.plan.loop_plan import Steps
from ortbench.report.programs.literals import by_step, dtype, random_array, shape_by_step


def steps_context(steps: Steps, loop: ProgramLoop, opened: Opened, found: Program) -> dict[str, Any]:
    """For the templates: ``steps`` (how many), ``states``, ``constant`` and ``varying`` inputs, ``free`` outputs and so on.

    A state grows where its shape changes. Inputs that are the same in all steps are made once.
    """
    session = found["session"]
    ranges = {info["name"]: info["range"] for info in opened["inputs"]}
    by_name = {it["name"]: it for it in (*found["inputs"], *found["outputs"])}
    states = []
    for number, (out, into) in enumerate(opened["loop"]["feedback"]):
        shapes = [shape[number] for shape in loop["shapes"]]
        states.append(
            {
                "out": out,
                "into": into,
                "dtype": by_name[into]["dtype"],
                "first": shapes[0],
                "grows": any(shape != shapes[0] for shape in shapes),
                "next": shape_by_step(shapes[1:]),
            }
        )
    held = {state["out"] for state in states}
    free = [it for it in found["outputs"] if it["name"] not in held]
    constant: list[dict[str, str]] = []
    varying: list[dict[str, str]] = []
    for name, given in loop["feeds"].items():
        made = _made(by_name[name]["dtype"], given, ranges.get(name))
        same = all(it == given[0] for it in given)
        (constant if same or name in loop["given"] else varying).append({"name": name, "made": made})
    gives = [{**it, "by_step": shape_by_step([step[place] for step in loop["gives"]])} for place, it in enumerate(free)]
    on_host = any(it["memory"] == "stays" for it in by_name.values())
    fixed_places = not on_host and all(step == loop["gives"][0] for step in loop["gives"]) and not varying
    return {
        "steps": steps.count,
        "states": states,
        "constant": constant,
        "varying": varying,
        "feeds": list(loop["feeds"]),
        "free": gives,
        "read": [it["name"] for it in free if it["name"] not in steps.keep],
        "kept": [it["name"] for it in free if it["name"] in steps.keep],
        "resident": [name for name in loop["feeds"] if name in steps.resident],
        "grows": any(state["grows"] for state in states),
        "bindings": min(2, steps.count) if fixed_places else steps.count,
        "given": loop["given"],
        "counts": any("counted(" in it["made"] for it in (*constant, *varying)),
        "left_to_ort": loop["left_to_ort"] and (session["by_name"] or session["device_type"] != "cpu"),
        "read_moved": any(it["name"] not in steps.keep and it["memory"] != "stays" for it in free),
    }


def _made(name: str, given: list[StepInput], bounds: list[float] | None) -> str:
    """An expression of ``step`` that makes an input, from a generator ``rng`` where it is random."""
    shape = shape_by_step([it["shape"] for it in given])
    fills = [it["fill"] for it in given]
    if any(fill is None for fill in fills):
        return random_array(name, shape, bounds)
    first, grows = (by_step([fill[place] for fill in fills if fill is not None]) for place in (0, 1))
    counted = [fill for fill, it in zip(fills, given, strict=True) if fill is not None and it["shape"][-1:] != [1]]
    if counted:  # what is alone along its last dimension says nothing of how it would grow
        grows = by_step([fill[1] for fill in counted])
    if not any(fill is not None and fill[1] for fill in fills):
        return f"np.full({shape}, {first}, {dtype(name)})"
    return f"counted({shape}, {first}, {grows}, {dtype(name)})"
