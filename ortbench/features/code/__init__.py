"""`ortbench code`: the program that runs a model in a mode, in plain onnxruntime and numpy: the way from a finding to a fix."""

from ortbench.core.features import EXPORT, Command, Feature

DURATION_S = 2.0  # for which a program measures

FEATURE = Feature(
    uses=("loop",),
    commands={
        "code": Command(
            group=EXPORT,
            order=0,
            sentence="Print the program that runs a model in a mode.",
            page="code.md",
            option_groups=("opened", "often"),
            from_inputs=True,
            input_suffix=".npz",
            options={
                "dynamic-outputs": {},
                "input-memory": {},
                "cuda-graph": {},
                "depth": {},
                "input": {"help": "Read inputs: an .npz whose keys are their names."},
                "sequence-tensors": {},
                "seed": {"help": "Seed synthetic inputs."},
                "rtol": {},
                "atol": {},
                "duration": {"default": DURATION_S, "help": "Make the program measure for TIME."},
                "feedback": {"common": ("code",)},
                "steps": {"common": ("code",)},
                "first-dim": {},
                "fill": {},
                "keep": {},
                "resident": {},
            },
        )
    },
    requests={"program": "worker"},
    options={"MODE": ("code",)},
)
