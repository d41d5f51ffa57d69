"""Results as pandas' data frames. A column's unit is the end of its name, and stands in ``frame.attrs["units"]`` too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ortbench.analysis.loads.levels import load_cases
from ortbench.gate.limits import Check
from ortbench.model.modes import STAGE, STEP
from ortbench.model.result import Case, Result, work_of

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from numpy.typing import NDArray


_OF_RUNS = ("block", "caller", "latency_ns", "due_ns", "start_ns", "end_ns")  # what a load keeps of each


def _with_units(frame: pandas.DataFrame) -> pandas.DataFrame:
    """With the unit of each column that is a time; others are words and numbers without one."""
    frame.attrs["units"] = {name: "ns" for name in frame if str(name).endswith("_ns")}
    return frame


def record_frame(records: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Flat records; what is inside a record of its own has a column with both names: ``vs_first_ratio``."""
    import pandas

    flat = [
        {
            (name if inner is None else f"{name}_{inner}"): item
            for name, value in record.items()
            for inner, item in (value.items() if isinstance(value, Mapping) else [(None, value)])
        }
        for record in records
    ]
    return _with_units(pandas.DataFrame(flat).dropna(axis="columns", how="all").convert_dtypes())


def check_frame(checks: Sequence[Check]) -> pandas.DataFrame:
    """The checks of a gate, a row for each: ``name``, ``verdict``, ``text``, ``ratio``, ``low``, ``high``, ``limit``, ``rounds``."""
    import pandas

    names = [field.name for field in fields(Check)]
    return pandas.DataFrame([check.to_dict() for check in checks], columns=names).convert_dtypes()


def sample_frame(results: Sequence[Result]) -> pandas.DataFrame:
    """Every sample, a row for each.

    ``mode``, ``phase``; ``round`` and ``block_start_ns`` (on the worker's clock) of the block that it was taken in, missing where
    that is not kept; ``time_ns``; of the steps of a loop also ``step``, from 0 on, of the stages of a chain ``stage``, of a sweep
    ``shape``, which comes first.
    """
    import pandas

    found = [
        part
        for result in results
        for shape, case in _cases(result)
        for phase in case.samples
        for part in _samples(result, case, phase, shape)
    ]
    columns = ["mode", "phase", "round", "block_start_ns", "time_ns"]
    if not found:
        return _with_units(pandas.DataFrame(columns=columns))
    return _with_units(pandas.concat(found, ignore_index=True).convert_dtypes())


def _cases(result: Result) -> Iterator[tuple[str | None, Case]]:
    """All cases of a result; those of a sweep with the names of their shapes."""
    yield from ((None, case) for case in result.at_point())
    yield from ((shape.name, case) for shape in result.shapes for case in result.at_point(shape.point))


def _samples(result: Result, case: Case, phase: str, shape: str | None) -> Iterator[pandas.DataFrame]:
    """The samples of a phase; of none nothing."""
    import numpy as np
    import pandas

    samples, blocks = case.samples[phase], case.blocks.get(phase, [])
    if not samples:
        return
    found: dict[str, Any] = {
        **({} if shape is None else {"shape": shape}),
        "mode": case.mode,
        "phase": phase,
        "round": None,
        "block_start_ns": None,
        "time_ns": samples,
    }
    sizes = [size for _, size, _ in blocks]
    if sum(sizes) == len(samples):
        found["round"] = np.repeat([number for number, _, _ in blocks], sizes)
        found["block_start_ns"] = np.repeat([start for _, _, start in blocks], sizes)
    if phase == STEP:
        found["step"] = np.arange(len(samples)) % work_of(result).count
    if phase == STAGE and case.stages:
        names = list(case.stages)
        found["stage"] = [names[at % len(names)] for at in range(len(samples))]
    yield pandas.DataFrame(found)


def level_frame(result: Result, taken: Mapping[str, NDArray[np.int64]]) -> pandas.DataFrame:
    """Every run of the levels of a load, a row for each.

    ``mode``, and of a closed loop ``concurrency``, ``block``, ``caller`` and ``latency_ns``; of an open loop ``rate``, ``due_ns``,
    ``start_ns`` and ``end_ns`` from the beginning of a ``block`` on, which is a try of a search or a round of a gate; the last two are
    missing where a request was never served.

    Args:
        result: of the load.
        taken: what its ``load-samples.npz`` has, by name.
    """
    import pandas

    columns = ["mode", "concurrency", "rate", *_OF_RUNS]
    found = []
    for number, case in enumerate(load_cases(result)):
        own = {name: taken[f"{number}/{name}"] for name in _OF_RUNS if f"{number}/{name}" in taken}
        if own:
            runs = _runs_of_level(own, taken.get(f"{number}/requests"))
            found.append(runs.assign(**{"mode": case.mode, "concurrency": None, "rate": None, **case.point}))
    made = pandas.concat(found, ignore_index=True) if found else pandas.DataFrame(columns=columns)
    made = made.reindex(columns=columns).dropna(axis="columns", how="all").convert_dtypes()
    return _with_units(made.astype({"rate": "Float64"} if "rate" in made else {}))  # 20 a second is no whole number


def _runs_of_level(own: Mapping[str, NDArray[np.int64]], requests: NDArray[np.int64] | None) -> pandas.DataFrame:
    """The runs of a level.

    Args:
        own: what there is of each, by name.
        requests: of each stretch of an open level, how many requests were due, and how many of these, the first ones, were
            served; shape (stretches, 2). None where it is one stretch.
    """
    import numpy as np
    import pandas

    if "due_ns" not in own:
        return pandas.DataFrame(own)
    counts = np.array([[own["due_ns"].size, own["start_ns"].size]]) if requests is None else requests
    begins = np.cumsum(counts[:, 0]) - counts[:, 0]
    served = np.concatenate([begin + np.arange(count) for begin, count in zip(begins, counts[:, 1], strict=True)])
    found = {name: pandas.Series(times, None if name == "due_ns" else served) for name, times in own.items()}
    if requests is not None:
        found["block"] = pandas.Series(np.repeat(np.arange(len(requests)), requests[:, 0]))
    return pandas.DataFrame(found)
