"""What a load is asked to be: how many clients, or how many requests a second, and when these are due. Frozen, plain data."""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from ortbench.core.eps import CPU_EP, SHORT_NAMES
from ortbench.core.errors import BadInput
from ortbench.core.files import Kind, check_readable, kind_of
from ortbench.core.safe_text import first_of
from ortbench.features.load.model import EXACT, LARGEST, MULTIPLES, OWN, POWERS, PROCESS, SHARED, LoadSetup, own_rate
from ortbench.model.metric_names import parse_slo
from ortbench.model.modes import CPU, LOAD_MODES, Part
from ortbench.model.settings import CHOICES, WHOLES, Listed
from ortbench.plan.option_types import FLAG, TEXT, TIME, WHOLE, check_seconds, finite
from ortbench.plan.options import INPUT, LOAD, MEASURED, RawOptions, build, new_option, option
from ortbench.plan.plan import Plan
from ortbench.plan.plan_builder import list_in, plan_of, plan_stream, shape_name
from ortbench.plan.target import ORDERS, RANDOM, Inputs, Shape, Stream

SESSIONS = (SHARED, OWN, PROCESS)
POISSON, UNIFORM, FILE = "poisson", "uniform", "file"
ARRIVALS = (POISSON, UNIFORM)
AUTO = "auto"

MOST_CLIENTS = 256
_MOST_RATE = 1e6  # a second: above that the clock's own cost is what is measured
_USUAL_CLIENTS = (1, 2, 4, 8)
_NAMES = 4  # of shapes that a message has
_MAX_REQUESTS = 1000  # of which a block has all
_MAX_SHAPES = 64  # each client has inputs and outputs of its own


def usual_concurrency(cores: int) -> tuple[int, ...]:
    """The numbers of clients where none is given: 1, 2, 4, 8, of these none above twice the cores, but always 1 and 2."""
    return tuple(it for it in _USUAL_CLIENTS if it <= max(2, 2 * cores))


def parse_concurrency(text: str, option: str) -> tuple[int, ...]:
    """``1,2,4`` as whole numbers, each once, ascending; `BadInput`: no whole number, or one that no load point can have."""
    parts = [it.strip() for it in text.split(",")]
    if not all(re.fullmatch(r"\d{1,6}", it, re.ASCII) for it in parts):
        raise BadInput(f"{option} {text!r}: write whole numbers, such as 1,2,4,8", option)
    for part in parts:
        _check_count(int(part), option, "clients")
    return tuple(sorted({*map(int, parts)}))


def _check_count(count: int, option: str, of: str = "workers") -> None:
    if not 1 <= count <= MOST_CLIENTS:
        raise BadInput(f"{option} {count}: from 1 to {MOST_CLIENTS} {of}", option)


def parse_rate(text: str, option: str) -> tuple[float, ...] | str:
    """``30`` or ``10,20.5`` requests a second, each once, ascending; or ``auto``; `BadInput`: no number, or one that no load point can
    have."""
    if text.strip() == AUTO:
        return AUTO
    try:
        rates = {float(it) for it in text.split(",")}
    except ValueError:
        said = "write requests per second, such as 30 or 10,20,30, or auto"
        raise BadInput(f"{option} {text!r}: {said}", option) from None
    for rate in rates:
        if not 0 < rate <= _MOST_RATE:
            raise BadInput(f"{option} {rate:g}: must be above zero, and at most {_MOST_RATE:g} requests/s", option)
    return tuple(sorted(rates))


def _arrivals(value: str, option: str) -> None:
    if value in ARRIVALS:
        return
    if kind_of(value, option) is Kind.NOTHING:
        raise BadInput(f"{option} {value!r}: is neither {' nor '.join(ARRIVALS)}, nor a file of timestamps", option)
    check_readable(value, option)


def _join_numbers(value: Any, option: str) -> str:
    """Numbers of a suite as a command line gives them."""
    values = value if isinstance(value, list) else [value]
    if not values or any(isinstance(it, bool) or not isinstance(it, (int, float, str)) for it in values):
        raise BadInput("must be a number, a list of numbers or text")
    return ",".join(map(str, values))


# Requests of several sizes, each of which may be padded to one of fewer


def _check_order(order: str, option: str) -> None:
    is_known = order in (*ORDERS, EXACT, POWERS, LARGEST)
    if not is_known and not re.fullmatch(rf"{MULTIPLES}[1-9]\d{{0,8}}", order, re.ASCII):
        known = ", ".join((*ORDERS, EXACT, f"{MULTIPLES}K", POWERS, LARGEST))
        raise BadInput(f"{option} {order!r}: choose from {known}", option)


def _parse_orders(text: str, _: str, option: str) -> list[str]:
    """The orders of a list, each once; `BadInput`: there is no such order, or one in a list whose requests are not those of the others."""
    found = [part.strip() for part in text.split(",")]
    for part in found:
        _check_order(part, option)
        if found.count(part) > 1:
            raise BadInput(f"{option} {text}: {part!r} is in the list twice", option)
        if part in ORDERS and len(found) > 1:
            raise BadInput(f"{option} {part}: compare {EXACT}, whose requests are those of the others", option)
    return found


def parse_weights(text: str, option: str) -> tuple[int, ...]:
    """``8,1,1``: how often each shape comes; `BadInput`: no whole numbers above zero."""
    if not re.fullmatch(r"\s*[1-9]\d{0,3}(\s*,\s*[1-9]\d{0,3})+\s*", text, re.ASCII):
        raise BadInput(f"{option} {text!r}: write a whole number above 0 for each shape, such as 8,1,1", option)
    return tuple(map(int, text.split(",")))


def _pad(order: str, size: int, largest: int) -> int:
    """The size that a request runs at; an empty one stays."""
    if order == LARGEST:
        return largest
    if order == POWERS:
        return 1 << (size - 1).bit_length() if size else 0
    multiple = 1 if order == EXACT else int(order.removeprefix(MULTIPLES))
    return -(-size // multiple) * multiple


@dataclass(frozen=True)
class PaddedStream(Stream):
    """Requests of several sizes that run at the `shapes` they are padded to: every one comes once in random order, then all again in
    another."""

    requests: tuple[int, ...] = ()  # the number of the shape of each
    names: tuple[str, ...] = ()  # of their sizes, before they are padded
    padding: float = 0.0  # the share of the elements that is padding

    def numbers(self, seed: int) -> Iterator[int]:
        chance = random.Random(seed)
        while True:
            yield from chance.sample(self.requests, len(self.requests))


def pad_stream(stream: Stream, order: str, weights: Sequence[int] | None) -> PaddedStream:
    """A stream whose shapes come in these proportions, padded in every size that is not the same in all; `BadInput`: other weights than
    shapes."""
    own = [it.inputs for it in stream.shapes]
    weights = weights or [1] * len(own)
    if len(weights) != len(own):
        names = first_of([it.name for it in stream.shapes], _NAMES)
        reason = f"has {len(weights)} weights for {len(own)} shapes: {names}"
        raise BadInput(f"--shape-weights: {reason}", "--shape-weights")
    sizes = _differing_sizes(own)
    padded_sizes = {key: _pad_each(order, several) for key, several in sizes.items()}
    padded = [_with_sizes(it, {key: of[number] for key, of in padded_sizes.items()}) for number, it in enumerate(own)]
    shapes = [it for number, it in enumerate(padded) if it not in padded[:number]]
    common = math.gcd(*weights)
    requests = [number for number, weight in enumerate(weights) for _ in range(weight // common)]
    if len(requests) > _MAX_REQUESTS:
        raise BadInput(f"--shape-weights: their sum is {len(requests)}: at most {_MAX_REQUESTS}", "--shape-weights")
    needed, run = (
        sum(math.prod(math.prod(several[number]) for several in of.values()) for number in requests)
        for of in (sizes, padded_sizes)
    )
    return PaddedStream(
        RANDOM,
        tuple(Shape(shape_name(it, own), it) for it in shapes),
        tuple(shapes.index(padded[number]) for number in requests),
        tuple(stream.shapes[number].name for number in requests),
        1 - needed / run if run else 0.0,
    )


Sizes = tuple[int, ...]
_SIZED = ("dims", "shapes", "lengths")  # the fields of inputs that have sizes


def _differing_sizes(every: Sequence[Inputs]) -> dict[tuple[str, str], list[Sizes]]:
    """By field and name the sizes of each that are not the same in all; `BadInput`: expressions, or other ranks."""
    found = {}
    for field in _SIZED:
        for key in getattr(every[0], field):
            values = [getattr(it, field)[key] for it in every]
            sizes = [it if isinstance(it, tuple) else (it,) for it in values]
            if any(it != sizes[0] for it in sizes):
                if len({*map(len, sizes)}) > 1 or not all(isinstance(size, int) for it in sizes for size in it):
                    reason = f"{key} cannot be padded: its sizes are expressions, or their number is not the same"
                    raise BadInput(f"--shape-order: {reason}", "--shape-order")
                found[field, key] = sizes
    return found


def _pad_each(order: str, every: Sequence[Sizes]) -> list[Sizes]:
    columns = [[*it] for it in zip(*every, strict=True)]
    padded = [it if len({*it}) == 1 else [_pad(order, size, max(it)) for size in it] for it in columns]
    return [*zip(*padded, strict=True)]


def _with_sizes(inputs: Inputs, sizes: Mapping[tuple[str, str], Sizes]) -> Inputs:
    found: dict[str, Any] = {field: dict(getattr(inputs, field)) for field in _SIZED}
    for (field, key), own in sizes.items():
        found[field][key] = own if field == "shapes" else own[0]
    return replace(inputs, **found)


_put = partial(option, panel=LOAD, commands=("load", "gate"), is_live_only=True)
UNDER_LOAD = new_option(
    "load", "", "Measure under load, as 'ortbench load' does.", LOAD, FLAG, commands=("gate",), is_live_only=True, is_in_suites=False,
)  # fmt: skip


@dataclass(frozen=True)
class LoadPlan(Part):
    """The load that is put on a model.

    Attributes:
        concurrency: None for none, or where there is no `rate` either for the usual numbers.
        arrivals: the `rate` replaces that of a file of timestamps, s, one a line.
        slo: by statistic, ns.
        duration_s: None for 2 s or, with a file and no other rate, for all of it.
    """

    folder = "load"

    concurrency: tuple[int, ...] | None = _put(
        "concurrency", "N,N,...", "Measure with N clients, each running one inference after another.",
        kind=TEXT._replace(example="[1, 2, 4]", data=_join_numbers, parse=parse_concurrency, python="int | str | Sequence[int]"), common=("load",), shown="1,2,4,8, at most twice the cores, 1 where requests are padded, without --rate",
    )  # fmt: skip
    rate: tuple[float, ...] | str | None = _put(
        "rate", "R,R,.../auto", "Measure at R requests per second; auto: the highest R that meets --slo.",
        kind=TEXT._replace(example='[10, 20.5] or "auto"', data=_join_numbers, parse=parse_rate, python="float | str | Sequence[float]"), common=("load",),
    )  # fmt: skip
    arrivals: str = _put(
        "arrivals", "KIND/FILE", "Space requests as poisson, uniform, or a file of timestamps (s).",
        kind=TEXT._replace(python="AnyPath"), default=POISSON, check=_arrivals,
    )  # fmt: skip
    sessions: str = _put(
        "sessions", "KIND", "Give clients a shared session, their own, or a process each.",
        default=SHARED, choices=SESSIONS, lists=CHOICES._replace(example="shared,process"), common=("load",),
    )  # fmt: skip
    slo: Mapping[str, int] | None = option(
        "slo", "STAT=TIME", "Set the limit on latency: p99=20ms; of latency (p50), mean, p95, p99, max.", LOAD,
        kind=TEXT._replace(parse=parse_slo), commands=("load",), common=("load",),
    )  # fmt: skip
    order: str | None = option(
        "shape-order", "ORDER", "Mix listed shapes: random, cycle, exact, multiples:K, powers-of-two, largest.",
        INPUT, lists=Listed("exact,largest", _parse_orders), choices=(*ORDERS, EXACT, POWERS, LARGEST), check=_check_order,
        commands=("load",), is_in_suites=False,
    )  # fmt: skip
    weights: tuple[int, ...] | None = option(
        "shape-weights", "N,N,...", "Have the shapes come in these proportions, with a --shape-order that can pad.", INPUT,
        kind=TEXT._replace(data=_join_numbers, parse=parse_weights, python="Sequence[int]"), commands=("load",), is_in_suites=False,
        shown="all alike",
    )  # fmt: skip
    workers: int = _put(
        "workers", "N", "Serve the requests of --rate with N workers.", kind=WHOLE, default=1, check=_check_count,
        lists=WHOLES, common=("load",),
    )  # fmt: skip
    duration_s: float | None = option(
        "duration", "TIME", "Measure each load point for TIME.", MEASURED, kind=TIME, commands=("load",), is_in_suites=False, check=check_seconds,
        shown="2s, of a file of arrivals without --rate all of it", common=("load",),
    )  # fmt: skip

    @property
    def is_open(self) -> bool:
        return self.rate is not None or self.file is not None

    @property
    def file(self) -> str | None:
        """The file of timestamps; None where arrivals are made up."""
        return None if self.arrivals in ARRIVALS else self.arrivals

    @property
    def client_counts(self) -> tuple[int, ...]:
        if self.concurrency is not None or self.is_open:
            return self.concurrency or ()
        affinity = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        return (1,) if self.pads else usual_concurrency(len(affinity(0)))

    @property
    def rates(self) -> tuple[float, ...]:
        """Those that are known before: a search comes upon its rates, and a file has one of its own."""
        if isinstance(self.rate, tuple):
            return self.rate
        return () if self.rate == AUTO or self.file is None else (own_rate(read_timestamps(self.file)),)

    @property
    def pads(self) -> bool:
        """Whether its order is one that says to which sizes requests are padded."""
        return self.order is not None and self.order not in ORDERS

    def with_files(self, to: Callable[[str], str]) -> Self:
        return self if self.file is None else replace(self, arrivals=to(self.file))

    def check(self, plan: Plan) -> None:
        for mode in plan.modes:
            if mode not in LOAD_MODES:
                reason = f"has several inferences in flight by itself, and a client has one; choose from {', '.join(LOAD_MODES)}"
                raise BadInput(f"--mode {mode}: {reason}", "--mode")
        if self.file is not None:
            read_timestamps(self.file)
            if (plan.loop.processes or 1) > 1:
                raise BadInput("--processes: a file of arrivals is replayed as it is, in one process", "--processes")
        if not self.is_open:
            for name, given in (("--workers", self.workers != 1), ("--arrivals", self.arrivals != POISSON)):
                if given:
                    raise BadInput(f"{name}: is for requests at a rate; give --rate too", name)
        if self.weights is not None and not self.pads:
            raise BadInput(f"--shape-weights: is for --shape-order {EXACT} and those that pad", "--shape-weights")
        if self.rate == AUTO and self.slo is None:
            raise BadInput("--rate auto: say what latency may be at most, such as --slo p99=20ms", "--rate")
        if self.sessions == PROCESS and os.name == "nt" and self.is_open:
            raise BadInput(
                "--sessions process: on Windows the requests of --rate are served by threads; leave it out",
                "--sessions",
            )


def read_timestamps(path: str) -> list[float]:
    """The moments of a file, s from the first on; empty lines and those that begin with # say nothing; `BadInput`: it cannot be
    read, has fewer than two moments, or not in order."""
    option = "--arrivals"
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{option} {path}: cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}", option
        ) from None
    found: list[float] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        moment = finite(text)
        if math.isnan(moment):
            raise BadInput(f"{option} {path}, line {number}: {text[:40]!r} is no time in seconds", option)
        if found and moment < found[-1]:
            raise BadInput(f"{option} {path}, line {number}: {text} is before the line above it; sort the file", option)
        found.append(moment)
    if len(found) < 2 or found[-1] == found[0]:
        raise BadInput(f"{option} {path}: has no two moments, one a line, from which there would be a rate", option)
    return [moment - found[0] for moment in found]


def load_of(
    model: str, given: RawOptions, command: tuple[str, ...] = (), needed: Collection[str] = (), *, is_live: bool = False
) -> Plan:
    """The plan that options describe of a model on which a load is put, whose duration is that of a load point, of which in a live gate
    candidate and baseline have half each; see `plan_of`. Lists of shapes are a stream of them. `BadInput`: an option that cannot be read."""
    part = build(LoadPlan, given)
    if is_live:
        from ortbench.features.gate.plan import live_duration_s

        part = replace(part, duration_s=live_duration_s(given) / 2)
    given = {flag: value for flag, value in given.items() if flag != "duration"}
    if part.pads:
        given["shape-order"] = RANDOM
    mixing = "shape-order" if "shape-order" in given else list_in(given)

    def make_plan(options: RawOptions) -> Plan:
        plan = plan_of(model, options, command, needed, LOAD_MODES)
        if needed or options.get("mode"):
            return plan
        is_known = SHORT_NAMES.get(plan.target.ep, plan.target.ep) == CPU_EP  # where modes hardly differ
        return replace(plan, modes=(CPU,) if is_known else plan.modes, on_host=(CPU,))

    plan = plan_stream("load", given, make_plan, _MAX_SHAPES) if mixing else make_plan(given)
    if part.pads and part.order is not None and plan.stream is not None:
        plan = replace(plan, stream=pad_stream(plan.stream, part.order, part.weights))
    return replace(plan, part=part)


def load_in(plan: Plan) -> LoadPlan:
    assert isinstance(plan.part, LoadPlan)
    return plan.part


def settings(load: LoadPlan, seed: int, duration_s: float, stream: Stream | None = None) -> LoadSetup:
    mixed: dict[str, Any] = {}
    if stream is not None:
        mixed = {"order": load.order or stream.order, "shapes": [it.name for it in stream.shapes]}
    if isinstance(stream, PaddedStream):
        mixed |= {"requests": [*stream.names], "padding": stream.padding}
    arrivals = None if not load.is_open else load.arrivals if load.file is None else FILE
    name = None if load.file is None else Path(load.file).name
    return {
        "sessions": load.sessions, "duration_s": duration_s, "arrivals": arrivals, "file": name, "seed": seed,
        "workers": load.workers, "slo": None if load.slo is None else dict(load.slo), **mixed,  # type: ignore[typeddict-item]
    }  # fmt: skip
