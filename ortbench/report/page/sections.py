"""The tables of a page on one result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ortbench.analysis.nodes.placed import moved_inside
from ortbench.core import units
from ortbench.core.stats import SAMPLES_FOR
from ortbench.model.result import LOAD, SWEEP, Result
from ortbench.model.schema import Gpu, Load, Tensor
from ortbench.report import nodes, sweep
from ortbench.report.costs.section import cost_parts
from ortbench.report.load import WHAT_A_LEVEL_IS, load_tables
from ortbench.report.model import DERIVED, EVERYWHERE, Column, Kind, Medium, Notes, Paragraph, Table, Title
from ortbench.report.places import places_table
from ortbench.report.run import LEGENDS, derived_mark, further_tables, mode_table
from ortbench.report.words import device_name, eps, sequence


@dataclass(frozen=True)
class Section:
    """A titled table with paragraphs above it.

    Attributes:
        title: of both.
        table: where there is one; without columns it holds words and what they mean, which may take several lines.
        paragraphs: what there is to say about it.
        below: what there is to say that stands behind the table.
    """

    title: str
    table: Table | None
    paragraphs: tuple[str, ...] = ()
    below: tuple[str, ...] = ()


def sections(result: Result) -> Iterator[Section]:
    """The tables of a result, in their order; what another module has to say about a result is one more line here."""
    yield from _MAIN.get(result.kind, _modes)(result)
    yield from _further(result)
    yield from _costs(result)
    yield _placement(result)
    yield from _places(result)
    yield from _nodes(result)
    yield _environment(result)


def _shapes(result: Result) -> Iterator[Section]:
    """Of a sweep, its shapes mode by mode, and what switching between them costs."""
    for table in sweep.mode_tables(result):
        yield Section(table.title, table, (f"Times are medians; {DERIVED} derived, not measured.",))
    if (shapes := sweep.shape_table(result)).rows:
        yield Section(shapes.title, shapes)
    if (switching := sweep.switching_table(result)).rows:
        said = sweep.WHAT_SWITCHING_IS
        yield Section(switching.title, switching, (f"{said[0].upper()}{said[1:]}",))


def _modes(result: Result) -> Iterator[Section]:
    table = mode_table(result)
    if table.rows:
        tails = [column.name for column in table.columns if column.name in SAMPLES_FOR]
        of = f"; {' and '.join(tails)} {'is' if len(tails) == 1 else 'are'} of the latency" if tails else ""
        said, work = f"Times are medians in {table.unit}{of}.{derived_mark(table)}", LEGENDS.get(result.kind)
        yield Section(table.title, table, (f"Times are medians. {work}" if work else said,))


def _levels(result: Result) -> Iterator[Section]:
    for at, table in enumerate(load_tables(result)):
        yield Section(table.title, table, (WHAT_A_LEVEL_IS,) * (at == 0))


_MAIN: dict[str, Callable[[Result], Iterator[Section]]] = {LOAD: _levels, SWEEP: _shapes}


def _further(result: Result) -> Iterator[Section]:
    for table in further_tables(result):
        said = (f"Times are medians in {table.unit}.",) if table.unit else ()
        yield Section(table.title, table, said)


def _costs(result: Result) -> Iterator[Section]:
    """What it costs besides time, each kind of it as reports have it: what is said stands above the next table, or below
    the last."""
    for title, *blocks in cost_parts(result):
        assert isinstance(title, Title)
        found: list[Section] = []
        said: list[str] = []
        for block in blocks:
            if isinstance(block, Paragraph) and Medium.MARKDOWN in block.media:
                said.append(block.text)
            elif isinstance(block, Notes):
                said += [f"{note.text}." for note in block.notes]
            elif isinstance(block, Table):
                found.append(Section(block.title if found else title.text, block, tuple(said)))
                said = []
        if said and found:
            found[-1] = replace(found[-1], below=tuple(said))
        elif said:
            found.append(Section(title.text, None, tuple(said)))
        yield from found


def _placement(result: Result) -> Section:
    placed, left = result.placement["nodes"], result.placement.get("cpu_operators") or {}
    if placed is None:
        return Section(
            "Placement", None, ("This ONNX Runtime or model format does not report where nodes are placed.",)
        )
    rows = tuple((ep, str(count)) for ep, count in placed.items())
    said = []
    if left:
        listed = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in left.items())
        said.append(f"Left on the CPU: {listed}.")
    memcpy = result.placement["memcpy_nodes"]
    if memcpy:
        said.append(f"{moved_inside(result)} inside every run.")
    elif memcpy is None:
        said.append("How many Memcpy nodes copy inside a run is not known.")
    else:
        said.append("No copies between nodes: there is no Memcpy node in the graph.")
    return Section("Placement", Table((Column("execution provider", Kind.NAME), Column("nodes")), rows), tuple(said))


def _places(result: Result) -> Iterator[Section]:
    table = places_table(result, EVERYWHERE)
    if table.rows:
        said = ("Where each mode had each input and output: as ONNX Runtime says of the session, and why.",)
        yield Section(table.title, table, (*said, *([table.rest] if table.rest else [])))


def _nodes(result: Result) -> Iterator[Section]:
    """What `--nodes` found."""
    if result.nodes is None:
        return
    said: tuple[str, ...] = (nodes.heading(result),)
    for table in nodes.tables(result.nodes):
        rest = ((table.rest, *[""] * (len(table.columns) - 1)),) if table.rest else ()
        yield Section(table.title, replace(table, rows=(*table.rows, *rest)), said)
        said = ()


def _environment(result: Result) -> Section:
    environment, target, setup = result.environment, result.target, result.setup
    cpu = environment["cpu"]
    fence = target["sync"]
    known = {
        "ONNX Runtime": environment["onnxruntime"],
        "execution providers": "; ".join(eps(result)),
        "execution provider": f"{target['ep']} {target.get('ep_version') or ''}".strip(),
        "library": target.get("ep_library"),
        "device": device_name(result),
        "EP options": _pairs(target["ep_options"]),
        "session configuration": _pairs(target.get("session_config")),
        "intra-op threads": target.get("threads"),
        "graph optimisation": target.get("opt_level"),
        "sync": fence and f"{fence['kind']}: {fence.get('how') or ''}".removesuffix(": "),
        "inputs": _tensors(result.model["inputs"]),
        "outputs": _tensors(result.model["outputs"]),
        "session created in": setup.get("session_ns") and units.duration(setup["session_ns"]),
        "first run": setup.get("first_inference_ns") and units.duration(setup["first_inference_ns"]),
        "CPU": f"{cpu['model']}, {cpu.get('usable_cores')} of {cpu.get('cores')} cores usable",
        "GPUs": "; ".join(map(_gpu, environment["gpus"])),
        "load average": _load(environment.get("load_average")),
        "system": environment.get("os"),
        "packages": ", ".join(f"{name} {version}" for name, version in (environment.get("packages") or {}).items()),
        "interpreter": target.get("python"),
        "Python, NumPy": ", ".join(filter(None, (environment.get("python"), environment.get("numpy")))),
    }
    rows = tuple((name, str(value)) for name, value in known.items() if value not in (None, ""))
    return Section("Environment", Table((), rows))


def _pairs(pairs: dict[str, Any] | None) -> str:
    return ", ".join(f"{key}={value}" for key, value in (pairs or {}).items())


def _tensors(tensors: Sequence[Tensor]) -> str:
    found = []
    for tensor in tensors:
        dims, count = tensor.get("shape"), tensor.get("bytes")
        shape = "" if dims is None else " " + ("×".join(map(str, dims)) or "scalar")
        shape = f" {sequence(tensor['tensors'], '×')}" if "tensors" in tensor else shape
        bytes_ = f", {units.size(count)}" if count else ""
        found.append(f"{tensor['name']}: {tensor.get('type', '')}{shape}{bytes_}")
    return "; ".join(found)


def _gpu(gpu: Gpu) -> str:
    driver = f", driver {gpu['driver']}" if "driver" in gpu else ""
    return f"{gpu.get('name') or gpu.get('error')}{driver}"


def _load(load: Load | None) -> str:
    """Of the last minute, at the start and at the end of the run."""
    ends = {"start": load.get("start"), "end": load.get("end")} if load else {}
    return ", ".join(f"{averages[0]:g} at the {end}" for end, averages in ends.items() if averages)
