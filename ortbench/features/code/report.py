"""A program that does what a mode does with a model: filled into the templates beside it, part by part.

What it has to do was found out by a worker that opened the model, set the mode up and proved what waits for the device.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined

from ortbench.analysis.outputs import reasons_without_shape
from ortbench.core import __version__
from ortbench.core.errors import BenchmarkFailed
from ortbench.core.safe_text import visible
from ortbench.features.code.model import Program, ProgramLoop, ProgramTensor, ProgramWait, StepInput
from ortbench.model import kinds, modes
from ortbench.model.protocol import Opened, Prepared
from ortbench.model.schema import Memory
from ortbench.plan.plan import Plan
from ortbench.plan.target import ORT_OPT_LEVELS

if TYPE_CHECKING:
    from ortbench.features.loop.model import OpenedLoop
    from ortbench.features.loop.plan import Steps

_DRAWN = {"float32": "np.float32", "float64": "np.float64"}  # what a generator of random numbers gives by itself
FOUR_BITS = {"int4": "np.int8", "uint4": "np.uint8"}  # as arrays, by their types
ML_DTYPES = "ml_dtypes"  # the package that has what numpy has not
_ML_NAMES = ("bfloat16", "float8")
_WIDTH = 100  # columns of a line, about


@dataclass(frozen=True)
class WrittenProgram:
    title: str  # what it does, in a line
    about: str  # the same in some lines
    parts: list[str]  # its text

    @property
    def source(self) -> str:
        title, about = (it.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for it in (self.title, self.about))
        texts = [f'"""{title}\n\n{about}\n"""\n', *self.parts]
        # There are two empty lines around a definition.
        apart = [one.splitlines()[-1].startswith(" ") or other.startswith("def ") for one, other in pairwise(texts)]
        gaps = ["\n\n" if it else "\n" for it in apart]
        return "".join(text + gap for text, gap in zip(texts, [*gaps, ""], strict=True))


def write_program(
    plan: Plan, opened: Opened, prepared: Prepared, found: Program, command: Sequence[str]
) -> WrittenProgram:
    """Write the program of the one mode of a plan, from what the worker says of the model, of the mode, and of what a program does;
    `command` asked for it, quoted for a shell. `BenchmarkFailed`: for such a session no program of this kind is written."""
    (mode,) = plan.modes
    context = _context(plan, opened, prepared, found)
    environment = Environment(
        loader=PackageLoader("ortbench.features.code", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"literal": literal, "listed": list_literal, "dtype": dtype}
    names = ("imports", "session", *_templates(plan.work.whole, mode))
    texts = [environment.get_template(f"{name}.py.j2").render(context) for name in names]
    title = f"{visible(plan.model)} on {found['session']['ep']}, mode {mode}."
    about = _write_about(plan, opened, found, context["packages"], command)
    return WrittenProgram(title, about, [text.strip("\n") + "\n" for text in texts])


def _templates(whole: str, mode: str) -> list[str]:
    """The parts of a program that are behind the session."""
    if whole == modes.WHOLE_START:
        return ["start"]
    if whole == modes.WHOLE_LOOP:
        return ["loop_inputs", "loop_cpu" if mode == modes.CPU else "loop_bound", "loop_measure"]
    known = modes.mode_of(mode)
    kind = "cpu" if known.of_cpu_tensors else "pipeline" if known.figure == modes.PER_ITEM else "bound"
    return ["inputs", kind, "measure"]


def _write_about(plan: Plan, opened: Opened, found: Program, packages: Sequence[str], command: Sequence[str]) -> str:
    (mode,) = plan.modes
    session = found["session"]
    cuda = ["cuda-python"] * (session["stream"] == "cuda-python")
    needs = ["onnxruntime", "numpy", *filter(None, [session["module"]]), *packages, *cuda]
    without = [] if modes.mode_of(mode).of_cpu_tensors else reasons_without_shape(opened["outputs"])
    said = [
        (modes.LOOPS_DO if plan.work.whole == modes.WHOLE_LOOP else modes.MODES_DO)[mode],
        f"Assumes {_assumption(plan, mode, opened['memory'])}.",
        *([f"Bound without a shape: {visible('; '.join(without))}."] if without else []),
        f"Needs {', '.join(needs)}; the synchronization was verified with onnxruntime {session['onnxruntime']}: verify it again "
        "with another version or device, as ortbench run does.",
    ]
    paragraphs = [textwrap.fill(text, _WIDTH, break_long_words=False) for text in said]
    by = f"Written by ortbench {__version__}: {visible(' '.join(command))}"
    return "\n\n".join([*paragraphs, textwrap.fill(by, _WIDTH, break_long_words=False, break_on_hyphens=False)])


_NEW_INPUTS = (
    "new inputs from the host, of the same shapes, in each inference, and outputs that the host has used before the next one, so it can "
    "replace any such session.run"
)


def _assumption(plan: Plan, mode: str, memory: Memory) -> str:
    """What a program relies on: new inputs in each inference, or tensors that stay where they are."""
    looped = plan.work.whole == modes.WHOLE_LOOP
    if not modes.mode_of(mode).on_device:
        return "that the host may need the state in each step" if looped else _NEW_INPUTS
    if looped:
        return f"that {kinds.kind_of(plan.work.kind).on_device_needs}; what else a step takes and gives is copied in each step"
    others = (
        "device-tensors"
        if memory["kind"] != "host" and memory["host_accessible"] is None
        else "host-accessible or device-tensors"
    )
    return f"that {kinds.RUN.on_device_needs}; where each inference has new inputs from the host, use --mode {others}"


def _context(plan: Plan, opened: Opened, prepared: Prepared, found: Program) -> dict[str, Any]:
    (mode,) = plan.modes
    known, tensors, external = modes.mode_of(mode), _tensors(found), found["external"]
    unshaped = [it for it in found["outputs"] if it["unshaped"]]
    copying = known.times_copies and not known.is_rate
    waits = [found["wait_download"] if copying else found["wait"]]
    captures = found["session"]["captures"]
    foreign = [it for it in tensors if it["number"] is not None]
    ml_dtypes = [it for it in foreign if it["dtype"] not in FOUR_BITS]
    packages = {it["module"] for it in found["session"]["custom_ops"]} - {None}
    packages |= {ML_DTYPES} if ml_dtypes else set()
    packages |= {external["library"]} - {"numpy"} if external is not None else set()
    tolerances = [it["tolerance"] for it in found["outputs"] if it["tolerance"] is not None]
    context: dict[str, Any] = {
        **found,
        "mode": mode,
        "model": plan.model,
        "level": None if plan.target.opt_level == "all" else ORT_OPT_LEVELS[plan.target.opt_level],
        "target": plan.target,
        "seed": plan.inputs.seed,
        "seconds": plan.loop.duration_s,
        "path": plan.inputs.path,
        "inputs": [
            {**tensor, "made": _input_expression(tensor, info["range"])}
            for tensor, info in zip(found["inputs"], opened["inputs"], strict=True)
        ],
        "kind": _memory_kind(found, mode),
        "unshaped": [it["name"] for it in unshaped],
        "unshaped_moved": any(it["memory"] != "stays" for it in unshaped),
        "shaped": len(unshaped) < len(found["outputs"]),
        "dynamic": bool(unshaped),
        "bound_anew": "OUTPUTS" if len(unshaped) == len(found["outputs"]) else "UNSHAPED",
        "on_host": [it["name"] for it in tensors if it["memory"] == "stays"],
        "moved_in": any(it["memory"] != "stays" for it in found["inputs"]),
        "moved_out": any(it["memory"] != "stays" for it in found["outputs"]),
        "needs_word": any(it is not None and it["kind"] == "readback" and it["by_token"] for it in waits),
        "pinned": known.pinned,
        "in_place": mode == modes.HOST_ACCESSIBLE,
        "copies_each_run": copying,
        "waits": found["wait"]["kind"] != modes.RUN,
        "with_options": ", run_options" if plan.target.run_config or known.in_bursts or captures else "",
        # A plain run is never captured.
        "plainly": ", plain_options" if found["captured"] else ", run_options" if captures else "",
        # Inputs are handed over by a call that is not public, which alone takes bools, and older versions alone have.
        "natively": external is not None
        and (not found["dlpack"] or any(it["dtype"] == "bool" for it in found["inputs"])),
        "packages": sorted(packages),
        # The inputs and outputs of types that numpy has not.
        "foreign": foreign,
        "numbers": {it["name"]: it["number"] for it in foreign},
        "packed": [it for it in foreign if it not in ml_dtypes],
        "ml_dtypes": ml_dtypes,
        "one_buffer": mode == modes.SHARED.name,
        "burst": prepared["inferences_per_sample"] if known.in_bursts else None,
        "depth": plan.loop.depth,
        "rolls": prepared["pipeline"] is not None and prepared["pipeline"]["distinct"] == prepared["pipeline"]["items"],
        "tolerance": tuple(map(max, zip(*tolerances, strict=True))) or None,  # the widest of all outputs
        "exact": [it["name"] for it in found["outputs"] if it["tolerance"] is None],
        "nested": any(it["nested"] for it in found["outputs"]),
        "os_imported": known.figure == modes.PER_ITEM,
        "started": plan.work.whole == modes.WHOLE_START,
        "steps": None,
    }
    if found["loop"]:
        context |= steps_context(cast("Steps", plan.part), found["loop"], cast("OpenedLoop", opened), found)
    _refuse(mode, context, found)
    return context


def _input_expression(tensor: ProgramTensor, bounds: list[float] | None) -> str:
    """An expression that makes a random input; a list of them for a sequence."""
    made = random_array(tensor["dtype"], literal(tensor["shape"]), bounds)
    return made if tensor["length"] is None else f"[{made} for _ in range({tensor['length']})]"


def _tensors(found: Program) -> list[ProgramTensor]:
    return [*found["inputs"], *found["outputs"]]


def _memory_kind(found: Program, mode: str) -> str:
    """The one kind of memory that all is in that is not in ordinary host memory because the session wants it there; refused are several."""
    kinds = {it["memory"] for it in _tensors(found)} - {"stays"}
    if len(kinds) > 1 and not modes.mode_of(mode).of_cpu_tensors:
        raise BenchmarkFailed(
            f"the session wants its inputs and outputs in memory of several kinds ({', '.join(sorted(kinds))}), for which no "
            "program is written"
        )
    return next(iter(kinds), "array")


def _refuse(mode: str, context: dict[str, Any], found: Program) -> None:
    """Raise `BenchmarkFailed` where there is no template."""
    wait: ProgramWait = context["wait"]
    if any(it["unshaped"] and it["memory"] == "shared" for it in found["outputs"]):
        raise BenchmarkFailed(
            "outputs without a shape are in memory that host and device share, which no public call of onnxruntime names: "
            "no program is written for that"
        )
    if context["steps"] is not None:
        if context["kind"] == "named" and mode != modes.CPU:
            raise BenchmarkFailed(
                f"{found['session']['ep']} has no EP device here, and no loop is written for an EP by name"
            )
        if wait["kind"] == "readback" and not wait["by_token"] and mode != modes.CPU:
            raise BenchmarkFailed(
                "nothing but reading all outputs back waits for a run here, and no loop is written for that"
            )
    if modes.mode_of(mode).figure != modes.PER_ITEM:
        return
    if any(it["memory"] == "stays" for it in found["outputs"]):
        raise BenchmarkFailed("an output stays in host memory, and no pipeline is written for such a session")
    if wait["kind"] == "readback" and not wait["by_token"]:
        raise BenchmarkFailed(
            "nothing but reading all outputs back waits for a run here, and no pipeline is written for that"
        )


def notebook(title: str, parts: Sequence[str]) -> str:
    """The notebook (https://nbformat.readthedocs.io/en/latest/format_description.html) of a program's parts; `title` is Markdown."""
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "source": title}]
    cells += [{"cell_type": "code", "source": part, "execution_count": None, "outputs": []} for part in parts]
    for number, cell in enumerate(cells):
        cell |= {"id": f"part-{number}", "metadata": {}}
        cell["source"] = cell["source"].strip("\n").splitlines(keepends=True)
    made = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def steps_context(steps: Steps, loop: ProgramLoop, opened: OpenedLoop, found: Program) -> dict[str, Any]:
    """For the templates: ``steps`` (how many), ``states``, ``constant`` and ``varying`` inputs, ``free`` outputs and so on.

    A state grows where its shape changes. Inputs that are the same in all steps are made once.
    """
    session = found["session"]
    ranges = {info["name"]: info["range"] for info in opened["inputs"]}
    by_name = {it["name"]: it for it in _tensors(found)}
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
        made = _input_expression_by_step(by_name[name]["dtype"], given, ranges.get(name))
        same = all(it == given[0] for it in given)
        (constant if same or name in loop["given"] else varying).append({"name": name, "made": made})
    gives = [{**it, "by_step": shape_by_step([step[at] for step in loop["gives"]])} for at, it in enumerate(free)]
    on_host = any(it["memory"] == "stays" for it in by_name.values())
    has_fixed_shapes = not on_host and all(step == loop["gives"][0] for step in loop["gives"]) and not varying
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
        "bindings": min(2, steps.count) if has_fixed_shapes else steps.count,
        "given": loop["given"],
        "counts": any("counted(" in it["made"] for it in (*constant, *varying)),
        "left_to_ort": loop["left_to_ort"] and (session["by_name"] or session["device_type"] != "cpu"),
        "read_moved": any(it["name"] not in steps.keep and it["memory"] != "stays" for it in free),
    }


def _input_expression_by_step(name: str, given: list[StepInput], bounds: list[float] | None) -> str:
    """An expression of ``step`` that makes an input, from a generator ``rng`` where it is random."""
    shape = shape_by_step([it["shape"] for it in given])
    fills = [it["fill"] for it in given]
    if any(fill is None for fill in fills):
        return random_array(name, shape, bounds)
    first, grows = (by_step([fill[number] for fill in fills if fill is not None]) for number in (0, 1))
    counted = [fill for fill, it in zip(fills, given, strict=True) if fill is not None and it["shape"][-1:] != [1]]
    if counted:  # what is alone along its last dimension says nothing of how it would grow
        grows = by_step([fill[1] for fill in counted])
    if not any(fill is not None and fill[1] for fill in fills):
        return f"np.full({shape}, {first}, {dtype(name)})"
    return f"counted({shape}, {first}, {grows}, {dtype(name)})"


# Values as source: texts, shapes, arrays that are made, sizes that follow from the step of a loop


def literal(value: Any) -> str:
    """A value as source: texts in double quotes wherever that takes no escapes, shapes as tuples, dictionaries as they are."""
    if isinstance(value, str):
        text = repr(value)
        return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in value else text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        items = [str(literal(it)) for it in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)


def list_literal(values: Sequence[Any], indent: int = 0) -> str:
    """Values as a list: on one line, or on a line each where that is too long."""
    words = [literal(value) for value in values]
    one_line = f"[{', '.join(words)}]"
    if indent + len(one_line) <= _WIDTH:
        return one_line
    inner = "".join(f"{' ' * indent}    {word},\n" for word in words)
    return f"[\n{inner}{' ' * indent}]"


def dtype(name: str) -> str:
    if name in FOUR_BITS:
        return FOUR_BITS[name]
    return name if name in ("object", "bool") else f"{ML_DTYPES}.{name}" if name.startswith(_ML_NAMES) else f"np.{name}"


def random_array(name: str, shape: str, bounds: Sequence[float] | None) -> str:
    """An expression that makes a random array of a dtype, with a generator ``rng``, as ortbench makes its own. `shape` is source;
    `bounds` are inclusive for integers, and None for texts."""
    if name == "object":
        return (
            f'np.array([f"s{{number}}" for number in rng.integers(0, 10, {shape}).flat], dtype=object).reshape({shape})'
        )
    low, high = bounds or (0.0, 1.0)
    if name == "bool":
        made = f"rng.integers({literal(float(low))}, {literal(float(high))}, {shape}, dtype=np.uint8, endpoint=True)"
        return f"{_array(made, shape)}.astype(bool)"
    if "int" in name:  # four bits are in bytes of their own here
        ends = f"{literal(float(low))}, {literal(float(high))}"
        return _array(f"rng.integers({ends}, {shape}, dtype={dtype(name)}, endpoint=True)", shape)
    made = _array(f"rng.random({shape}, dtype={_DRAWN.get(name, 'np.float32')})", shape)
    if (low, high) != (0.0, 1.0):
        made = f"({made} * {high - low!r} + {low!r}).astype({dtype(name)})"
    elif name not in _DRAWN:
        made = f"{made}.astype({dtype(name)})"
    return made


def _array(made: str, shape: str) -> str:
    """Without dimensions a generator gives a number."""
    return f"np.asarray({made})" if shape == "()" else made


def by_step(values: Sequence[float]) -> str:
    """An expression of ``step``, from 0 on, for a number that each step has.

    A number, one that grows evenly, either of them from the second step on, or all of them in a row.
    """
    if (found := _even(values, 0)) is not None:
        return found
    rest = _even(values[1:], 1)
    if rest is not None:
        return f"{literal(values[0])} if step == 0 else {rest}"
    return f"({', '.join(literal(value) for value in values)})[step]"


def _even(values: Sequence[float], first_step: int) -> str | None:
    """The same of numbers that grow evenly; None where they do not."""
    grows = values[1] - values[0] if len(values) > 1 else 0
    if any(after - before != grows for before, after in pairwise(values)):
        return None
    first = values[0] - first_step * grows
    if not grows:
        return literal(first)
    steps = "step" if grows == 1 else f"{literal(grows)} * step"
    return steps if not first else f"{literal(first)} + {steps}"


def shape_by_step(shapes: Sequence[Sequence[int]]) -> str:
    """A shape as source, of ``step`` where it is not the same in all."""
    sizes = [by_step([shape[axis] for shape in shapes]) for axis in range(len(shapes[0]))]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
