"""The page of results that opens anywhere, and its charts."""

from ortbench.core.features import REPORTED, Feature, Writer

FEATURE = Feature(
    writers={
        "html": Writer(
            module="report.page",
            order=40,
            help="Write the report as HTML; '-' is standard output.",
            commands=(*REPORTED, "compare", "report", "tune"),
            common=("run", "report", "often"),
            by_command={
                "report": {
                    "help": "Write the page here; '-' is standard output.",
                    "shown": "report.html, beside the result or in the folder, or for several in the working directory",
                }
            },
            after_screen=True,
            of_stored="report.html",
        )
    },
    views=dict.fromkeys(("build_page", "first_part_html", "tables_html"), "report.page")
    | dict.fromkeys(("figure_of", "figure_of_several"), "report.parts")
    | {"figure": "report.drawings"},
)
