"""Suite files: what `ortbench suite` reads, with the line and the key of every mistake, and the cases that come of it.

A file's tables are layers: ``[defaults]``, then the ``[[bench]]``, its EP, its shape, then every ``[[override]]`` that
fits. A later layer wins; tables such as ``dim`` grow key by key, everything else is replaced, and ``false`` takes back
what an earlier layer gave.
"""

from __future__ import annotations

import glob
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

from ortbench.characters import plain_name
from ortbench.errors import BadInput
from ortbench.gate.limits import parse_metric
from ortbench.modes import MODES
from ortbench.plan import parse_dims, parse_pairs, parse_ranges, parse_shapes, parse_share, parse_speedups
from ortbench.suite.toml_file import SuiteFile, Where, dotted


@dataclass(frozen=True)
class Given:
    """An option's value, in the form that its parameter on the command line has, and where it was given."""

    value: Any
    where: Where


Layer = Mapping[str, Given | None]  # None takes back what an earlier layer gave


@dataclass(frozen=True)
class SuiteCase:
    """One model on one EP with one shape.

    Attributes:
        id: readable, unique in its suite, and the name of its folder.
        model: path of the model.
        model_name, ep, shape: what overrides go by; `shape` is empty where the bench has none.
        skip: why it is not run, or None.
        given: the options of `ortbench run` and `ortbench gate` that hold for it, by their long names.
        where: the bench it comes from.
    """

    id: str
    model: str
    model_name: str
    ep: str
    shape: str
    skip: str | None
    given: Mapping[str, Given]
    where: Where


@dataclass(frozen=True)
class Suite:
    """A suite file that has been read.

    Attributes:
        name: of the suite.
        file: it came from.
        cases: in the file's order.
    """

    name: str
    file: SuiteFile
    cases: Sequence[SuiteCase]


# Values: each turns what TOML gives into what the command line gives, or says what it must be


def _text(value: Any, option: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadInput("must be text")
    return value


def _whole(value: Any, option: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadInput("must be a whole number")
    return value


def _number(value: Any, option: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise BadInput("must be a number")
    return float(value)


def _share(value: Any, option: str) -> str:
    if not isinstance(value, str):
        value = str(_number(value, option))
    parse_share(value, option)
    return str(value)


def _flag(value: Any, option: str) -> bool:
    if not isinstance(value, bool):
        raise BadInput("must be true or false")
    return value


def _texts(value: Any, option: str) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(item, str) and item for item in values):
        raise BadInput("must be text or a list of texts")
    return values


def _mode(name: str, option: str) -> str:
    if name not in MODES:
        raise BadInput(f"{option} {name!r}: there is no such mode; choose from {', '.join(MODES)}")
    return name


def _modes(value: Any, option: str) -> list[str]:
    return [_mode(name, option) for name in _texts(value, option)]


def _metrics(value: Any, option: str) -> list[str]:
    values = _texts(value, option)
    for text in values:
        parse_metric(text)
    return values


# Entries of tables: each gives the item that its option takes


def _pair(name: str, value: Any, option: str) -> str:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise BadInput("must be text or a number")
    parse_pairs([f"{name}={value}"], option)
    return f"{name}={value}"


def _dim(name: str, value: Any, option: str) -> str:
    item = f"{name}={_whole(value, option)}"
    parse_dims([item])
    return item


def _shape(name: str, value: Any, option: str) -> str:
    if isinstance(value, list):
        value = "x".join(str(_whole(size, option)) for size in value)
    elif not isinstance(value, str):
        raise BadInput('must be such as "1x3x224x224" or [1, 3, 224, 224]')
    parse_shapes([f"{name}:{value}"])
    return f"{name}:{value}"


def _range(name: str, value: Any, option: str) -> str:
    if not isinstance(value, list) or len(value) != 2:
        raise BadInput("must be such as [0, 1]")
    low, high = (_number(end, option) for end in value)
    parse_ranges([f"{name}:{low!r},{high!r}"])
    return f"{name}:{value[0]},{value[1]}"


def _speedup(name: str, value: Any, option: str) -> str:
    item = f"{_mode(name, option)}={_number(value, option)}"
    parse_speedups([item])
    return item


_Scalar = Callable[[Any, str], Any]
_Entry = Callable[[str, Any, str], str]

# The options of `ortbench run` and the limits of `ortbench gate`, by their long names.
_OPTIONS: dict[str, _Scalar] = {
    "ep-library": _text,
    "device": _whole,
    "mode": _modes,
    "depth": _whole,
    "pinned": _flag,
    "async-runs": _flag,
    "input": _text,
    "expect": _text,
    "seed": _whole,
    "rtol": _number,
    "atol": _number,
    "warmup": _whole,
    "duration": _number,
    "iterations": _whole,
    "precision": _share,
    "threads": _whole,
    "opt-level": _text,
    "require-placement": _flag,
    "dynamic-outputs": _flag,
    "external": _text,
    "cuda-graph": _flag,
    "stream": _text,
    "engine-cache": _text,
    "timeout": _number,
}
_OPTION_TABLES: dict[str, _Entry] = {
    "ep-option": _pair,
    "session-config": _pair,
    "dim": _dim,
    "shape": _shape,
    "range": _range,
}
_GATE: dict[str, _Scalar] = {
    "max-regression": _share,
    "metric": _metrics,
    "max-copy-share": _share,
    "max-cpu-nodes": _whole,
    "require-mode": _modes,
    "force": _flag,
    "baseline": _text,
    "baseline-model": _text,
    "baseline-ep": _text,
    "baseline-ep-library": _text,
    "baseline-python": _text,
}
_GATE_TABLES: dict[str, _Entry] = {
    "min-speedup": _speedup,
    "baseline-ep-option": _pair,
    "baseline-session-config": _pair,
}
# What is relative to the file, and where {model} and {folder} stand for the model's name and folder.
_PATHS = (
    "input", "expect", "ep-library", "engine-cache", "baseline", "baseline-model", "baseline-ep-library", "baseline-python",
)  # fmt: skip
_SHARED_KEYS = (*_OPTIONS, *_OPTION_TABLES, "gate")


# Reading


def read(path: Path, environ: Mapping[str, str]) -> Suite:
    """Read a suite file and make its cases.

    Args:
        path: of the file.
        environ: environment variables, for ``${NAME}``.

    Raises:
        BadInput: a mistake in it, with its line and key. What only a plan shows (a file that is not there, a number out of
            its range) is found by whoever makes plans, and reported by `SuiteFile.mistake`.
    """
    return _Reader(SuiteFile(path, environ)).suite()


@dataclass(frozen=True)
class _Choice:
    """One of the EPs or shapes that a bench multiplies."""

    name: str
    layer: Layer


@dataclass(frozen=True)
class _Bench:
    """One product."""

    models: Sequence[Path]
    eps: Sequence[_Choice]
    shapes: Sequence[_Choice]
    layer: Layer
    where: Where


@dataclass(frozen=True)
class _Override:
    """What holds for the cases that fit: a list of patterns each for the model, the EP and the shape."""

    patterns: Mapping[str, Sequence[str]]
    layer: Layer
    where: Where

    def fits(self, model: str, ep: str, shape: str) -> bool:
        names = {"model": model, "ep": ep, "shape": shape}
        return all(
            any(fnmatchcase(names[axis], pattern) for pattern in patterns) for axis, patterns in self.patterns.items()
        )


class _Reader:
    """Makes cases of a file's data."""

    def __init__(self, file: SuiteFile) -> None:
        self._file = file
        self._base = file.path.parent

    def suite(self) -> Suite:
        data = self._file.data
        self._known(data, (), ("suite", "defaults", "bench", "override"))
        name = self._suite_name(data.get("suite", {}))
        defaults = self._table(data.get("defaults", {}), ("defaults",))
        self._known(defaults, ("defaults",), ("ep", *_SHARED_KEYS))
        layer = self._layer(defaults, ("defaults",))
        benches = [self._bench(table, where, defaults) for table, where in self._tables(data, "bench")]
        if not benches:
            raise self._file.mistake(("bench",), "there is nothing to run: give at least one [[bench]] with a model")
        overrides = [self._override(table, where) for table, where in self._tables(data, "override")]
        names = _names([model for bench in benches for model in bench.models])
        cases = [
            self._case(layer, bench, names[model], model, ep, shape, overrides)
            for bench in benches
            for model, ep, shape in product(bench.models, bench.eps, bench.shapes)
        ]
        self._refuse_twins(cases)
        for override in overrides:
            if not any(override.fits(case.model_name, case.ep, case.shape) for case in cases):
                raise self._file.mistake((*override.where, "where"), "fits no case")
        return Suite(name, self._file, cases)

    def _suite_name(self, value: Any) -> str:
        table = self._table(value, ("suite",))
        self._known(table, ("suite",), ("name",))
        with self._file.at(("suite", "name")):
            return _text(table.get("name", self._file.path.stem), "name")

    def _case(
        self,
        defaults: Layer,
        bench: _Bench,
        name: str,
        model: Path,
        ep: _Choice,
        shape: _Choice,
        overrides: Sequence[_Override],
    ) -> SuiteCase:
        fitting = [override.layer for override in overrides if override.fits(name, ep.name, shape.name)]
        given = _merged([defaults, bench.layer, ep.layer, shape.layer, *fitting])
        skip = given.pop("skip", None)
        for key in given.keys() & set(_PATHS):
            given[key] = Given(self._filled(given[key], model), given[key].where)
        return SuiteCase(
            id=plain_name("--".join(map(plain_name, filter(None, (name, ep.name, shape.name))))).lstrip("."),
            model=str(model),
            model_name=name,
            ep=ep.name,
            shape=shape.name,
            skip=None if skip is None else skip.value,
            given=given,
            where=bench.where,
        )

    def _filled(self, given: Given, model: Path) -> str:
        """A path, with placeholders put in, from the file's folder."""
        values = {"model": model.stem, "folder": str(model.parent.absolute())}

        def value(match: re.Match[str]) -> str:
            if match[1] not in values:
                raise self._file.mistake(given.where, f"{match[0]} means nothing; there are {{model}} and {{folder}}")
            return values[match[1]]

        return str(self._base / re.sub(r"\{(\w*)\}", value, given.value))

    def _refuse_twins(self, cases: Sequence[SuiteCase]) -> None:
        seen: dict[str, SuiteCase] = {}
        for case in cases:
            twin = seen.setdefault(case.id.casefold(), case)  # some file systems do not tell upper from lower case
            if twin is not case:
                message = f"{case.id} is there already, from {dotted(twin.where)}; give its ep or shape another name"
                raise self._file.mistake(case.where, message)

    # Tables

    def _bench(self, table: dict[str, Any], where: Where, defaults: dict[str, Any]) -> _Bench:
        self._known(table, where, ("model", "ep", "shapes", *_SHARED_KEYS))
        if "ep" in table or "ep" not in defaults:
            eps = self._choices(table.get("ep", "auto"), (*where, "ep"), self._ep)
        else:
            eps = self._choices(defaults["ep"], ("defaults", "ep"), self._ep)
        shapes = [_Choice("", {})]
        if "shapes" in table:
            shapes = self._choices(table["shapes"], (*where, "shapes"), self._shape)
        return _Bench(self._models(table, where), eps, shapes, self._layer(table, where), where)

    def _models(self, table: dict[str, Any], where: Where) -> list[Path]:
        place = (*where, "model")
        if "model" not in table:
            raise self._file.mistake(place, "is missing: name a model, or several by a pattern or a list")
        with self._file.at(place):
            patterns = _texts(table["model"], "model")
        found: list[Path] = []
        for pattern in patterns:
            path = self._base / pattern
            if path.exists() or not glob.has_magic(pattern):
                found.append(path)
                continue
            matches = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]
            if not matches:
                raise self._file.mistake(place, f"{pattern!r} matches no file")
            found += matches
        return list(dict.fromkeys(found))

    def _choices(self, value: Any, where: Where, make: Callable[[Any, Where], _Choice]) -> list[_Choice]:
        """What an axis is multiplied by: a list, or one alone."""
        if not isinstance(value, list):
            return [make(value, where)]
        if not value:
            raise self._file.mistake(where, "must not be empty")
        return [make(item, (*where, number)) for number, item in enumerate(value)]

    def _ep(self, value: Any, where: Where) -> _Choice:
        if not isinstance(value, dict):
            with self._file.at(where):
                return _Choice(Path(_text(value, "ep")).stem, {"ep": Given(value, where)})
        self._known(value, where, ("name", "ep", *_SHARED_KEYS))
        with self._file.at((*where, "ep")):
            ep = _text(value.get("ep"), "ep")
        with self._file.at((*where, "name")):
            name = _text(value.get("name", Path(ep).stem), "name")
        return _Choice(name, {**self._layer(value, where), "ep": Given(ep, (*where, "ep"))})

    def _shape(self, value: Any, where: Where) -> _Choice:
        table = self._table(value, where)
        self._known(table, where, ("name", *_SHARED_KEYS))
        layer = self._layer(table, where)
        items = [item for key in ("shape", "dim") if (given := layer.get(key)) for item in given.value]
        if "name" not in table and not items:
            raise self._file.mistake(where, "needs shape, dim or a name")
        with self._file.at((*where, "name")):
            return _Choice(_text(table.get("name", "-".join(map(plain_name, items))), "name"), layer)

    def _override(self, table: dict[str, Any], where: Where) -> _Override:
        self._known(table, where, ("where", "skip", *_SHARED_KEYS))
        place = (*where, "where")
        if "where" not in table:
            raise self._file.mistake(place, 'is missing: say for which cases, such as where = {ep = "webgpu"}')
        conditions = self._table(table["where"], place)
        self._known(conditions, place, ("model", "ep", "shape"))
        patterns = {}
        for axis, value in conditions.items():
            with self._file.at((*place, axis)):
                patterns[axis] = _texts(value, axis)
        skip = self._values(table, where, {"skip": _text}, {})
        return _Override(patterns, {**self._layer(table, where), **skip}, where)

    def _layer(self, table: Mapping[str, Any], where: Where) -> Layer:
        """The options and limits of a table."""
        layer = self._values(table, where, _OPTIONS, _OPTION_TABLES)
        gate, place = table.get("gate", {}), (*where, "gate")
        if gate is False:
            layer.update(dict.fromkeys((*_GATE, *_GATE_TABLES)))
        else:
            self._known(self._table(gate, place), place, (*_GATE, *_GATE_TABLES))
            layer.update(self._values(gate, place, _GATE, _GATE_TABLES))
        if layer.get("iterations") and (layer.get("duration") or layer.get("precision")):
            message = "fixes how much is measured: leave duration and precision out"
            raise self._file.mistake((*where, "iterations"), message)
        return layer

    def _values(
        self, table: Mapping[str, Any], where: Where, scalars: Mapping[str, _Scalar], tables: Mapping[str, _Entry]
    ) -> dict[str, Given | None]:
        found: dict[str, Given | None] = {}
        for key, value in table.items():
            place, option = (*where, key), f"--{key}"
            if key not in scalars and key not in tables:
                continue
            if value is False:
                found[key] = None
            elif key in scalars:
                with self._file.at(place, option):
                    found[key] = Given(scalars[key](value, option), place)
            else:
                items = []
                for name, item in self._table(value, place).items():
                    with self._file.at((*place, name), option):
                        items.append(tables[key](name, item, option))
                # An empty table leaves the baseline none, as an empty option does on the command line.
                found[key] = Given(items or ([""] if key.startswith("baseline-") else []), place)
        return found

    def _table(self, value: Any, where: Where) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._file.mistake(where, "must be a table")
        return value

    def _tables(self, data: Mapping[str, Any], key: str) -> list[tuple[dict[str, Any], Where]]:
        tables = data.get(key, [])
        if not isinstance(tables, list):
            raise self._file.mistake((key,), f"must be written as [[{key}]]")
        return [(self._table(table, (key, number)), (key, number)) for number, table in enumerate(tables)]

    def _known(self, table: Mapping[str, Any], where: Where, known: Sequence[str]) -> None:
        """Refuse keys that do nothing."""
        # A limit outside its gate is a likely slip too.
        limits = [f"gate.{name}" for name in (*_GATE, *_GATE_TABLES)] if "gate" in known else []
        for key in table:
            if key not in known:
                close = get_close_matches(key.replace("_", "-"), [*known, *limits], 1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                raise self._file.mistake((*where, key), f"no such key; {hint}")


def _names(models: Sequence[Path]) -> dict[Path, str]:
    """What to call models: by their stems, and where those are alike (``model.onnx``), by their folders too."""
    alike = Counter(model.stem for model in dict.fromkeys(models))
    return {
        model: model.stem if alike[model.stem] == 1 else f"{model.absolute().parent.name}-{model.stem}"
        for model in models
    }


def _merged(layers: Sequence[Layer]) -> dict[str, Given]:
    """What holds when all layers are laid over each other, the last one on top."""
    found: dict[str, Given] = {}
    for layer in layers:
        # A number of iterations and a time to stop at exclude each other: the later one holds.
        if layer.get("iterations"):
            found.pop("duration", None)
            found.pop("precision", None)
        if layer.get("duration") or layer.get("precision"):
            found.pop("iterations", None)
        for key, given in layer.items():
            if given is None:
                found.pop(key, None)
            elif key in found and (key in _OPTION_TABLES or key in _GATE_TABLES):
                found[key] = Given([*found[key].value, *given.value], given.where)
            else:
                found[key] = given
    return found


# Parts of a suite


def parse_shard(text: str) -> tuple[int, int]:
    """``2/4`` as (2, 4): the second of four parts.

    Raises:
        BadInput: not of that form.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise BadInput(f"--shard {text!r}: write it as i/n, from 1/n to n/n")
    return number, count


def shard(ids: Sequence[str], number: int, count: int) -> set[str]:
    """One of `count` parts, of about equal size: every id is in exactly one of them.

    Which one does not go by the order of the file, where every second case may be on the same EP.
    """
    mixed = sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())
    return set(mixed[number - 1 :: count])
