"""What `ortbench inspect` prints."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.items import dims_of
from ortbench.analysis.outputs import WHY
from ortbench.analysis.placement import outlook
from ortbench.core import units
from ortbench.core.safe_text import first_of, shorten, visible
from ortbench.features.inspect.model import Inspected
from ortbench.model.schema import SuggestedLoop, Tensor
from ortbench.report.nodes import outline
from ortbench.report.phrases import sequence
from ortbench.report.terminal import Screen, pad, print_memory, print_modes, print_table

_FIRST = 4  # tensors of a kind, where not all are shown
_WIDEST = 24  # of what is flush in a list; longer ones are not waited for


def print_model(found: Inspected, verbose: bool = True) -> None:
    """Print what `ortbench.features.inspect.worker.inspect` found; of much, where it is not `verbose`, the first."""
    screen = Screen()
    most = len(found["inputs"]) + len(found["outputs"]) if verbose else _FIRST
    screen.text(found["path"], style="heading")
    tensors = [*found["inputs"], *found["outputs"]]
    widths = [min(_WIDEST, max((len(tensor[key]) for tensor in tensors), default=0)) for key in ("name", "type")]
    for kind in ("inputs", "outputs"):
        for number, tensor in enumerate(found[kind][:most]):
            screen.text(_tensor(tensor, widths), label=f"  {kind[:-1] if number == 0 else '':8}")
        if (left := len(found[kind]) - most) > 0:
            screen.text(f"{units.count(left, f'more {kind[:-1]}')}: -v", label=" " * 10)
    sizes = ["unknown" if size is None else units.size(size) for size in (found["bytes_in"], found["bytes_out"])]
    screen.text(f"{sizes[0]} in, {sizes[1]} out per inference", label="  bytes   ")
    if found["not_run"] is not None:
        why = f"not possible, so what only a run tells is not known: {found['not_run']}"
        screen.text(why, label="  run     ", style="unclear")
    if found["guessed_dims"] and found["not_run"] is None:  # which names them too
        guessed = ", ".join(found["guessed_dims"])
        screen.text(f"with {guessed} set to 1 (--dim, --shape)", label=" " * 10, style="unclear")
    operators, opsets, weights = found["operators"], found["opsets"], found["parameters_bytes"]
    if operators is not None and opsets is not None and weights is not None:
        screen.text(f"{sum(operators.values())}: {_count_operators(operators, verbose)}", label="  nodes   ")
        screen.text(", ".join(f"{domain} {version}" for domain, version in opsets.items()), label="  opset   ")
        screen.text(units.size(weights), label="  weights ")
    _print_loop(screen, found.get("loop"), runs=found["not_run"] is None)
    if "placement" in found:
        _print_placement(screen, found, verbose)
    for warning in found.get("warnings", ()):
        screen.text(f"warning: {warning['message']}", label="! ", label_style="unclear")


def _print_loop(screen: Screen, loop: SuggestedLoop | None, runs: bool) -> None:
    if loop is None:
        return
    fed = ", ".join(f"{shorten(out)} → {shorten(into)}" for out, into in loop["patterns"])
    why = "by their names" if loop["sure"] else "maybe: the only pair of one type and shape"
    how = "" if runs else ", with sizes that the model takes (--shape, --dim)"
    screen.text(visible(f"{fed} ({why}); to measure it{how}:"), label="  loop    ")
    screen.command(visible(loop["command"]), label=" " * 10)


def _print_placement(screen: Screen, found: Inspected, verbose: bool) -> None:
    where = found["placement"]
    screen.blank()
    screen.text(f"on {found['ep']}, as nodes are assigned (those of the CPU EP are fused later)", style="heading")
    print_memory(screen, found["memory"], "  memory  ")
    if verbose:
        print_modes(screen, found["modes"], "  modes   ")
    if where["nodes"] is None:
        screen.text("placement is not known: this ONNX Runtime or model format does not report it", label="  ")
        return
    for name, count in where["nodes"].items():
        screen.text(f"node{'' if count == 1 else 's'} on {name}", label=f"  {count:5} ")
    if where["cpu_operators"]:
        screen.text(
            _count_operators(where["cpu_operators"], verbose), label="        on the CPU: ", label_style="unclear"
        )
    memcpy = where["memcpy_nodes"]
    if memcpy != 0 or len(where["nodes"]) > 1:
        screen.text(
            f"Memcpy node{'' if memcpy == 1 else 's'} between them", label=f"  {'?' if memcpy is None else memcpy:>5} "
        )
    copies = found["copies"]
    assert copies is not None  # where the placement is known
    for table in outline(copies) if verbose else ():
        screen.blank()
        screen.text(table.title, style="heading")
        print_table(screen, table)
    for sentence in outlook(copies):
        screen.blank()
        screen.text(sentence)


def _tensor(tensor: Tensor, widths: Sequence[int]) -> str:
    dims = [str(dim) for dim in dims_of(tensor)]
    fixed = all(isinstance(dim, int) for dim in tensor["model_shape"])
    model = ("x".join(dims) if fixed else f"[{', '.join(dims)}]") or "scalar"
    shape = None if tensor["shape"] is None else "x".join(map(str, tensor["shape"])) or "scalar"
    with_sizes = f" as {shape}" if shape is not None and shape != model else ""
    note = f" ({WHY[why]})" if (why := tensor.get("unshaped")) in WHY else ""
    if tensor["type"].startswith(("seq(", "optional(seq(")):
        with_sizes = " each" + (f", {sequence(tensor['tensors'])}" if "tensors" in tensor else "")
    size = f", {units.size(tensor['bytes'])}" if tensor["bytes"] is not None else ""
    return f"{pad(visible(shorten(tensor['name'])), widths[0])}  {pad(tensor['type'], widths[1])}  {model}{with_sizes}{size}{note}"


def _count_operators(operators: dict[str, int], verbose: bool) -> str:
    counted = [name if count == 1 else f"{name} ({count})" for name, count in operators.items()]
    return first_of(counted, len(counted) if verbose else 2 * _FIRST)
