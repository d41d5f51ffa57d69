from ortbench.core.features import Feature, Pass

FEATURE = Feature(
    passes={
        "measure-energy": Pass(
            key="energy",
            help="Measure the energy of an inference, some seconds per mode.",
            text="measuring the idle draw",
        )
    },
    requests={"run_stretch": "worker"},
)
