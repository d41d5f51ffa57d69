"""The timeline of a run, for Perfetto and chrome://tracing."""

from ortbench.core.features import Feature, Writer

FEATURE = Feature(
    writers={
        "trace": Writer(
            module="report",
            order=30,
            help="Write a timeline for Perfetto and chrome://tracing (or .gz).",
            commands=("run", "traced"),
            after_screen=True,
            to_stdout=False,
            of_timelines=True,
            message="Timeline in {path}; open it at ui.perfetto.dev or in chrome://tracing",
        )
    }
)
