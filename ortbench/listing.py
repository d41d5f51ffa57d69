"""The lists that `ortbench devices` and `ortbench inspect` print."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from ortbench import units


def print_devices(found: dict[str, Any]) -> None:
    """Print what `ortbench.runtime.devices.list_devices` found, an EP a paragraph."""
    console = _console()
    runtime = found["runtime"]
    console.print(Text(f"ONNX Runtime {runtime['onnxruntime']}, Python {runtime['python']}"))
    for ep in found["eps"]:
        console.print()
        package = f" from {ep['package']}" if ep["package"] else ""
        console.print(Text(f"{ep['name']} {ep['version'] or ''}{package}".rstrip(), style="bold"))
        if ep["library"]:
            console.print(Text(f"  library  {ep['library']}"))
        if ep["problem"]:
            console.print(Text(f"  does not load: {ep['problem']}", style="red"))
        elif not ep["devices"]:
            console.print(Text("  finds no device it can use on this machine", style="yellow"))
        for index, device in enumerate(ep["devices"]):
            _print_device(console, index, device)


def _print_device(console: Console, index: int, device: dict[str, Any]) -> None:
    hardware, memory, streams = device["hardware"], device["memory"], device["streams"]
    vendor = hardware["vendor"] or "vendor"
    ids = f"{vendor} 0x{hardware['vendor_id']:04x}, device 0x{hardware['device_id']:04x}"
    details = "".join(f", {key}={value}" for key, value in hardware["metadata"].items())
    console.print(Text(f"  device {index}  {hardware['type']} {ids}{details}"))
    if memory["kind"] == "host":
        console.print(Text(f"    memory   {memory['default']}"))
    else:
        default, shared = memory["default"] or "no DEFAULT", memory["host_accessible"] or "no HOST_ACCESSIBLE"
        console.print(Text(f"    memory   {default}; {shared}"))
    console.print(Text(f"    streams  {'yes' if streams['offered'] else 'no: ' + streams['why']}"))
    can = [mode for mode, why in device["modes"].items() if why is None]
    cannot = [f"{mode}: {why}" for mode, why in device["modes"].items() if why is not None]
    console.print(Text(f"    modes    {', '.join(can)}" + (f" (not {'; '.join(cannot)})" if cannot else "")))


def print_model(found: dict[str, Any]) -> None:
    """Print what `ortbench.runtime.inspection.inspect_model` found."""
    console = _console()
    console.print(Text(found["path"], style="bold"))
    for kind in ("inputs", "outputs"):
        for number, tensor in enumerate(found[kind]):
            console.print(Text(f"  {kind[:-1] if number == 0 else '':7} {_tensor(tensor)}"))
    total = [found["bytes_in"], found["bytes_out"]]
    sizes = ["unknown" if size is None else units.size(size) for size in total]
    console.print(Text(f"  bytes   {sizes[0]} in, {sizes[1]} out per inference"))
    if found["guessed_dims"]:
        console.print(
            Text(f"          with {', '.join(found['guessed_dims'])} set to 1 (--dim, --shape)", style="yellow")
        )
    if found["operators"] is not None:
        count = sum(found["operators"].values())
        listed = ", ".join(_counted(name, number) for name, number in found["operators"].items())
        opsets = ", ".join(f"{domain} {version}" for domain, version in found["opsets"].items())
        console.print(Text(f"  nodes   {count}: {listed}"))
        console.print(Text(f"  opset   {opsets}"))
        console.print(Text(f"  weights {units.size(found['parameters_bytes'])}"))
    if "placement" in found:
        _print_placement(console, found)


def _print_placement(console: Console, found: dict[str, Any]) -> None:
    where = found["placement"]
    console.print(Text(f"\non {found['ep']}, after graph optimisation", style="bold"))
    if where["nodes"] is None:
        console.print(Text("  placement is not known: this ONNX Runtime or model format does not report it"))
        return
    for name, count in where["nodes"].items():
        console.print(Text(f"  {count:5} node(s) on {name}"))
    if where["cpu_operators"]:
        listed = ", ".join(_counted(name, number) for name, number in where["cpu_operators"].items())
        console.print(Text(f"        on the CPU: {listed}", style="yellow"))
    memcpy = where["memcpy_nodes"]
    console.print(Text(f"  {'?' if memcpy is None else memcpy:>5} Memcpy node(s) between them"))


def _tensor(tensor: dict[str, Any]) -> str:
    model = "x".join("?" if dim is None else str(dim) for dim in tensor["model_shape"]) or "scalar"
    shape = None if tensor["shape"] is None else "x".join(map(str, tensor["shape"])) or "scalar"
    with_sizes = f" as {shape}" if shape is not None and shape != model else ""
    size = f", {units.size(tensor['bytes'])}" if tensor["bytes"] is not None else ""
    return f"{tensor['name']}  {tensor['type']}  {model}{with_sizes}{size}"


def _counted(name: str, count: int) -> str:
    return name if count == 1 else f"{name} ({count})"


def _console() -> Console:
    return Console(file=sys.stdout, highlight=False)
