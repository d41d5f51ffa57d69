"""What `ortbench doctor` finds out about a machine, as plain data: what is not there, or cannot be asked, is None or left out."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from ortbench.features.devices.model import Listed
from ortbench.model.protocol import Memory, Packages
from ortbench.model.schema import Certificate, MachineNoise


class CudaLibrary(TypedDict):
    """A library of CUDA or cuDNN by the file name that ONNX Runtime asks for."""

    name: str
    found: list[str]  # the files of that name, in the order of the folders in which they are looked for
    loaded: str | None  # the one in the worker's process, or None
    others: list[str]  # files of the same library in other major versions


class Cuda(TypedDict):
    """What ONNX Runtime was built for, and the versions that are loaded; versions are such as ``13.0``."""

    built_for: str
    runtime: str | None
    cudnn: str | None
    libraries: list[CudaLibrary]


class Installed(Listed):
    """EPs and versions; the package that was installed last into the module, and CUDA where it was built for it."""

    package: str | None
    cuda: Cuda | None


class Cpu(TypedDict):
    model: str  # its name
    cores: int | None  # that there are
    usable: int | None  # that this process may run on
    limit: float | None  # cores' worth of time that a container may take, or None
    governors: dict[str, int]  # of how many cores the frequency governor is which
    turbo: bool | None  # whether clocks may go beyond the nominal one
    last_second: MachineNoise | None  # what others did in it


class CardProcess(TypedDict):
    """A process on a card; its memory in bytes."""

    pid: int
    name: str | None
    memory_bytes: int | None


class Card(TypedDict, total=False):
    """An NVIDIA card by NVML: clocks in MHz, power in W; ``slowed_by``: why it is slower than it could be, in words."""

    error: str
    name: str
    persistence: bool
    sm_mhz: int
    sm_mhz_max: int
    memory_mhz: int
    memory_mhz_max: int
    power_limit_w: float
    power_default_w: float
    busy: float
    slowed_by: list[str]
    processes: list[CardProcess]


class Nvidia(TypedDict):
    """NVIDIA's cards: whether the machine has any, its driver, the newest CUDA that the driver takes, and each by NVML."""

    present: bool
    driver: str | None
    cuda: str | None
    cards: list[Card]


class Profiler(TypedDict):
    """Nsight Systems and the package nvtx: versions, None for what is not there; ``problem``: why nsys tells none."""

    nsys: str | None
    nvtx: str | None
    problem: str | None


class Noise(TypedDict):
    """Two identical lanes in turns: the ratio of their times with its 95 % interval, and of how many pairs of
    blocks."""

    problem: str | None  # why it could not be measured, or None
    seconds: float  # for which each lane was measured
    pairs: NotRequired[int]
    median_ns: NotRequired[int]
    ratio: NotRequired[float]
    ci95: NotRequired[tuple[float, float] | None]
    machine: NotRequired[MachineNoise | None]  # what others did meanwhile


class Facts(TypedDict):
    system: str
    packages: Packages
    installed: Installed | None
    problem: str | None  # why ONNX Runtime does not load, or None
    cpu: Cpu
    memory: Memory | None  # where the system does not tell
    nvidia: Nvidia
    profiler: Profiler
    noise: Noise | None  # None where it was not to be measured, or that was interrupted
    certificate: NotRequired[Certificate]
    stale: NotRequired[list[str]]  # what has changed since the certificate was made, so that it is not used
