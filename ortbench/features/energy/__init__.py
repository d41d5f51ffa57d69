"""`--measure-energy`: what an inference draws, by the energy counter of its device."""

from ortbench.core.features import Feature, Pass

FEATURE = Feature(
    passes={
        "measure-energy": Pass(
            key="energy",
            order=20,
            help="Measure the energy of an inference, some seconds per mode.",
            text="measuring the idle draw",
            is_forecast=True,
        )
    },
    requests={"run_stretch": "worker"},
)
