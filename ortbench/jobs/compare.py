"""What `ortbench compare` and `report` do with results that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ortbench.analysis.comparable import MODEL, group_alike, mismatches, unlike
from ortbench.analysis.comparison import not_shown
from ortbench.analysis.naming import natural, short_names
from ortbench.analysis.series import Selection
from ortbench.core import features
from ortbench.core.errors import BadInput, NotComparable
from ortbench.core.files import Kind, check_readable, is_folder, kind_of
from ortbench.core.safe_text import complain, first_of, visible
from ortbench.core.units import count
from ortbench.facts import Explanation, record
from ortbench.facts.comparison import is_repeated, remark_facts
from ortbench.jobs import check_wanted, json_text, publish, write_files
from ortbench.model.result import Result
from ortbench.model.result_file import load
from ortbench.model.schema import Finding
from ortbench.plan.options import RawOptions
from ortbench.plan.plan import OutputOptions
from ortbench.plan.plan_builder import Compared
from ortbench.report import comparison
from ortbench.report.model import Block, Report
from ortbench.report.records import Part, Publication


def compare(given_paths: Sequence[Path], only: Compared, given: RawOptions, wanted: OutputOptions) -> None:
    """Compare results at places, show and write which differences are real, and what makes them where options ask for it.

    What is found in folders of several results is compared as far as it was measured on the same thing: two folders of
    a suite, for example, case by case.

    Raises:
        NotComparable: they were not measured on the same thing, and it was not forced.
        BadInput: a file that is no result, or fewer than two of them.
    """
    check_wanted(wanted)
    force, paths = "force" in given, results_at(given_paths)
    loaded = [load(path) for path in paths]
    if len(paths) < 2:
        raise BadInput(
            f"compare needs at least two results, and {paths[0]} is one: name another, or a folder of several"
        )
    explanation = explain(given, loaded, only)
    groups = [list(range(len(paths)))] if force or explanation or len(paths) == len(given_paths) else _groups(loaded)
    if not groups:
        remark_facts(loaded, short_names(loaded, paths), force)  # it says why they are not
    first = [group[0] for group in groups]
    about = short_names([loaded[number] for number in first], [paths[number] for number in first])
    reports, records = [], []
    findings: list[Mapping[str, Any]] = [*map(record, explanation.facts)] if explanation else []
    for what, group in zip(about, groups, strict=True):
        results = [loaded[number] for number in group]
        names = short_names(results, [paths[number] for number in group])
        found = compare_results(results, names, only, force, explanation)
        several = len(groups) > 1
        reports.append(found.report._replace(title=comparison.title(names, what)) if several else found.report)
        more = {"group": what} if several else {}
        records += [more | line for line in found.records]
        findings += [{**more, **it} for it in found.findings]
    refuse_not_shown([[loaded[number] for number in group] for group in groups], only)
    alone = [number for number in range(len(paths)) if not any(number in group for group in groups)]
    if alone:
        names = short_names(loaded, paths)
        reports.append(comparison.build_alone([names[number] for number in alone]))
    data = {"records": records, "findings": findings, **(explanation.data if explanation else {})}
    before = explanation.parts if explanation else ()
    publish(wanted, reports, lambda: json_text(data), publication=lambda: _publication(loaded, paths, before=before))


def _publication(
    results: Sequence[Result], paths: Sequence[Path], before: Sequence[Sequence[Block]] = ()
) -> Publication:
    return Publication(
        "ortbench", [Part(*it) for it in zip(results, short_names(results, paths), strict=True)], before=before
    )


def explain(given: RawOptions, results: Sequence[Result], only: Compared) -> Explanation | None:
    """What makes the difference of results, where options ask for it."""
    explain = next(features.hooks("explain_difference"), None)
    return explain(given, results, only.modes) if explain else None


def refuse_not_shown(groups: Sequence[Sequence[Result]], only: Compared) -> None:
    """Refuse (`BadInput`) a mode or a metric that no group of results which are compared has."""
    why = not_shown(groups, Selection(only.modes, only.metrics))
    if why is not None:
        raise BadInput(why, why.partition(" ")[0])


class Comparison(NamedTuple):
    """Results that were measured on the same thing, compared: the report, flat records, and the facts."""

    report: Report
    records: list[dict[str, Any]]
    findings: list[Finding]


def compare_results(
    results: Sequence[Result], names: Sequence[str], only: Compared, force: bool, explanation: Explanation | None = None
) -> Comparison:
    """Compare results; `NotComparable` where they were not measured on the same thing, and it was not forced."""
    # Another model is what the nodes tell of.
    of_models = explanation is not None and all(it == MODEL for it, *_ in unlike(*results))
    below = explanation.others if explanation else ()
    remarks = [it for it in remark_facts(results, names, force or of_models) if not is_repeated(it, below)]
    remarks = remarks if force else [it for it in remarks if it.verdict != "forced"]
    points = Counter(point for result in results for point in {tuple(case.point.items()) for case in result.cases})
    if len(results) > 1 and max(points.values(), default=0) < 2:
        raise NotComparable(f"{', '.join(names)} have no point of their axes in common")
    chosen = Selection(only.modes, only.metrics)
    compared = comparison.compare(results, names, only.same, chosen)
    report = comparison.build(
        results,
        names,
        only.same,
        in_order=True,
        only=chosen,
        remarks=remarks,
        explanation=explanation,
        comparison=compared,
    )
    records = comparison.records(results, names, only.same, chosen, compared.figures)
    return Comparison(
        report, records, [record(it) for it in (*compared.said, *compared.lacking, *remarks, *compared.alone)]
    )


def _groups(results: Sequence[Result]) -> list[list[int]]:
    """The numbers of results that were measured on the same thing, two at least of each."""
    groups = group_alike(results, lambda one, other: not mismatches(one, other))
    return [group for group in groups if len(group) > 1]


def report(given_paths: Sequence[Path], wanted: OutputOptions) -> None:
    """Write results in the forms that are wanted, by default in those for stored results: beside the result, in the folder of all, or
    here; print them where there is no such form. `BadInput` for a file that is no result, a folder without one, or a place that
    cannot be written."""
    paths = results_at(given_paths)
    folder = Path() if len(given_paths) > 1 else given_paths[0] if is_folder(given_paths[0]) else given_paths[0].parent
    usual = {flag: str(folder / it.of_stored) for flag, it in features.writers().items() if it.of_stored}
    wanted = replace(wanted, files=wanted.files or usual)
    check_wanted(wanted)
    results = [load(path) for path in paths]
    for written in write_files(_publication(results, paths), wanted, after_screen=True):
        if written != "-":
            print(visible(f"Saved in {written}"))
    for result, path in zip(results, paths, strict=True) if not wanted.files else ():
        from ortbench.report.run import screen
        from ortbench.report.terminal import print_report

        print_report(screen(result, str(path.parent)))


def results_at(paths: Sequence[Path]) -> list[Path]:
    """The result files at places: a file, the folder of a run, or one in which results lie, such as a suite's; those of a
    folder in the order of their names, numbers in them as numbers. `BadInput` for a folder without a result.

    Files with another suffix than ``.json``, as a shell's ``*`` names them too, are passed over beside others, and a line says so."""
    others = [it for it in paths if it.suffix.lower() not in ("", ".json") and kind_of(it) is Kind.FILE]
    if others and len(others) < len(paths):
        names = first_of([*dict.fromkeys(it.name for it in others)], _SHOWN)
        complain(f"{count(len(others), 'file')} passed over, as results are .json files: {names}")
        paths = [it for it in paths if it not in others]
    found = []
    for path in paths:
        file = result_file(path)
        if not is_folder(path) or kind_of(file) is not Kind.NOTHING:
            found.append(file)
            continue
        check_readable(path, folders=True)
        inside = sorted(path.rglob(file.name), key=lambda path: [natural(part) for part in path.parts])
        if not inside:
            raise BadInput(f"{path}: there is no {file.name} in this folder, nor in those in it")
        found += inside
    return found


def result_file(path: Path) -> Path:
    return path / "result.json" if is_folder(path) else path


def one_result_file(path: Path) -> Path:
    """The file of the one result at a path; `BadInput` for a folder that has none of its own."""
    file = result_file(path)
    if is_folder(path) and kind_of(file) is Kind.NOTHING:
        inside = results_at([path])
        example = visible(str(inside[0].parent))
        raise BadInput(f"{path} has {count(len(inside), 'result')} in folders of its own: name one, such as {example}")
    return file


_SHOWN = 5  # names of files that were passed over
