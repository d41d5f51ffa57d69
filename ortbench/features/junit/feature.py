from ortbench.core.features import Feature, Writer

FEATURE = Feature(
    writers={
        "junit": Writer(
            module="report", place=0, help="Write JUnit XML, for CI systems.", common=("gate",), of_errors=True
        )
    }
)
