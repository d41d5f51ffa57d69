"""Made-up results of chains, for tests of what is said about them."""

from __future__ import annotations

from ortbench.analysis.derive import derive
from ortbench.result import Result
from ortbench.schema import ChainLink, ChainStage, Memory
from tests.results import MS, US, measured, result_of, steady

DEVICE: Memory = {"kind": "ep-device", "default": "Mem (DEFAULT)", "host_accessible": None}
HOST: Memory = {"kind": "host", "default": "host memory", "host_accessible": None}


def stage(name: str, repeat: int = 1, memory: Memory = DEVICE) -> ChainStage:
    ep = "CPUExecutionProvider" if memory is HOST else "SomeExecutionProvider"
    return {
        "name": name, "model": f"{name}.onnx", "sha256": "b" * 64, "ep": ep, "ep_version": "1.0",
        "device": {"type": "GPU", "vendor": "Some", "vendor_id": 1, "device_id": 2}, "memory": memory, "repeat": repeat,
        "feedback": [["out", "in"]] if repeat > 1 else [], "keep": [], "session_ns": 1, "first_run_ns": 1, "settings": {},
    }  # fmt: skip


def link(source: str, to: str, size: int, why: str | None = None, crossings: tuple[int, int] = (1, 1)) -> ChainLink:
    return {
        "from": source, "to": to, "bytes": size, "stays": why is None, "why": why, "memory": "Mem (DEFAULT)",
        "downloads": crossings[0], "uploads": crossings[1], "download_ns": 30 * US, "upload_ns": 20 * US,
    }  # fmt: skip


def chain(
    *links: ChainLink,
    resident_ms: tuple[float, float] = (1, 5),
    stages: tuple[ChainStage, ...] = (),
    rounds: int = 6,
    run_id: str | None = None,
) -> Result:
    """Two stages, of 2 ms and 8 ms with cpu, in blocks of three chains."""
    cpu = measured("cpu", total=steady([10 * MS] * rounds))
    resident = measured("device-resident", total=steady([round(sum(resident_ms) * MS)] * rounds))
    for case, parts in ((cpu, (2.0, 8.0)), (resident, resident_ms)):
        case.samples_ns["stage"] = [round(ms * MS) for ms in parts] * 3 * rounds
        case.blocks["stage"] = [[number, 6, 0] for number in range(rounds)]
        case.phases["inference"] = None
        case.bytes_in, case.bytes_out, case.outputs_match = 3000, 4000, True
        case.stage_bytes = {"text": {"bytes_in": 1000, "bytes_out": 0}, "image": {"bytes_in": 2000, "bytes_out": 4000}}
    resident.bytes_in = 0
    result = result_of(cpu, resident, run_id=run_id)
    result.kind = "chain"
    result.chain = {"stages": list(stages or (stage("text"), stage("image", 4))), "links": list(links)}
    derive(result)
    return result


STAYING = link("text.condition", "image.condition", 64_000, crossings=(1, 4))
CROSSING = link("text.mask", "image.mask", 8, "text has it in host memory, image wants it in Mem (DEFAULT)", (0, 1))
