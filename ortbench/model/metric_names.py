"""The names of metrics in gates, for every kind of measurement: ``[MODE.]METRIC[.STATISTIC][@AXIS=VALUE,AXIS=VALUE…]``.

::

    name      = what [ "@" ( place { "," place } | "best" ) ] ;
    what      = mode | [ mode "." ] ( metric [ "." statistic ] | statistic ) ;
    metric    = key | family "." label ;
    place     = label "=" label ;
    label     = plain | '"' { character | '""' } '"' ;

``key`` and ``family`` are those of the catalogue (`ortbench.model.metrics`): ``latency``, ``outputs.sqnr``, ``stage``. A label is the
name of a stage, a link or an axis, or a value. It needs double quotes where it holds ``,``, ``=``, ``@``, ``"`` or, before the ``@``,
a dot, and where a value is a text that looks like a number; in quotes ``""`` stands for one ``"``. Examples::

    latency
    p95
    cpu-tensors
    cpu-tensors.latency.median
    device-tensors.h2d.min
    stage.text.p99
    stage."image.encoder".p95
    device-resident.latency.p99@rate=30
    throughput@concurrency=4
    latency@batch=8,sequence=128
    latency@input.0=1
    latency@"a,b"=1
    item_throughput@best
    cpu-tensors.device_memory
    cpu-tensors.page_faults
    outputs.sqnr
    start.ready
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ortbench.core.errors import BadInput
from ortbench.core.stats import SAMPLES_FOR, Stats
from ortbench.core.units import duration
from ortbench.model.kinds import axes
from ortbench.model.metrics import FAMILIES, GATED, LATENCY, METRICS, NAME, Metric, metric
from ortbench.model.modes import ALL_MODES

AxisValue = int | float | str
BEST, OF_BEST = "best", "item_throughput"
_ALSO = {"p50": "median"}  # statistics by another name
_QUOTED = r'"(?:[^"]|"")*"'
_NUMBER = re.compile(r"-?(?:[0-9]{1,18}|[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)")


class MetricName(NamedTuple):
    mode: str | None  # of one mode; None for all, and of a metric without modes
    metric: str  # its key in the catalogue
    statistic: str = ""  # of its samples; "" of one number
    point: tuple[tuple[str, AxisValue], ...] = ()  # values of axes; a case fits that has all of them
    best: bool = False  # of the best point of each result

    @property
    def text(self) -> str:
        """As it is written in full, which gives the same again."""
        key = self.metric
        family, dot, label = key.partition(".")
        if dot and key not in METRICS:
            key = f"{family}.{_quote(label)}"
        point = BEST if self.best else ",".join(f"{_quote(axis)}={_quoted_value(it)}" for axis, it in self.point)
        return ".".join(filter(None, (self.mode, key, self.statistic))) + (f"@{point}" if point else "")

    def matches_point(self, point: Mapping[str, AxisValue]) -> bool:
        return all(axis in point and point[axis] == value for axis, value in self.point)


def parse_metric(text: str, option: str = "--metric") -> MetricName:
    """The metric that a text names; see the module; `BadInput`: it names none, or a part does not fit."""
    try:
        what, *points = _split(text, "@")
        if len(points) > 1:
            raise ValueError('it has more than one @; write a label that holds one in double quotes: "a@b"')
        mode, found, statistic = _parse_name(_split(what, "."))
        best = bool(points) and points[0].strip() == BEST
        if best and found.key != OF_BEST:
            raise ValueError(
                f"@{BEST} can be another point in each result, which only {OF_BEST} allows: {OF_BEST}@{BEST}"
            )
        point = () if best or not points else _point(_split(points[0], ","))
    except ValueError as error:
        raise BadInput(f"{option} {text!r}: {error}", option) from None
    return MetricName(mode, found.key, statistic, point, best)


def _parse_name(parts: Sequence[str]) -> tuple[str | None, Metric, str]:
    """Mode, metric and statistic from the parts before the @."""
    rest = [part.strip() for part in parts]
    mode = rest.pop(0) if rest[0] in ALL_MODES else None
    found = METRICS[LATENCY]
    if rest and rest[0] in FAMILIES:
        family = rest.pop(0)
        label = _label(rest.pop(0)) if rest else ""
        if not label:
            raise ValueError(f"{family} needs a name: {family}.{NAME}")
        found = metric(f"{family}.{label}")
    elif (key := ".".join(rest[:2])) in METRICS or (key := rest[0] if rest else "") in METRICS:
        found = METRICS[key]
        del rest[: key.count(".") + 1]
    elif rest and not _is_statistic(rest[0]):
        raise ValueError(_unknown(rest[0], mode, f"{rest[0]}.{rest[1]}" if rest[1:] else rest[0]))
    if mode is not None and not found.of_mode:
        raise ValueError(f"{found.key} is of the whole run and has no mode: {found.key}")
    return mode, found, _statistic(found, rest)


def _is_statistic(part: str) -> bool:
    return part in GATED or part in _ALSO


def _statistic(found: Metric, rest: Sequence[str]) -> str:
    """What stands behind a metric: nothing, or one of its statistics."""
    if not rest:
        return found.usual
    if rest[0] in ALL_MODES:
        raise ValueError(f"the mode comes first: {rest[0]}.{found.key}")
    key = found.key
    family, _, label = key.partition(".")
    if family in FAMILIES and not _is_statistic(rest[0]):
        dotted = _quote(".".join((label, rest[0])))
        raise ValueError(f"{rest[0]!r} does not fit behind {key}; a name with a dot needs quotes: '{family}.{dotted}'")
    if not found.sampled:
        raise ValueError(f"{key} is one number and has no statistics, so {rest[0]!r} does not fit; write {key}")
    if not _is_statistic(rest[0]):
        near = "".join(f" (did you mean {it}?)" for it in _nearest(rest[0], GATED)[:1])
        raise ValueError(f"{key} has no statistic {rest[0]!r}{near}; there are {', '.join(GATED)}")
    if rest[1:]:
        raise ValueError(f"{rest[1]!r} does not fit behind a statistic; write {key}.{rest[0]}")
    return _ALSO.get(rest[0], rest[0])


def _unknown(part: str, mode: str | None, longer: str) -> str:
    """What to say of a part that is no metric, and no mode where it could be one."""
    called = {also.lower(): it.key for it in METRICS.values() for also in it.also}
    names = [*(() if mode else ALL_MODES), *METRICS, *FAMILIES, *GATED]
    near = [called[part.lower()]] if part.lower() in called else _nearest(part, names)
    dotted = [name for name in _nearest(longer, names) if "." in name] if "." in longer else []
    near = dotted[:1] if len(near) > 1 and dotted else near
    near = near or [name for name in names if part and name.startswith(part)][:2] or _nearest(longer, names)
    what = "metric" if mode else "mode, metric or statistic"
    return f"there is no {what} {part!r}; " + (
        f"did you mean {' or '.join(near)}?"
        if near
        else "write one such as latency, latency.p95 or cpu-tensors.throughput"
    )


def _nearest(word: str, names: Iterable[str]) -> list[str]:
    from difflib import get_close_matches  # for messages alone

    return get_close_matches(word, list(names), n=3)


def _point(pairs: Sequence[str]) -> tuple[tuple[str, AxisValue], ...]:
    found: dict[str, AxisValue] = {}
    for pair in pairs:
        axis, *values = _split(pair, "=")
        name = _label(axis)
        if not name or len(values) != 1 or not (text := _label(values[0])):
            raise ValueError(f"@{pair} names no point; write @AXIS=VALUE, such as @batch=8 or @rate=30")
        if name in found:
            raise ValueError(f"{name} has two values; write one")
        value = text if values[0].strip().startswith('"') else _number(text)
        if name in axes() and axes()[name].unit:
            whole = axes()[name].whole
            if isinstance(value, str) or value <= 0 or (whole and value % 1):
                raise ValueError(
                    f"{name}={value} is not possible; write a {'whole ' if whole else ''}number above 0: {name}=4"
                )
        found[name] = value
    return tuple(found.items())


def _split(text: str, mark: str) -> list[str]:
    """Cut a text at the marks that are outside of quotes."""
    parts = [""]
    for piece in re.findall(f"{_QUOTED}|.", text, re.DOTALL):
        if piece == mark:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _label(part: str) -> str:
    part = part.strip()
    if re.fullmatch(_QUOTED, part):
        return part[1:-1].replace('""', '"')
    if '"' in part:
        raise ValueError(f'the quotes of {part} do not fit; write the whole label in double quotes, and " in it twice')
    return part


def _quote(label: str) -> str:
    plain = label and label == label.strip() and not set(label) & set('.,=@"')
    return label if plain else '"' + label.replace('"', '""') + '"'


def _quoted_value(value: AxisValue) -> str:
    if not isinstance(value, str):
        return repr(value)
    return _quote(value) if _number(value) == value else f'"{value}"'


def _number(text: str) -> AxisValue:
    if not _NUMBER.fullmatch(text):
        return text
    if text.lstrip("-").isdecimal():
        return int(text)
    value = float(text)
    return text if math.isinf(value) else int(value) if value % 1 == 0 and abs(value) < 1e15 else value


# Service level objectives: the most that a statistic of a run's time may be, as ``p99=20ms``


# The median has two names: that of the column, ``latency``, and that which loads have for it.
FIELDS = {
    LATENCY: "median", "p50": "median", "mean": "mean", "p90": "p90", "p95": "p95", "p99": "p99", "max": "max",
}  # fmt: skip
SAMPLES_NEEDED: Mapping[str, int] = {"p90": 10, **SAMPLES_FOR}
_UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


class Slo(NamedTuple):
    """The most that a statistic may be."""

    statistic: str  # ``latency`` or ``p50`` (the median), ``mean``, ``p90``, ``p95``, ``p99`` or ``max``
    limit_ns: int  # in ns

    def value_ns(self, stats: Stats) -> int | None:
        """The statistic, ns; None where there are too few samples for it."""
        if stats.n < SAMPLES_NEEDED.get(self.statistic, 1):
            return None
        value: int = getattr(stats, FIELDS[self.statistic])
        return value

    @property
    def is_median(self) -> bool:
        """Whether it is of the median, which has an interval."""
        return FIELDS[self.statistic] == FIELDS[LATENCY]

    def __str__(self) -> str:
        return f"{self.statistic} ≤ {duration(self.limit_ns)}"


def parse_limits(text: str, option: str, statistics: Collection[str]) -> dict[str, int]:
    """``p99=20ms`` or ``p99=20ms,mean=5ms`` as ns by statistic, at least one; `BadInput` where it is not of that
    form."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, limit = (it.strip() for it in part.partition("="))
        if not equals:
            raise BadInput(f"{option} {part.strip()!r}: write it as STAT=TIME, such as p99=20ms", option)
        if name not in statistics:
            reason = f"there is no such statistic; choose from {', '.join(statistics)}"
            raise BadInput(f"{option} {name!r}: {reason}", option)
        if name in found:
            raise BadInput(f"{option} {name}: was given twice; give it once", option)
        time = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(ns|us|µs|ms|s)", limit)
        ns = float(time[1]) * _UNITS[time[2]] if time else 0.0
        if not 1 <= ns < 1e15:
            raise BadInput(f"{option} {name}={limit}: write a time above zero such as 20ms, 500us or 1s", option)
        found[name] = round(ns)
    return found


_P50 = "p50"
STATISTICS = (_P50, "mean", "p95", "p99", "max")  # of the latency at a point


def parse_slo(text: str, option: str) -> dict[str, int]:
    """``p99=20ms`` or ``p99=20ms,mean=5ms`` as ns by statistic; ``latency`` is the median, as of a sweep; `BadInput`: no statistic,
    or no time."""
    found = parse_limits(text, option, (LATENCY, *STATISTICS))
    return {_P50 if name == LATENCY else name: limit for name, limit in found.items()}
