"""The tables of a chain with its stages and links, and what a heading says of it."""

from __future__ import annotations

from ortbench.core import units
from ortbench.core.safe_text import first_of
from ortbench.core.stats import SAMPLES_FOR, percentile
from ortbench.features.chain.analysis import crosses, crossing_ns, stage_text
from ortbench.features.chain.model import LINKED, Chain, ChainLink
from ortbench.model.metrics import TIME
from ortbench.model.modes import THROUGHPUT
from ortbench.model.result import OK, Case, Result
from ortbench.report.case_table import Own
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, columns, drop_empty_columns, interval_text, maybe
from ortbench.report.phrases import hardware_name, with_device

ON_DEVICE = "intermediate tensors stay on the device"
_NAMES = 3  # of stages that a heading has
_STAGE_COLUMNS = (
    Column("stage", Kind.NAME, KEY),
    Column("mode", Kind.WORD, KEY),
    *columns(Kind.TIME, "time", "p95", "p99", group=1),
    Column("95% CI", Kind.TIME, 2),
    Column("steps", Kind.NUMBER, 3),
    Column("on", Kind.WORD, 3),
)
_LINK_COLUMNS = (
    Column("link", Kind.NAME, KEY),
    Column("bytes", Kind.NUMBER, 1),
    Column("with device-resident", Kind.WORD, 1),
    Column("through the host", Kind.NUMBER, 1),
    Column("why", Kind.WORDS, 2),
)
STAYS, COPIED, ON_HOST = "stays", "copied", "in host memory"


def own_columns(result: Result) -> dict[str, Own]:
    """What the table of a chain shows that is not only a figure of the catalogue."""
    return {
        "throughput": Own(lambda case: maybe(case.value(THROUGHPUT), units.rate), header="chains/s"),
        "copied/chain": Own(_copied_per_chain),
    }


def _copied_per_chain(case: Case) -> str:
    known = case.bytes_h2d is not None and case.bytes_d2h is not None
    both = (case.bytes_h2d or 0) + (case.bytes_d2h or 0)
    return units.size(both) if known and both else "0"


def stage_table(result: Result) -> Table:
    """A row for each stage and mode: what the stage takes, up to its synchronization."""
    chain: Chain = result.part
    rows = [
        (stage, case.mode, found)
        for stage in chain["stages"]
        for case in result.cases
        if (found := case.stages.get(stage["name"])) is not None
    ]
    unit, show = TIME.column(stats.median for *_, stats in rows)
    cells = (
        (
            stage["name"],
            mode,
            show(stats.median),
            *(maybe(percentile(stats, it), show) for it in SAMPLES_FOR),
            interval_text(stats.ci95, show),
            str(stage["repeat"]) if stage["repeat"] > 1 else NOTHING,
            with_device(stage, hardware_name(stage["device"], result)).replace("ExecutionProvider", ""),
        )
        for stage, mode, stats in rows
    )
    return drop_empty_columns(Table(_STAGE_COLUMNS, tuple(cells), unit, title="Stages"))


def link_table(result: Result) -> Table:
    """A row for each link: its bytes, whether it stays, and what it costs through the host."""
    chain: Chain = result.part
    case = next((case for case in result.cases if case.mode == LINKED), None)
    is_there = case is not None and case.status == OK
    rows = tuple(_link_row(link, is_there) for link in chain["links"])
    return drop_empty_columns(Table(_LINK_COLUMNS, rows, title="Links"))


def _link_row(link: ChainLink, is_measured: bool) -> tuple[str, ...]:
    state = ON_HOST if not crosses(link) else STAYS if link["stays"] else COPIED
    return (
        f"{link['from']} → {link['to']}",
        units.size(link["bytes"]),
        state if is_measured else NOTHING,
        maybe(crossing_ns(link), units.duration),
        link["why"] or NOTHING,
    )


def further_tables(result: Result) -> list[Table]:
    return [stage_table(result), link_table(result)]


def own_line(result: Result) -> str:
    """A chain: its stages in their order, with how often a loop runs."""
    chain: Chain = result.part
    stages, links = (units.count(len(chain[key]), key[:-1]) for key in ("stages", "links"))
    return f"chain of {stages} and {links}: {', '.join(map(stage_text, chain['stages']))}"


def heading(result: Result) -> str:
    chain: Chain = result.part
    return f"chain of {first_of([*map(stage_text, chain['stages'])], _NAMES)}"
