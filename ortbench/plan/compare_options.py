"""What of results is compared: the options that say so. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ortbench.core.errors import BadInput
from ortbench.model.metric_names import MetricName, parse_metric
from ortbench.model.metrics import METRICS as METRICS_KNOWN
from ortbench.model.metrics import Group
from ortbench.model.modes import ALL_MODES, EVERY, named_modes, no_such
from ortbench.plan.option_types import FLAG, SHARE, TEXTS, Entries, OptionType, finite, parse_share, table_of
from ortbench.plan.options import COMPARED as PANEL
from ortbench.plan.options import LIMIT, RawOptions, new_option
from ortbench.plan.plan import SAME


def _metrics(given: Sequence[str], option: str) -> tuple[MetricName, ...]:
    return tuple(parse_metric(text, option) for text in given)


METRICS: OptionType = TEXTS._replace(example='"device-tensors.latency.median" or a list', parse=_metrics)


def _figure(name: str, text: str, option: str) -> float:
    if name not in _OF_OUTPUTS:
        raise BadInput(f"{option} {name}: choose from {', '.join(_OF_OUTPUTS)}", option)
    if name == _TOP1:
        return parse_share(text, f"{option} {name}")
    value = finite(text)
    if math.isnan(value):
        raise BadInput(f"{option} {name}={text}: write a number, such as {option} outputs.sqnr=30", option)
    return value


def _figure_text(name: str, value: Any, option: str) -> str:
    if not isinstance(value, (int, float, str)) or isinstance(value, bool):
        raise BadInput("must be a number")
    return str(value)


_TOP1 = "outputs.top1"
_OF_OUTPUTS = tuple(it.key for it in METRICS_KNOWN.values() if it.group is Group.OUTPUTS)
FIGURES = table_of(Entries("METRIC=X", _figure, _figure_text), '{"outputs.sqnr" = 30}', "float | str")
_SAME = new_option(
    "equivalence-margin",
    "P",
    "Call differences up to this the same.",
    PANEL,
    SHARE,
    default=SAME,
    commands=("compare",),
    is_in_suites=False,
)
FORCE = (
    new_option(
        "force",
        "",
        "Compare results that are not comparable, and say why not.",
        LIMIT,
        FLAG,
        commands=("gate", "compare"),
        by_command={
            "compare": {"panel": PANEL},
        },
    ),
)
COMPARED = (
    new_option(
        "metric",
        "M",
        "Compare a metric: h2d, latency.p99, throughput@concurrency=4.",
        PANEL,
        METRICS,
        shown="those that matter",
        commands=("compare",),
        is_in_suites=False,
    ),
    _SAME,
    FORCE,
)


class Compared(NamedTuple):
    """Which modes and metrics, empty for the usual ones, and up to which share two are called the same."""

    modes: tuple[str, ...]
    metrics: tuple[MetricName, ...]
    same: float


def compared_of(given: RawOptions) -> Compared:
    """What options say of it; `BadInput`: a mode or a metric that there is not, or no share."""
    names = given.get("mode", ())
    modes = () if not names or EVERY in names else named_modes(names, ALL_MODES)
    for name in modes:
        if name not in ALL_MODES:
            raise BadInput(f"--mode {no_such(name)}", "--mode")
    metrics = given.get("metric", ())
    for metric in metrics:
        if metric.best:
            raise BadInput(f"--metric {metric.text}: only a gate compares the best points", "--metric")
    return Compared(modes, metrics, given.get(_SAME.flag, SHARE.parse(SAME, _SAME.name)))
