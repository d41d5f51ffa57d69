"""What a page says first: the large figures of a result, and of several what they come to side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ortbench.analysis.comparing.claims import (
    ALIKE,
    BY_MARGIN,
    FASTER,
    MARGIN,
    NOISY,
    SLOWER,
    UNKNOWN,
    Fastest,
    fastest,
)
from ortbench.analysis.comparing.comparable import OF_EP, alike_but_for_ep, changes, unlike
from ortbench.analysis.comparing.compare import CANNOT_TELL, lacks, ratio_findings, rows
from ortbench.analysis.comparing.pairs import TOO_FEW
from ortbench.analysis.findings.advice import FEW_RESULTS, side_findings
from ortbench.analysis.findings.best_advice import best_findings, best_of_models, bests, ep_findings
from ortbench.analysis.findings.finding import Finding
from ortbench.analysis.findings.load_advice import noisy_knee, peak_claim
from ortbench.analysis.findings.loop_advice import decode_text, state_bytes
from ortbench.analysis.findings.node_advice import short
from ortbench.analysis.findings.phrases import times, within
from ortbench.analysis.findings.run_advice import copy_share
from ortbench.analysis.findings.slo_advice import found_text, requests_text, slo_text
from ortbench.analysis.findings.speedups import condition, is_on_host, kept_tensors, on_device, takes
from ortbench.analysis.findings.sweep_advice import best_shapes
from ortbench.analysis.items import best_mode
from ortbench.analysis.loads import levels
from ortbench.analysis.nodes.node_shares import bytes_inside, copies_inside
from ortbench.analysis.sweep import has_a_cost
from ortbench.core import units
from ortbench.model.kinds import KINDS
from ortbench.model.modes import ALL_MODES, COPY_TIME, CPU, LATENCY, STEP, THROUGHPUT, is_rate
from ortbench.model.result import LOAD, LOOP, OK, START, SWEEP, Case, Result
from ortbench.model.schema import Loop
from ortbench.report import model
from ortbench.report.comparison import legend, setting_notes
from ortbench.report.comparison import tables as side_by_side
from ortbench.report.outputs import doubt_part, outputs_part
from ortbench.report.page.parts import Drawn, Section, charts_of_many, drawn, sections
from ortbench.report.phrases import best_note, has_items, heading


@dataclass(frozen=True)
class Fact:
    """One large figure: what it is, how much, and what that is made of."""

    name: str
    value: str
    note: str


def facts(result: Result) -> Iterator[Fact]:
    """The figures to see first: copies, the fastest mode, one inference (or step and loop) with it, bytes."""
    return _FACTS.get(result.kind, _of_times)(result)


def _of_times(result: Result) -> Iterator[Fact]:
    timed = _timed(result)
    if not timed:
        return
    cpu, copied = result.case(CPU), copy_share(result)
    if copied and cpu is not None and cpu.value(COPY_TIME) is not None:
        took, total = units.duration(cpu.value(COPY_TIME) or 0), units.duration(cpu.median(LATENCY) or 0)
        name = "Copies of inputs and outputs" if copies_inside(result) else "Copies"
        yield Fact(
            name, f"{model.DERIVED}{units.share(copied)}", f"of the latency of {CPU}: {model.DERIVED}{took} of {total}"
        )
    best, kept = fastest(result, on_device=False), fastest(result, on_device=True)
    if best is not None:
        yield Fact("Fastest mode", _speedup(best), _fastest_note(result, best))
    if kept is not None and (best is None or kept.claim == FASTER):
        note = f"{kept.mode}, {on_device(result, kept, best)[0]}{condition(result, kept.mode)}"
        yield Fact(kept_tensors(result), _speedup(kept), note if kept.claim == FASTER else _fastest_note(result, kept))
    shown = next((it.case for it in (best, kept) if it is not None and it.is_faster), timed[0])
    yield from _WORK.get(result.kind, _of_whole)(result, shown)


def _speedup(best: Fastest) -> str:
    return CANNOT_TELL if best.claim == NOISY else times(best.speedup)


def _fastest_note(result: Result, best: Fastest) -> str:
    interval = best.speedup.ci95
    sure = within(interval, units.digits) if interval else f" ({TOO_FEW})"
    new = condition(result, best.mode) or f" with {takes(result, best.mode)}"
    if best.claim == NOISY:
        return f"{NOISY}: {best.mode} is {times(best.speedup)} as fast as {CPU}{new}{sure}"
    verdict = f", not {BY_MARGIN} faster" if best.claim in (ALIKE, SLOWER) else ""
    return f"{best.mode} compared with {CPU}{new}{sure}{verdict}"


def _timed(result: Result) -> list[Case]:
    return [case for case in result.cases if case.status == OK and case.median(LATENCY)]


def _of_whole(result: Result, shown: Case) -> Iterator[Fact]:
    """The figures of an inference or a chain in a mode, and what one copies."""
    median = shown.median(LATENCY) or 1
    one = KINDS[result.kind].work
    what = f"Time per {one}" if is_rate(shown.mode, LATENCY) else f"One {one}"
    yield Fact(what, units.duration(median), f"{shown.mode}, {units.rate(shown.value(THROUGHPUT) or 0)} {one}s/s")
    copying = next((case for case in _timed(result) if case.bytes_h2d or case.bytes_d2h), None)
    if copying is not None and not is_on_host(result):
        there, back = copying.bytes_h2d or 0, copying.bytes_d2h or 0
        moved = bytes_inside(result)
        inside = f"; Memcpy nodes copy {units.size(moved)} more" if moved else ""
        note = f"{units.size(there)} in and {units.size(back)} out, with {copying.mode}{inside}"
        yield Fact(f"Copied per {one}", units.size(there + back), note)


def _of_start(result: Result, shown: Case) -> Iterator[Fact]:
    """The time of a start, of which nobody has one after the other."""
    yield Fact("One start", units.duration(shown.median(LATENCY) or 1), shown.mode)


def _of_loop(result: Result, shown: Case) -> Iterator[Fact]:
    """The figures of a loop: a step and the whole of it in a mode, and the state that `cpu-tensors` copies."""
    loop: Loop = result.part
    count = loop["steps"]
    if result.generation and (ttft := shown.median("time_to_first_token")) is not None:
        yield Fact(
            "TTFT", units.duration(ttft), f"{shown.mode}, after a prompt of {result.generation['prompt']} tokens"
        )
        rates = [units.rate(shown.value(f"{it}_tokens_per_s") or 0) for it in ("decode", "prefill")]
        note = (
            f"{shown.mode}{decode_text(shown, result.generation)}; all sequences together; prefill {rates[1]} tokens/s"
        )
        yield Fact("Decode tokens/s", rates[0], note)
    step, whole = shown.median(STEP), shown.median(LATENCY)
    if step is not None:
        yield Fact("One step", units.duration(step), f"{shown.mode}, median of all steps")
    if whole is not None:
        per_s = units.rate(shown.value("step_throughput") or 0)
        yield Fact(
            "Whole loop",
            units.duration(whole),
            f"{shown.mode}, {count} step{'s' if count > 1 else ''}, {per_s} steps/s",
        )
    cpu = result.case(CPU)
    moved = None if cpu is None else state_bytes(cpu)
    if moved:
        grows = ", on average, as it grows" if loop["grows"] else ""
        yield Fact("State copied per step", units.size(moved), f"both ways, with {CPU}{grows}")


_MOST = "Most inferences/s"
_WHICH = "which mode completes the most"
_OPEN_PEAK = {NOISY: f"; {NOISY} {_WHICH}", **dict.fromkeys((ALIKE, UNKNOWN), f"; intervals leave open {_WHICH}")}


def _of_load(result: Result) -> Iterator[Fact]:
    """The figures of a load: the most inferences/s of both groups of modes, the knee, the highest rate that meets the SLO, latency
    at a rate."""
    best, kept_there = levels.best_level(result), levels.best_level(result, on_device=True)
    for name, level in ((_MOST, best), (kept_tensors(result), kept_there)):
        if level is None or (best is not None and name != _MOST and levels.rate_of(level) <= levels.rate_of(best)):
            continue
        sure = within(levels.interval(level, THROUGHPUT), units.rate)
        yield Fact(
            name,
            units.rate(levels.rate_of(level)),
            f"{level.mode} {levels.at(level).phrase}{sure}{condition(result, level.mode)}"
            + _OPEN_PEAK.get(peak_claim(result, level), ""),
        )
    if best is not None:
        own = levels.measured(result, levels.CONCURRENCY, best.mode)
        knee = levels.knee_of(own)
        if knee is not None and noisy_knee(result, best.mode) is None:
            bend = next(level for level in own if levels.at(level).value == knee["concurrency"])
            found = bend.value("scaling")
            many = "" if found in (None, 1) else f", {times(found or 1)} the inferences/s of one client"
            yield Fact(
                "Knee", levels.at(bend).text, f"{units.share(knee['share_of_peak'])} of the peak with {best.mode}{many}"
            )
    rates = levels.kept(result)
    if rates:
        mode = max(rates, key=lambda name: rates[name]["rate"])
        asked = levels.asked_of(result) or {}
        met = f"{mode} meets {slo_text(asked)} {found_text(rates[mode])}; {requests_text(rates[mode], asked)}"
        yield Fact(
            "Highest rate", f"{levels.rate_text(rates[mode]['rate'])} requests/s", f"{met}{condition(result, mode)}"
        )
        return
    opened = [level for level in levels.measured(result, levels.RATE) if not levels.is_full(level)]
    if opened:
        level = max(opened, key=lambda it: levels.at(it).value)
        latency, stat = levels.latency_of(level), levels.tail_of(level)
        note = f"{level.mode} {levels.at(level).phrase}, median {units.duration(latency.median)}"
        yield Fact(f"{stat} latency", units.duration(levels.by_name(latency, stat)), note)


def _of_sweep(result: Result) -> Iterator[Fact]:
    """The figures of a sweep: its best shape, and the most that switching shapes costs for certain."""
    for name, (mode, found) in zip(("Best shape", kept_tensors(result)), best_shapes(result), strict=False):
        per_s = f"{units.rate(found['items_per_s'] or 0.0)} items/s{within(found['ci95'], units.rate)}"
        yield Fact(name, found["shape"], f"{mode}, {per_s}{condition(result, mode)}")
    costly = [it for it in result.switching or [] if has_a_cost(it)]
    if costly:
        most = max(costly, key=lambda it: it["ratio"])
        note = (
            f"{most['mode']}: an inference takes {units.duration(most['cost_ns'])} longer where each has another shape"
        )
        yield Fact("Switching shapes", f"{units.ratio(most['ratio'])}×", note)
    yield Fact("Shapes", str(len(result.shapes)), "in one session, in turns")


_WORK: dict[str, Callable[[Result, Case], Iterator[Fact]]] = {LOOP: _of_loop, START: _of_start}
_FACTS: dict[str, Callable[[Result], Iterator[Fact]]] = {LOAD: _of_load, SWEEP: _of_sweep}


# Several results


@dataclass(frozen=True)
class Overview:
    """Several results side by side: a row for each, pictures of all, or of each model in a column of its own, and those that may be
    compared."""

    table: model.Table
    notes: list[model.Note | Finding]
    pictures: list[list[Drawn]]
    sections: list[Section]


def overview(results: Sequence[Result], names: Sequence[str], judged: bool = False) -> Overview:
    """Several results; where a verdict on them stands above, none of them is called the best."""
    modes = [mode for mode in ALL_MODES if any(case.mode == mode for result in results for case in result.at_point())]
    groups = alike_but_for_ep(results)
    compared, said = _compared(results, names, groups)
    best = [] if judged else bests(results, names)
    told = [
        *ep_findings(results),
        *(best_findings(best) if len(groups) == 1 or judged else best_of_models(results, names)),
    ]
    if len(groups) == 1:
        told = told if told or judged else ratio_findings(results, names, rows(results), MARGIN)
        told += side_findings(results, names) if len(results) <= FEW_RESULTS else []
    said[:0] = told
    if len(groups) > 1:
        said.append(model.Note(_why_apart(results, groups)))
    said += [*setting_notes(results, names, best), *best_note(results, names)]
    pictures = _multiples(results, names, len(groups) > 1)
    if {result.kind for result in results} == {LOAD}:
        return Overview(_loads(results, names), said, pictures, compared)
    headed = (
        model.Column("result", model.Kind.NAME),
        model.Column("EP", model.Kind.WORD),
        *model.columns(
            model.Kind.NUMBER, "copies", "fastest mode", "speedup", "tensors on the device", "speedup on device", *modes
        ),
    )
    lines = tuple(_row(name, result, modes) for name, result in zip(names, results, strict=True))
    if has_items(results):
        headed = (*headed, model.Column("best items/s"))
        best_of = (best_mode(result, "") for result in results)
        cells = (model.maybe(it and it.items_per_s, units.rate) for it in best_of)
        lines = tuple((*row, cell) for row, cell in zip(lines, cells, strict=True))
    return Overview(model.filled(model.Table(headed, lines)), said, pictures, compared)


def _compared(
    results: Sequence[Result], names: Sequence[str], groups: Sequence[Sequence[int]]
) -> tuple[list[Section], list[model.Note | Finding]]:
    """The tables of results that may be compared, a group a model or shape, and what there is to say of them."""
    made: list[Section] = []
    said: list[model.Note | Finding] = []
    several = len(groups) > 1
    for numbers in groups:
        own, called = [results[number] for number in numbers], [names[number] for number in numbers]
        for part in doubt_part(own, called):
            said += [finding for block in part if isinstance(block, model.Findings) for finding in block.findings]
        if len(own) < 2:
            continue
        tables = side_by_side(own, called, MARGIN, in_order=False)
        parts: list[Sequence[model.Block]] = [[it] for it in tables[:-1]]
        parts += [[it, model.Paragraph(legend(own, MARGIN))] for it in tables[-1:]]
        titled = sections([*parts, *outputs_part(own, called)])
        made += [replace(it, title=f"{it.title}: {_about(own[0])}") for it in titled] if several else titled
        said += [
            model.Note(f"{called[0]} → {name}: {'; '.join(changed)}")
            for name, result in zip(called[1:], own[1:], strict=True)
            if (changed := changes(own[0], result))
        ]
        said += lacks(own, called, rows(own))
    return made, said


def _why_apart(results: Sequence[Result], groups: Sequence[Sequence[int]]) -> str:
    """What ratios are of, and why there are none between groups."""
    apart = (
        name for numbers in groups[1:] for name, *_ in unlike(results[0], results[numbers[0]]) if name not in OF_EP
    )
    alike = ", and results of one model and work" if len(groups) < len(results) else ""
    return f"ratios compare modes of one result{alike}; other results differ in {', '.join(dict.fromkeys(apart))}"


def _about(result: Result) -> str:
    """What a group of results is of: the first line of their headings, without a note."""
    return heading(replace(result, note=None))[0]


def _multiples(results: Sequence[Result], names: Sequence[str], apart: bool) -> list[list[Drawn]]:
    """The charts of all results; of several models that are not compared with each other small ones, one a model: each has a scale of
    its own."""
    models: dict[tuple[str, str], list[int]] = {}
    for number, result in enumerate(results):
        key = (result.model["path"], result.model["sha256"]) if apart else ("", "")
        models.setdefault(key, []).append(number)
    files = Counter(Path(path).name for path, _ in models)
    kinds: dict[str, list[Drawn]] = {}
    for count, ((path, _), numbers) in enumerate(models.items()):
        own = charts_of_many([results[number] for number in numbers], [names[number] for number in numbers])
        for chart in own:
            name = Path(path).name if files[Path(path).name] == 1 else path
            title = chart.title if len(models) == 1 else f"{chart.title}: {name}"
            kinds.setdefault(chart.title, []).append(drawn(replace(chart, title=title), f"0 {count} {chart.title}"))
    return [*kinds.values()]


def _loads(results: Sequence[Result], names: Sequence[str]) -> model.Table:
    """A row for each load: the most runs/s, with which mode and how many clients, and the highest rate that keeps the SLO."""
    headed = (
        model.Column("result", model.Kind.NAME),
        model.Column("EP", model.Kind.WORD),
        *model.columns(model.Kind.NUMBER, "peak inf/s", "mode", "clients", "highest rate in SLO"),
    )
    rows = []
    for name, result in zip(names, results, strict=True):
        best, rates = levels.best_level(result), levels.kept(result)
        most = (
            (model.NOTHING,) * 3
            if best is None
            else (units.rate(levels.rate_of(best)), best.mode, f"{levels.at(best).value:g}")
        )
        rate = max((it["rate"] for it in rates.values()), default=None)
        rows.append(
            (name, short(result.target["ep"]), *most, model.NOTHING if rate is None else f"{units.rate(rate)}/s")
        )
    return model.filled(model.Table(headed, tuple(rows)))


def _row(name: str, result: Result, modes: Sequence[str]) -> tuple[str, ...]:
    by_mode = {case.mode: case for case in result.at_point()}
    share = copy_share(result)
    return (
        name,
        short(result.target["ep"]),
        model.NOTHING if share is None else f"{model.DERIVED}{units.share(share)}",
        *(cell for on_device in (False, True) for cell in _fastest_cells(result, on_device)),
        *(_median_cell(by_mode.get(mode)) for mode in modes),
    )


def _fastest_cells(result: Result, on_device: bool) -> tuple[str, str]:
    best = fastest(result, on_device)
    if best is None:
        return model.NOTHING, model.NOTHING
    if best.claim in (NOISY, UNKNOWN):
        return CANNOT_TELL, f"{times(best.speedup)} ({best.mode})"
    if not best.is_faster:
        return f"none {BY_MARGIN} faster", f"{times(best.speedup)} ({best.mode})"
    return best.mode, times(best.speedup)


def _median_cell(case: Case | None) -> str:
    if case is None:
        return model.NOTHING
    if case.status != OK:
        return case.status
    median = case.median(LATENCY)
    return model.maybe(median, units.duration)
