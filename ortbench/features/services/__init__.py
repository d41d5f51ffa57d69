"""What services that keep a history read: Bencher, github-action-benchmark, and the summary of a job on GitHub."""

from ortbench.core.features import Feature, Writer

FEATURE = Feature(
    writers={
        "action-json": Writer(
            module="report",
            order=10,
            help="Write JSON for github-action-benchmark (customSmallerIsBetter).",
            by_command={"gate": {"help": "Write the candidate's JSON for github-action-benchmark."}},
        ),
        "bmf": Writer(
            module="report",
            order=20,
            help="Write Bencher's metric format.",
            by_command={"gate": {"help": "Write the candidate's metrics in Bencher's format."}},
        ),
    },
    report_takers={"GITHUB_STEP_SUMMARY": "report"},
)
