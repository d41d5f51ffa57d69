"""JUnit XML: what passed and what did not, as CI systems list it."""

from ortbench.core.features import Feature, Writer

FEATURE = Feature(
    writers={
        "junit": Writer(
            module="report", order=0, help="Write JUnit XML, for CI systems.", common=("gate",), of_errors=True
        )
    }
)
