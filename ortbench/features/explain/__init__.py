"""`ortbench explain`: what the words of reports and commands mean."""

from ortbench.core.features import INSPECT, Command, Feature

FEATURE = Feature(
    commands={
        "explain": Command(
            group=INSPECT,
            order=30,
            sentence="Explain the words of a report: columns, verdicts, warnings.",
            page="command-line.md#on-the-terminal",
        )
    },
)
