"""Suite files: what `ortbench suite` reads, with the line and the key of every mistake, and the cases that come of it.

A file's tables are layers: ``[defaults]``, then the ``[[bench]]``, its EP, its shape, then every ``[[override]]`` that
fits. A later layer wins; tables such as ``dim`` grow key by key, everything else is replaced, and ``false`` takes back
what an earlier layer gave.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from ortbench.analysis.naming import natural
from ortbench.core.errors import BadInput
from ortbench.core.features import candidates
from ortbench.core.files import Kind, kind_of
from ortbench.core.safe_text import plain_name
from ortbench.plan.option_types import text_of, texts_of
from ortbench.plan.options import build, check_values
from ortbench.plan.toml_file import (
    ALL,
    KEYS,
    NEEDS,
    OPTIONS,
    Layer,
    Needs,
    SuiteFile,
    Tables,
    Value,
    Where,
    dotted_key,
    keys_by_option,
    merge_layers,
)


@dataclass(frozen=True)
class SuiteCase:
    """One model on one EP with one shape, or a chain."""

    id: str  # readable, unique in its suite, and the name of its folder
    model: str  # path of the model, or of the chain's file
    # model_name, ep, shape: what overrides go by; `shape` is empty where the bench has none, and of a chain, whose name
    # is `model_name`, so is `ep`
    model_name: str
    ep: str
    shape: str
    skip: str | None  # why it is not run, or None
    # the options of `ortbench run` and `ortbench gate` that hold for it, by their long names
    given: Mapping[str, Value]
    where: Where  # the bench it comes from
    named_by: str = "model"  # the key of its bench that names what is measured
    needs: Needs = field(default_factory=Needs)  # of a machine, where the suite is spread over a cluster


@dataclass(frozen=True)
class Suite:
    name: str  # of the suite
    file: SuiteFile  # it came from
    cases: Sequence[SuiteCase]  # in the file's order
    environ: Mapping[str, str]  # environment variables, for the files of chains


def read(path: Path, environ: Mapping[str, str]) -> Suite:
    """Read a suite file and make its cases; `environ` has what ``${NAME}`` stands for.

    Raises `BadInput` for a mistake in it, with its line and key. What only a plan shows (a file that is not there, a
    number out of its range) is found by whoever makes plans, and reported by `SuiteFile.mistake`.
    """
    return _Reader(path, environ).suite()


@dataclass(frozen=True)
class _Choice:
    """One of the EPs or shapes that a bench multiplies."""

    name: str
    layer: Layer


@dataclass(frozen=True)
class _Bench:
    """One product; of chains there are no EPs and shapes to choose from."""

    models: Sequence[Path]
    eps: Sequence[_Choice]
    shapes: Sequence[_Choice]
    layer: Layer
    where: Where
    named_by: str = "model"  # the key that names what is measured


@dataclass(frozen=True)
class _Override:
    """What holds for the cases that fit: a list of patterns each for the model, the EP and the shape, or for the chain."""

    patterns: Mapping[str, Sequence[str]]
    layer: Layer
    where: Where

    def does_fit(self, names: Mapping[str, str]) -> bool:
        return all(
            axis in names and any(fnmatchcase(names[axis], pattern) for pattern in patterns)
            for axis, patterns in self.patterns.items()
        )


def _axes(named_by: str, name: str, ep: str, shape: str) -> dict[str, str]:
    return {named_by: name, **({"ep": ep, "shape": shape} if named_by == "model" else {})}


class _Reader:
    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self._file, self._environ = SuiteFile(path, environ), environ
        self._tables = Tables(self._file)
        self._base = path.parent

    def suite(self) -> Suite:
        data = self._file.data
        self._tables.check_keys(data, (), ("suite", "defaults", "bench", "override"))
        named = self._tables.table(data.get("suite", {}), ("suite",), ("name",))
        name = self._tables.text(named, ("suite",), "name", self._file.path.stem)
        defaults = self._tables.table(data.get("defaults", {}), ("defaults",), ("ep", *KEYS))
        layer = self._tables.layer(defaults, ("defaults",))
        benches = [self._bench(table, where, defaults) for table, where in self._tables.tables(data, "bench")]
        if not benches:
            raise self._file.mistake(("bench",), "there is nothing to run: give at least one [[bench]] with a model")
        overrides = [self._override(table, where) for table, where in self._tables.tables(data, "override")]
        names = {
            key: _names([it for bench in benches if bench.named_by == key for it in bench.models])
            for key in {bench.named_by for bench in benches}
        }
        cases = [
            self._case(layer, bench, names[bench.named_by][model], model, ep, shape, overrides)
            for bench in benches
            for model, ep, shape in product(bench.models, bench.eps, bench.shapes)
        ]
        seen: dict[str, SuiteCase] = {}
        for case in cases:
            twin = seen.setdefault(case.id.casefold(), case)  # some file systems do not tell upper from lower case
            if twin is not case:
                message = (
                    f"{case.id} is there already, from {dotted_key(twin.where)}; give its ep or shape another name"
                )
                raise self._file.mistake(case.where, message)
        for override in overrides:
            if not any(override.does_fit(_axes(it.named_by, it.model_name, it.ep, it.shape)) for it in cases):
                raise self._file.mistake((*override.where, "where"), "fits no case")
        return Suite(name, self._file, cases, self._environ)

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
        axes = _axes(bench.named_by, name, ep.name, shape.name)
        fitting = [override.layer for override in overrides if override.does_fit(axes)]
        given = merge_layers([defaults, bench.layer, ep.layer, shape.layer, *fitting])
        skip = given.pop("skip", None)
        needs = self._read_needs({key: given.pop(key) for key in NEEDS if key in given})
        for key in given.keys() & ALL.keys():
            where = given[key].where
            resolved = ALL[key].kind.with_paths(given[key].given, partial(self._resolve_path, where, model))
            given[key] = Value(resolved, where)
        return SuiteCase(
            id=plain_name("--".join(map(plain_name, filter(None, (name, ep.name, shape.name))))).lstrip("."),
            model=str(model),
            model_name=name,
            ep=ep.name,
            shape=shape.name,
            skip=None if skip is None else skip.given,
            given=given,
            where=bench.where,
            named_by=bench.named_by,
            needs=needs,
        )

    def _read_needs(self, given: Mapping[str, Value]) -> Needs:
        needs = build(Needs, {key: value.given for key, value in given.items()})
        with self._file.blaming_option(keys_by_option(given), ()):
            check_values(needs)
        return needs

    def _resolve_path(self, where: Where, model: Path, path: str) -> str:
        """A path relative to the file, in which {model} and {folder} stand for the model's name and folder."""
        values = {"model": model.stem, "folder": str(model.parent.absolute())}

        def value(match: re.Match[str]) -> str:
            if match[1] not in values:
                raise self._file.mistake(where, f"{match[0]} means nothing; there are {{model}} and {{folder}}")
            return values[match[1]]

        return str(self._base / re.sub(r"\{(\w*)\}", value, path))

    def _bench(self, table: dict[str, Any], where: Where, defaults: dict[str, Any]) -> _Bench:
        self._tables.check_keys(table, where, ("model", "ep", "shapes", *candidates(), *KEYS))
        named_by = next((key for key in candidates() if key in table), "model")
        is_model, eps, shapes = named_by == "model", [_Choice("", {})], [_Choice("", {})]
        if not is_model and (said := [key for key in ("model", "ep", "shapes") if key in table]):
            message = f"a {named_by}'s file says it of each stage, so leave it out of a bench with {named_by}"
            raise self._file.mistake((*where, said[0]), message)
        if is_model:
            source, ep_key = (table, where) if "ep" in table or "ep" not in defaults else (defaults, ("defaults",))
            eps = self._choices(source.get("ep", "auto"), (*ep_key, "ep"), self._ep)
        if "shapes" in table:
            shapes = self._choices(table["shapes"], (*where, "shapes"), self._shape)
        models = self._models(table, where, named_by)
        return _Bench(models, eps, shapes, self._tables.layer(table, where), where, named_by)

    def _models(self, table: dict[str, Any], where: Where, key: str) -> list[Path]:
        path_key = self._tables.require_key(table, where, key, "name a model, or several by a pattern or a list")
        with self._file.blaming_key(path_key):
            patterns = texts_of(table[key])
        found: list[Path] = []
        for pattern in patterns:
            path = self._base / pattern
            if not glob.has_magic(pattern) or kind_of(path) is not Kind.NOTHING:
                found.append(path)
                continue
            names = sorted({*_matches(path.as_posix())}, key=natural)
            matches = [Path(name) for name in names if Path(name).is_file()]
            if not matches:
                raise self._file.mistake(path_key, f"{pattern!r} matches no file")
            found += matches
        return list(dict.fromkeys(found))

    def _choices(self, value: Any, where: Where, read: Callable[[Any, Where], _Choice]) -> list[_Choice]:
        if not isinstance(value, list):
            return [read(value, where)]
        if not value:
            raise self._file.mistake(where, "must not be empty")
        return [read(item, (*where, number)) for number, item in enumerate(value)]

    def _ep(self, value: Any, where: Where) -> _Choice:
        if not isinstance(value, dict):
            with self._file.blaming_key(where):
                return _Choice(Path(text_of(value)).stem, {"ep": Value(value, where)})
        self._tables.check_keys(value, where, ("name", "ep", *KEYS))
        ep = self._tables.text(value, where, "ep")
        name = self._tables.text(value, where, "name", Path(ep).stem)
        return _Choice(name, {**self._tables.layer(value, where), "ep": Value(ep, (*where, "ep"))})

    def _shape(self, value: Any, where: Where) -> _Choice:
        table = self._tables.table(value, where, ("name", *KEYS))
        layer = self._tables.layer(table, where)
        options = [OPTIONS[key] for key in ("shape", "dim") if layer.get(key)]
        items = [it.word(name, it.text_of_entry(name, item)) for it in options for name, item in table[it.flag].items()]
        if "name" not in table and not items:
            raise self._file.mistake(where, "needs shape, dim or a name")
        return _Choice(self._tables.text(table, where, "name", "-".join(map(plain_name, items))), layer)

    def _override(self, table: dict[str, Any], where: Where) -> _Override:
        self._tables.check_keys(table, where, ("where", "skip", *KEYS))
        conditions_key = self._tables.require_key(
            table, where, "where", 'say for which cases, such as where = {ep = "webgpu"}'
        )
        conditions = self._tables.table(table["where"], conditions_key, ("model", "ep", "shape", *candidates()))
        patterns = {}
        for axis, value in conditions.items():
            with self._file.blaming_key((*conditions_key, axis)):
                patterns[axis] = texts_of(value)
        layer = self._tables.layer(table, where)
        if "skip" in table:  # says why the cases are not run; false takes it back
            with self._file.blaming_key(skip := (*where, "skip")):
                layer["skip"] = None if table["skip"] is False else Value(text_of(table["skip"]), skip)
        return _Override(patterns, layer, where)


def _names(models: Sequence[Path]) -> dict[Path, str]:
    """What to call models: by their stems, and where those are alike (``model.onnx``), by their folders too."""
    alike = Counter(model.stem for model in dict.fromkeys(models))
    return {
        model: model.stem if alike[model.stem] == 1 else f"{model.absolute().parent.name}-{model.stem}"
        for model in models
    }


def parse_shard(text: str) -> tuple[int, int]:
    """``2/4`` as (2, 4): the second of four parts; `BadInput` where it is not of that form."""
    found = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise BadInput(f"--shard {text!r}: write it as i/n, from 1/n to n/n", "--shard")
    return number, count


def shard(ids: Sequence[str], number: int, count: int) -> set[str]:
    """One of `count` parts of about equal size: by hashes, as in a file's order every second case may be on the same EP."""
    mixed = sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())
    return set(mixed[number - 1 :: count])


def _matches(pattern: str) -> Iterator[str]:
    """The files that a pattern matches; ``**`` is each folder once, wherever links lead."""
    head, recursive, tail = pattern.partition("/**")
    if not recursive or tail[:1] not in ("", "/"):
        yield from glob.iglob(pattern)
        return
    seen: set[tuple[int, int]] = set()
    for top in glob.iglob(f"{head}/"):
        for folder, inner, _ in os.walk(top, followlinks=True):
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in seen:
                inner.clear()
                continue
            seen.add((status.st_dev, status.st_ino))
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            yield from glob.iglob(f"{glob.escape(folder)}/{tail[1:] or '*'}", recursive=True)
