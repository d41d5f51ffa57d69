"""`--measure-memory`: what each mode takes of device and host memory, alone in a worker of its own."""

from ortbench.core.features import Feature, Pass

FEATURE = Feature(
    passes={
        "measure-memory": Pass(
            key="memory", order=10, help="Measure the device and host memory of each mode.", is_apart=True
        )
    },
    requests=dict.fromkeys(("forms", "memory", "arenas"), "worker"),
)
