"""Result files: written whole, read by `ortbench.model.file_reading`, and what must hold in them beyond types: whoever reads a result may rely on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.core.features import part_of, passes, unread_result
from ortbench.core.files import discard_ignored, make_ignored, write_atomically
from ortbench.core.parts import Wrong, keys_of, text, value_text
from ortbench.core.safe_text import join_words
from ortbench.core.stats import Stats
from ortbench.model.kinds import Kind, find_kind, kind_of
from ortbench.model.metrics import in_order
from ortbench.model.result import SCHEMA_VERSION, Case, Result

_PARTS = {"model", "placement"}  # that not all results have


def result_json(result: Result) -> str:
    """The result file's text; parts that are not there are left out."""
    parts = _PARTS | result.own.keys()
    found = {key: value for key, value in keys_of(result).items() if key not in parts or value not in (None, [], {})}
    found["cases"] = [_case_keys(case) for case in result.cases]
    return text({"schema_version": result.schema_version, **found})


def _case_keys(case: Case) -> dict[str, object]:
    parts = {**keys_of(case), "metrics": {key: case.metrics[key] for key in in_order(case.metrics)}}
    return {key: value for key, value in parts.items() if value is not None or key in ("reason", "speedup")}


def save(result: Result, path: Path) -> None:
    """Write the result file so that a reader never sees half of it; `OSError`: the folder cannot be written."""
    write_atomically(path, result_json(result))


def load(path: Path, kind: str = "") -> Result:
    """Read a result file: one of a `kind` that has files of its own where that is wanted, else any other; `BadInput`: it cannot be read,
    or is not a result of a version that is known."""
    from ortbench.model import file_reading  # here and below: who only writes a result would wait for its msgspec

    return parse(file_reading.content_of(path), str(path), kind)


def parse(content: bytes, name: str, kind: str = "") -> Result:
    """A result from the content of its file, see `load`; `name` is what messages call it."""
    from ortbench.model import file_reading

    data = file_reading.parse(content, name)
    if not isinstance(data, dict) or "schema_version" not in data:
        raise BadInput(f"{name} is not a result file of ortbench: it has no schema_version")
    version, found = data["schema_version"], data.get("kind")
    if what := unread_result(found):
        raise BadInput(f"{name} is {what}")
    if version != SCHEMA_VERSION:
        newer = isinstance(version, (int, float)) and version > SCHEMA_VERSION
        advice = "a newer ortbench wrote it" if newer else "measure again"
        reads = f"this ortbench reads schema_version {SCHEMA_VERSION}"
        raise BadInput(f"{name} has schema_version {value_text(version)}, {reads}: {advice}")
    if {"load", "loop"} <= data.keys():
        raise BadInput(
            f"{name} is a load of a decoder, which ortbench no longer measures: ortbench loop measures decoders"
        )
    if kind and found != kind:
        raise BadInput(f"{name} is not {kind_of(kind).noun}")
    if not kind and isinstance(found, str) and (known := find_kind(found)) is not None and known.apart:
        raise BadInput(f"{name} is {known.noun}: {known.apart}")
    return from_data(data, name)


def from_data(data: Any, name: str) -> Result:
    """A result from what `ortbench.model.file_reading.parse` gave of its file; raises `BadInput`."""
    from ortbench.model import file_reading

    kind = data.get("kind") if isinstance(data, dict) else None
    own = part_of(kind, "model", "Parts") if isinstance(kind, str) and find_kind(kind) is not None else None
    return file_reading.shape(data, name, Result, check_result, own, _case_parts(data))


def _case_parts(data: Any) -> dict[str, Any]:
    """The types of what features measured of the cases, by key."""
    cases = data.get("cases") if isinstance(data, dict) else None
    keys = {key for case in cases or () if isinstance(case, dict) for key in case} if isinstance(cases, list) else ()
    return {it.key: part_of(feature, "model", "CasePart") for feature, it in passes().values() if it.key in keys}


ALWAYS = ("created", "command", "kind", "environment", "target", "setup", "cases")
_ORDER = ("min", "median", "p90", "p95", "p99", "max")
# Differences, and what counts from a zero of its own.
_SIGNED = {
    "copies",
    "copy_share",
    "copies_hidden",
    "hidden_share",
    "step_growth",
    "host_growth",
    "device_growth",
    "handle_growth",
    "thread_growth",
    "remainder",
    "switching_cost",
    "cost_ns",
    "cost_ci95_ns",
    "range",
    "temperature_c",
    "parts",
    "idle",
    "nice",
    "at_s",
    "at_ns",
}
_COUNTS = {"cores", "usable_cores"}  # of what there is at least one of
# Keys that an object has, by its own key: all of one of these.
_NEEDED = {
    "device": (("vendor_id", "device_id"), ("name", "index")),  # one that ONNX Runtime knows, and another
    "latency": (("mean", "median", "p95", "p99", "max"),),  # of a block of a load
}
_LONGEST_MODE = 200  # characters
_LEAST, _MOST = 1e-30, 2**63 - 1  # beyond these, figures that follow are infinite, or more than NumPy's integers hold


def check_result(result: Result) -> None:
    """Raise `ortbench.core.parts.Wrong` where a value cannot be, or does not go with another."""
    kind = find_kind(result.kind)
    if kind is None:
        raise Wrong(f"{value_text(result.kind)} is none of the kinds that are known", "kind")
    for key in (*ALWAYS, *kind.needed):
        if (result.own.get(key) or getattr(result, key, None)) in (None, {}, []):
            raise Wrong(f"the key {value_text(key)} is missing or empty")
    for key in kind.target_keys:
        if key not in result.target:
            raise Wrong(f"the key {value_text(key)} is missing", "target")
    check_numbers({key: value for key, value in keys_of(result).items() if key != "findings"})  # which are made anew
    for number, case in enumerate(result.cases):
        _check_case(case, ["cases", number])
    for number, block in enumerate(result.noise["blocks"] if result.noise else ()):
        if len(block) != 7:
            raise Wrong("round, start, time, wait, switches, threads and slices are needed", "noise", "blocks", number)
    for number, switched in enumerate(result.own.get("switching") or ()):
        if not switched["shapes"]:
            raise Wrong("at least one shape is needed", "switching", number, "shapes")
    _check_points(result, kind)
    for path, name, known in _references(result, kind):
        if name not in known:
            raise Wrong(f"there is no {value_text(name)}", *path)


def check_numbers(value: Any, path: Sequence[str | int] = (), signed: bool = False) -> None:
    """Whether numbers are of a size that can be, intervals in order and pairs pairs, wherever they are."""
    if isinstance(value, (int, float)):
        if value < 0 and not signed:
            raise Wrong(f"a number of at least 0 is needed, not {value:g}", *path)
        if abs(value) > _MOST or 0 < abs(value) < _LEAST:
            raise Wrong(f"{value:g} is beyond what a measurement can give", *path)
    elif isinstance(value, (list, tuple)):
        if value and {*map(type, value)} <= {int, float}:  # samples are many
            for extreme in (min(value), max(value)):
                check_numbers(extreme, [*path, value.index(extreme)], signed)
        else:
            for number, item in enumerate(value):
                check_numbers(item, [*path, number], signed)
    elif hasattr(value, "__dataclass_fields__"):
        check_numbers(keys_of(value), path, signed)
    elif isinstance(value, dict):
        for key, item in value.items():
            inner = [*path, key]
            if isinstance(item, (list, tuple)) and "ci95" in key:
                if len(item) != 2:
                    raise Wrong("two numbers are needed", *inner)
                _check_sorted({"its low end": item[0], "its high end": item[1]}, inner)
            if key == "feedback" and any(len(pair) != 2 for pair in item):
                raise Wrong("a list of pairs is needed", *inner)
            if key in _COUNTS and item == 0:
                raise Wrong("a number of at least 1 is needed, not 0", *inner)
            if isinstance(item, dict) and key in _NEEDED and path[:1] != ["slo"]:
                _check_needed(item, _NEEDED[key], inner)
            check_numbers(item, inner, signed or key in _SIGNED)


def _check_needed(part: Collection[str], needed: Sequence[Sequence[str]], path: Sequence[str | int]) -> None:
    """Whether an object has all keys of one of several sets."""
    if not any({*keys} <= {*part} for keys in needed):
        raise Wrong(f"the keys {', or '.join(map(join_words, needed))} are needed", *path)


def _check_sorted(values: Mapping[str, Any], path: Sequence[str | int]) -> None:
    for (low, below), (high, above) in pairwise(values.items()):
        if below > above:
            raise Wrong(f"{low} is above {high}", *path)


def _check_case(case: Case, path: list[str | int]) -> None:
    if len(case.mode) > _LONGEST_MODE:
        raise Wrong(
            f"a text of at most {_LONGEST_MODE} characters is needed, not one of {len(case.mode)}", *path, "mode"
        )
    for feature, record in passes().values():
        if record.key in case.own:
            _check_needed(case.own[record.key], part_of(feature, "model", "NEEDED", [[]]), [*path, record.key])
    parts = [(case.samples, case.blocks, case.block_medians or {}, path)]
    if case.left_out is not None:
        parts.append((case.left_out["samples"], case.left_out["blocks"], {}, [*path, "left_out"]))
    for samples, blocks, medians, at in parts:
        for key, of in blocks.items():
            inner = [*at, "blocks", key]
            for number, block in enumerate(of):
                if len(block) != 3:
                    raise Wrong("round, number of samples and start are needed", *inner, number)
            taken = sum(n for _, n, _ in of)
            if key in samples and len(samples[key]) != taken:
                raise Wrong(f"they are of {taken} samples, and there are {len(samples[key])}", *inner)
            if key not in samples and len(medians.get(key, ())) != len(of):
                raise Wrong("their samples are missing, and so are their medians", *inner)
        for key in samples.keys() - blocks.keys():
            raise Wrong("they are of no blocks", *at, "samples", key)
    for key, metric in case.metrics.items():
        if isinstance(metric, Stats):
            at = [*path, "metrics", key]
            if metric.n < 1:
                raise Wrong(f"a number of at least 1 is needed, not {metric.n}", *at, "n")
            _check_sorted({name: getattr(metric, name) for name in _ORDER}, at)
            if key in case.blocks and metric.n != (taken := sum(n for _, n, _ in case.blocks[key])):
                raise Wrong(f"there are {taken} samples, not {metric.n}", *at, "n")


def _check_points(result: Result, kind: Kind) -> None:
    axes = {axis["name"]: axis["values"] for axis in result.axes}
    seen = []
    for number, case in enumerate(result.cases):
        path = ("cases", number, "point")
        for name, value in case.point.items():
            if value not in axes.get(name, ()):
                raise Wrong(f"no axis {value_text(name)} has {value_text(value)}", *path)
        if (case.mode, case.point) in seen:
            raise Wrong("another case has the same mode and point", "cases", number)
        seen.append((case.mode, case.point))
        fits = len(case.point) == len(axes) if kind.every_axis else len(case.point) <= 1
        if not fits:
            raise Wrong(f"a place on {'each axis' if kind.every_axis else 'one axis'} is needed", *path)


def _references(result: Result, kind: Kind) -> Iterator[tuple[list[str | int], str, Collection[str]]]:
    """Where a name stands that is that of something else in the result, the name, and those that there are."""
    shapes = {shape.name: shape.point for shape in result.shapes}
    if kind.many_shapes:
        for number, case in enumerate(result.cases):
            if case.point not in shapes.values():
                yield ["cases", number, "point"], ", ".join(case.point), ()
    yield from part_of(kind.key, "model", "references", lambda _: ())(result)


@contextmanager
def writable(out: Path) -> Iterator[None]:
    """Inside the block what cannot be written is `BadInput`, with the reason."""
    try:
        yield
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"--out {out}: is not a folder") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"--out {out}: cannot be written: {getattr(error, 'strerror', None) or error}") from None


def new_folder(out: Path, name: str) -> Path:
    """Make a folder of its own for a run; `BadInput` where it cannot be written: better now than after the measurement."""
    with writable(out):
        make_ignored(out)
        for number in range(1, 1000):
            path = out / (name if number == 1 else f"{name}-{number}")
            with suppress(FileExistsError):
                path.mkdir()
                return path
        raise OSError(17, "too many folders of this name")


def discard_if_empty(path: Path) -> None:
    """Remove the folder of a run that came to nothing, and the one that was made for it."""
    with suppress(OSError):
        for inner in path.iterdir():
            if inner.is_dir():
                inner.rmdir()
        path.rmdir()
        discard_ignored(path.parent)
