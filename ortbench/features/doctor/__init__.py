"""`ortbench doctor`: what does not work on this machine, and how noisy it is."""

from ortbench.core.features import INSPECT, Command, Feature

FEATURE = Feature(
    needs=("devices",),
    uses=("certificate",),
    commands={
        "doctor": Command(
            group=INSPECT,
            order=0,
            sentence="Check what does not work here, and how noisy this machine is.",
            page="troubleshooting.md#the-machine-ortbench-doctor",
            options={
                "python": {"help": "Check the ONNX Runtime of this interpreter, or environment."},
                "json": {},
                "verbose": {},
            },
        )
    },
    requests={"packages": "worker", "examine": "worker"},
    stateless_requests=("packages", "examine"),
)
