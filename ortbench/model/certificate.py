"""The certificate of this machine as it is kept, and what makes it stale."""

from __future__ import annotations

from typing import TypedDict

import msgspec

from ortbench.core import __version__
from ortbench.core.files import CERTIFICATE, state_file
from ortbench.model.schema import Certificate, Environment


class CertifiedRun(TypedDict):
    """When a run began, in seconds since 1970, and its medians, ns: of the model, of itself again, and of the slower one."""

    at_s: float
    medians_ns: list[float]


class KeptCertificate(TypedDict):
    """With the machine that it is of, and the runs that the spread between runs follows from: those of earlier certificates, too."""

    machine: dict[str, str]
    certificate: Certificate
    runs: list[CertifiedRun]


def read_certificate() -> KeptCertificate | None:
    """The one that is kept; None where there is none that can be read."""
    try:
        return msgspec.json.decode(state_file(CERTIFICATE).read_bytes(), type=KeptCertificate)
    except (OSError, msgspec.MsgspecError):
        return None


def identify(environment: Environment) -> dict[str, str]:
    """What a certificate holds for: host, kernel, CPU with the cores that may be used, and versions."""
    cpu = ", ".join(f"{key} {value}" for key, value in sorted(environment["cpu"].items()))
    return {
        "host": environment.get("host_id", ""),
        "system": environment.get("os", ""),
        "CPU": cpu,
        "ONNX Runtime": environment["onnxruntime"],
        "ortbench": __version__,
    }


def stale_reasons(kept: KeptCertificate, environment: Environment) -> list[str]:
    """What has changed since it was made, in a few words each; nothing while it holds."""
    now, then = identify(environment), kept["machine"]
    return [f"{what}: {then.get(what)} → {now[what]}" for what in now if then.get(what) != now[what]]
