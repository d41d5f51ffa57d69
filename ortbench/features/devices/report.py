"""The lists that `ortbench devices` prints."""

from __future__ import annotations

from collections import Counter

from ortbench.core.ep_names import NO_DEVICE
from ortbench.core.safe_text import visible
from ortbench.model.hardware_names import vendor_name
from ortbench.model.protocol import EpDevice, Listed, ListedEp
from ortbench.model.schema import Device
from ortbench.report.terminal.console import Screen
from ortbench.report.terminal.ep_lines import print_memory, print_modes


def print_devices(found: Listed, verbose: bool = True) -> None:
    """Print what `ortbench.features.devices.worker.devices` found: an EP a line, or a paragraph."""
    screen = Screen()
    runtime = found["runtime"]
    screen.text(f"ONNX Runtime {runtime['onnxruntime']}, Python {runtime['python']}")
    for warning in found.get("warnings", ()):
        screen.text(warning["message"], label="warning: ", label_style="bad")
    if not verbose:
        screen.blank()
        for ep in found["eps"]:
            _print_ep(screen, ep)
        screen.blank()
        screen.text("-v prints libraries, memory and modes.")
        return
    for label, there in (("  its API has    ", True), ("  its API lacks  ", False)):
        listed = [
            it["what"] + ("" if there else f" (from {it['since']} on)")
            for it in found["abilities"]
            if it["there"] == there
        ]
        if listed:
            screen.text("; ".join(listed), label=label)
    for ep in found["eps"]:
        screen.blank()
        package = f" from {ep['package']}" if ep["package"] else ""
        screen.text(f"{ep['name']} {ep['version'] or ''}{package}".rstrip(), style="heading")
        if ep["library"]:
            screen.text(ep["library"], label="  library  ")
        if ep["problem"]:
            screen.text(ep["problem"], label="  does not load: ", label_style="bad")
        elif not ep["devices"]:
            screen.text(NO_DEVICE, label="  ", style="unclear")
        for index, device in enumerate(ep["devices"]):
            _print_device(screen, index, device)


def _print_ep(screen: Screen, ep: ListedEp) -> None:
    name = f"{ep['name']} {ep['version'] or ''}".rstrip()
    if ep["problem"]:
        screen.text(f"{name} does not load: {ep['problem']}", label="✗ ", label_style="bad")
    elif not ep["devices"]:
        screen.text(f"{name} {NO_DEVICE}", label="– ", label_style="unclear")
    for number, device in enumerate(ep["devices"]):
        on_host = device["memory"]["kind"] == "host"
        where = f", device {number}" if len(ep["devices"]) > 1 else ""
        screen.text(f"{name}{where}: {_hardware(device['hardware'], on_host)}", label="✓ ", label_style="good")


def print_checks(found: Listed) -> None:
    """Print what `ortbench.features.devices.job.check_library` found, a device a paragraph."""
    screen = Screen()
    devices = [(ep, number) for ep in found["eps"] for number in range(len(ep["devices"]))]
    total: Counter[str] = Counter()
    for (ep, number), checks in zip(devices, found["checks"], strict=True):
        hardware = ep["devices"][number]["hardware"]
        screen.text(
            f"{ep['name']} {ep['version'] or ''} device {number}: {_hardware(hardware, False)}", style="heading"
        )
        for it in checks:
            style = {"passed": "good", "failed": "bad"}.get(it["verdict"], "unclear")
            label = f"  {it['verdict']:11}  {it['part']:8}  "
            screen.text(visible(it["what"] + (f": {it['how']}" if it["how"] else "")), label=label, label_style=style)
        total.update(it["verdict"] for it in checks)
        screen.blank()
    screen.text(", ".join(f"{total[verdict]} {verdict}" for verdict in ("passed", "failed", "not offered")))


def _print_device(screen: Screen, index: int, device: EpDevice) -> None:
    hardware, memory, streams = device["hardware"], device["memory"], device["streams"]
    screen.text(_hardware(hardware, memory["kind"] == "host"), label=f"  device {index}  ")
    print_memory(screen, memory, "    memory   ")
    screen.text("yes" if streams["offered"] else f"no: {streams['why']}", label="    streams  ")
    print_modes(screen, device["modes"], "    modes    ")


def _hardware(hardware: Device, on_host: bool) -> str:
    if "vendor_id" not in hardware:
        where = "the CPU, unless its options say otherwise" if on_host else "what it computes on is its own choice"
        return f"no EP device: ONNX Runtime knows the EP by its name alone; {where}"
    vendor = vendor_name(hardware) or "vendor"
    ids = f"{vendor} 0x{hardware['vendor_id']:04x}, device 0x{hardware['device_id']:04x}"
    details = "".join(f", {key}={value}" for key, value in hardware["metadata"].items())
    return f"{hardware['type']} {ids}{details}"
