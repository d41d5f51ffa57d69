"""Models one after the other: what their links cost."""

from ortbench.core.features import MEASURE, Command, Feature

FEATURE = Feature(
    needs=("loop",),
    uses=("memory", "page"),
    api=("chain",),
    requests={"open_chain": "worker"},
    commands={
        "chain": Command(
            group=MEASURE,
            order=30,
            sentence="Measure models one after the other: what their links cost.",
            page="chains.md",
            option_groups=("chained", "often", "measures", "reported", "traced"),
            options={
                **{it: {} for it in ("python", "strict-outputs", "duration", "precision", "processes")},
                **{it: {} for it in ("measure-energy", "lock-clocks")},
                "mode": {
                    "help": "Measure these I/O modes: cpu-tensors, device-resident, all or default.",
                    "shown": "both",
                    "choices": ["cpu-tensors", "device-resident"],
                },
                "expect": {"help": "Compare outputs with these: an .npz with keys STAGE/NAME.", "common": ("chain",)},
                "warmup": {"help": "Warm each mode up with N chains."},
                "iterations": {"help": "Measure N chains of each mode instead of --duration.", "common": ("chain",)},
                "measure-memory": {"common": ("chain",)},
                "junit": {"common": ("chain",)},
            },
        )
    },
    options={"IN_GATES": ("gate",)},
    candidates={"chain": "toml"},
)
