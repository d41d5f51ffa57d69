"""The modes' classes, and how one is set up by its name."""

from __future__ import annotations

from ortbench.core.errors import BenchmarkFailed
from ortbench.plan.plan import Loop
from ortbench.worker.modes.base import Mode, SingleMode
from ortbench.worker.modes.cpu import CpuMode, CpuPinnedMode
from ortbench.worker.modes.device import AsyncMode, DeviceMode, DevicePinnedMode, ResidentMode
from ortbench.worker.modes.host_accessible import HostAccessibleMode
from ortbench.worker.modes.pipelined import PipelinedMode
from ortbench.worker.session.first_run import Data
from ortbench.worker.session.memory import hinders_runs
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.session import Model

_KINDS: tuple[type[SingleMode], ...] = (
    CpuMode,
    DeviceMode,
    ResidentMode,
    HostAccessibleMode,
    CpuPinnedMode,
    DevicePinnedMode,
    PipelinedMode,
    AsyncMode,
)
CLASSES = {kind.name: kind for kind in _KINDS}


def make_mode(name: str, model: Model, data: Data, depth: int = Loop.depth) -> Mode:
    """Set a mode up. Raises `Unsupported`: the EP or the model cannot do it; `BenchmarkFailed`: the EP offers what it
    takes, and a trial of it failed; `Exception`: whatever ORT raises on the way."""
    kind = CLASSES[name]
    kind.check(model)
    return kind.make(model, data, depth)


def unsupported_reason(name: str, provider: Provider) -> str | None:
    """What an EP lacks for a mode, whatever the model, or what is wrong with it; None if it can do it."""
    try:
        return hinders_runs(provider) or CLASSES[name].lacks(provider)
    except BenchmarkFailed as error:
        return str(error)


def unsupported_modes(provider: Provider) -> dict[str, str | None]:
    return {name: unsupported_reason(name, provider) for name in CLASSES}
