"""`ortbench bandwidth`: how fast tensors are copied between host and device, over sizes."""

from ortbench.core.features import MEASURE, Command, Feature

FILE_NAME = "bandwidth.json"
_REQUESTS = ("bandwidth_open", "bandwidth_add", "bandwidth_prove", "bandwidth_block", "bandwidth_finish")
_OPTIONS = ("ep", "ep-library", "device", "python", "timeout", "wait-quiet", "require-quiet")
FEATURE = Feature(
    commands={
        "bandwidth": Command(
            group=MEASURE,
            order=80,
            sentence="Measure how fast tensors are copied to and from a device.",
            page="copies.md#measure-copies-over-sizes",
            option_groups=("measures",),
            options={it: {} for it in _OPTIONS},
        )
    },
    options={"CopyPlan": ("bandwidth",), "OF_RUNS": ("run",)},
    uses=("page",),
    api=("bandwidth", "Bandwidth"),
    when_open="plan",
    requests=dict.fromkeys(_REQUESTS, "worker"),
)
