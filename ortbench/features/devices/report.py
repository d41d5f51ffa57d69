"""The lists that `ortbench devices` prints."""

from __future__ import annotations

from collections import Counter

from ortbench.core.eps import NO_DEVICE
from ortbench.core.safe_text import visible
from ortbench.features.devices.model import Listed
from ortbench.model.protocol import EpDevice, ListedEp
from ortbench.model.schema import vendor_name
from ortbench.report.terminal import Screen, print_memory, print_modes


def print_devices(found: Listed, verbose: bool = True) -> None:
    """Print what `ortbench.features.devices.worker.devices` found: an EP a line, or a paragraph."""
    screen = Screen()
    runtime = found["runtime"]
    screen.text(f"ONNX Runtime {runtime['onnxruntime']}, Python {runtime['python']}")
    for warning in found.get("warnings", ()):
        screen.text(warning["message"], label="warning: ", label_style="bad")
    if verbose:
        for label, is_there in (("  its API has    ", True), ("  its API lacks  ", False)):
            listed = [
                ability["what"] + ("" if is_there else f" (from {ability['since']} on)")
                for ability in found["abilities"]
                if ability["there"] == is_there
            ]
            if listed:
                screen.text("; ".join(listed), label=label)
        for ep in found["eps"]:
            screen.blank()
            _print_details(screen, ep)
        return
    screen.blank()
    for ep in found["eps"]:
        if ep["problem"]:
            screen.text(f"{_name(ep)} does not load: {ep['problem']}", label="✗ ", label_style="bad")
        elif not ep["devices"]:
            screen.text(f"{_name(ep)} {NO_DEVICE}", label="– ", label_style="unclear")
        for number, device in enumerate(ep["devices"]):
            where = f", device {number}" if len(ep["devices"]) > 1 else ""
            screen.text(f"{_name(ep)}{where}: {_hardware(device)}", label="✓ ", label_style="good")
    screen.blank()
    screen.text("-v prints libraries, memory and modes.")


def _print_details(screen: Screen, ep: ListedEp) -> None:
    package = f" from {ep['package']}" if ep["package"] else ""
    screen.text(f"{_name(ep)}{package}", style="heading")
    if ep["library"]:
        screen.text(ep["library"], label="  library  ")
    if ep["problem"]:
        screen.text(ep["problem"], label="  does not load: ", label_style="bad")
    elif not ep["devices"]:
        screen.text(NO_DEVICE, label="  ", style="unclear")
    for number, device in enumerate(ep["devices"]):
        memory, streams = device["memory"], device["streams"]
        screen.text(_hardware(device), label=f"  device {number}  ")
        print_memory(screen, memory, "    memory   ")
        screen.text("yes" if streams["offered"] else f"no: {streams['why']}", label="    streams  ")
        print_modes(screen, device["modes"], "    modes    ")


def print_checks(found: Listed) -> None:
    """Print what `ortbench.features.devices.job.check_library` found, a device a paragraph."""
    screen = Screen()
    devices = [(ep, number) for ep in found["eps"] for number in range(len(ep["devices"]))]
    total: Counter[str] = Counter()
    for (ep, number), checks in zip(devices, found["checks"], strict=True):
        screen.text(f"{_name(ep)} device {number}: {_hardware(ep['devices'][number])}", style="heading")
        for check in checks:
            style = {"passed": "good", "failed": "bad"}.get(check["verdict"], "unclear")
            label = f"  {check['verdict']:11}  {check['part']:8}  "
            screen.text(
                visible(check["what"] + (f": {check['how']}" if check["how"] else "")), label=label, label_style=style
            )
        total.update(it["verdict"] for it in checks)
        screen.blank()
    screen.text(", ".join(f"{total[verdict]} {verdict}" for verdict in ("passed", "failed", "not offered")))


def _name(ep: ListedEp) -> str:
    return f"{ep['name']} {ep['version'] or ''}".rstrip()


def _hardware(device: EpDevice) -> str:
    hardware = device["hardware"]
    if "vendor_id" not in hardware:
        on_host = device["memory"]["kind"] == "host"
        where = "the CPU, unless its options say otherwise" if on_host else "what it computes on is its own choice"
        return f"no EP device: ONNX Runtime knows the EP by its name alone; {where}"
    vendor = vendor_name(hardware) or "vendor"
    ids = f"{vendor} 0x{hardware['vendor_id']:04x}, device 0x{hardware['device_id']:04x}"
    details = "".join(f", {key}={value}" for key, value in hardware["metadata"].items())
    return f"{hardware['type']} {ids}{details}"
