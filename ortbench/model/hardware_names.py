"""What hardware is called by its vendor. Pure."""

from __future__ import annotations

from ortbench.core.eps import is_nvidia
from ortbench.model.schema import Device, EpOfSession, Provider

NVIDIA = 0x10DE
# Of those whose devices ONNX Runtime knows: `OrtDevice::VendorIds` in its include/onnxruntime/core/framework/ortdevice.h,
# which are PCI's numbers but for Qualcomm's. NVIDIA's EP gives the number and leaves the name empty.
_VENDORS = {
    NVIDIA: "NVIDIA", 0x1002: "AMD", 0x8086: "Intel", 0x13B5: "Arm", 0x1414: "Microsoft", 0x5143: "Qualcomm",
    0x19E5: "Huawei",
}  # fmt: skip


def vendor_name(device: Device) -> str:
    """The vendor as the device names it, else by its number; "" where neither is known."""
    return device.get("vendor") or _VENDORS.get(device.get("vendor_id", 0), "")


def kind(device: Device) -> str:
    """Type and vendor, for example ``GPU NVIDIA``."""
    return f"{device['type']} {vendor_name(device)}".rstrip()


def is_on_nvidia(it: Provider | EpOfSession) -> bool:
    """Whether an EP's device is one of NVIDIA's GPUs; where the EP offers no EP device, by its name."""
    device = it["device"]
    of_nvidia = device["vendor_id"] == NVIDIA if "vendor_id" in device else is_nvidia(it["ep"])
    return of_nvidia and device["type"] == "GPU"
