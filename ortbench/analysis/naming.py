"""What to call results where several are shown: by the names that they were given, else by what differs between them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ortbench.analysis.items import dims_of
from ortbench.core.safe_text import LONGEST_NAME, visible
from ortbench.model.result import RUN, Result
from ortbench.model.settings import OF_SESSION

_STAMP = re.compile(r"\d{8}-\d{6}")  # what ortbench's own folders are told apart by, which tells nobody anything
_LONGEST_TRAIT = 40  # characters of a path or an option's value
_DEFAULT = "default"
_COMMIT = 7  # characters, as git shows them


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """A key to sort names by, in which numbers count as numbers: ``batch=2`` comes before ``batch=10``."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part)


def short_names(results: Sequence[Result], paths: Sequence[Path]) -> list[str]:
    """A short name for each result, no two alike, on one line.

    It is the name that it was given. What has none, or shares it, is called by what differs between the results
    (``batch=8``, ``threads=1``, ``onnxruntime 1.28.0``), then by its file or folder if somebody has named that, by the
    commit that was checked out, or else by its number.
    """
    names = [visible(_shorten(" ".join(str(it.name or "").split()), LONGEST_NAME)) for it in results]
    if len(names) > 1 and len(set(names)) == 1:
        names = [""] * len(names)  # it tells none from another
    names = _by_differences(names, [_traits(result) for result in results])
    for name in _ambiguous_names(names):
        alike = [number for number, it in enumerate(names) if it == name]
        labels = _names_by_path([results[number] for number in alike], [paths[number] for number in alike])
        for number, label in zip(alike, labels, strict=True):
            names[number] = label if name and _plain(label).startswith(_plain(name)) else f"{name} {label}".strip()
    return [f"#{number}" for number in range(1, len(names) + 1)] if _ambiguous_names(names) else names


def _plain(text: str) -> str:
    """Its letters and digits, which are what a name and the folder that is called after it have in common."""
    return re.sub(r"\W", "", text.casefold())


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _ambiguous_names(names: Sequence[str]) -> list[str]:
    """The names that do not name one result alone."""
    counts = Counter(names)
    return [name for name, count in counts.items() if count > 1 or not name]


def _by_differences(names: Sequence[str], traits: Sequence[Mapping[str, str]]) -> list[str]:
    """The names; those that do not name one result alone with what differs, as little of it as tells all apart."""
    kinds = list(dict.fromkeys(kind for trait in traits for kind in trait))
    values = [[trait.get(kind, "") for trait in traits] for kind in kinds]
    values = [of_all for of_all in values if len(set(of_all)) > 1]
    wanting = {number for name in _ambiguous_names(names) for number, it in enumerate(names) if it == name}

    def join_columns(columns: Sequence[Sequence[str]]) -> list[str]:
        own = (" ".join(filter(None, [name, *(of_all[at] for of_all in columns)])) for at, name in enumerate(names))
        return [it if at in wanting else names[at] for at, it in enumerate(own)]

    if not wanting:
        return list(names)
    chosen = next(([of_all] for of_all in values if not _ambiguous_names(join_columns([of_all]))), [])
    for of_all in () if chosen else values:
        if len(set(join_columns([*chosen, of_all]))) > len(set(join_columns(chosen))):
            chosen.append(of_all)
    return _without_defaults(chosen, join_columns)


def _without_defaults(
    columns: Sequence[Sequence[str]], join_columns: Callable[[Sequence[Sequence[str]]], list[str]]
) -> list[str]:
    """The names without settings that have their default, as far as they tell the same apart; one that has nothing else is ``default``."""
    usual = {*dict(_settings({})).values(), RUN}
    for at in range(len(columns)):
        fewer = [*columns[:at], ["" if it in usual else it for it in columns[at]], *columns[at + 1 :]]
        names = join_columns(fewer)
        if all(names) and len(set(names)) == len(set(join_columns(columns))):
            columns = fewer
    unset = {it for it in usual if it.startswith("no ") or it.endswith("=default")}
    names = [_DEFAULT if it in unset else it for it in join_columns(columns)]
    return names if len(set(names)) == len(set(join_columns(columns))) else join_columns(columns)


def _traits(result: Result) -> dict[str, str]:
    """What may tell a result from others, in words; what its user chose comes before what was found."""
    return {kind: visible(_shorten(text, _LONGEST_TRAIT)) for kind, text in _all_traits(result) if text}


def _all_traits(result: Result) -> Iterator[tuple[str, str]]:
    model, target, environment = Path(result.model["path"]), result.target, result.environment
    yield "model", model.stem
    yield "folder", f"{model.parent.name}/{model.stem}"
    ep = target["ep"].removesuffix("ExecutionProvider")
    yield "EP", ep
    for tensor in result.model["inputs"]:
        for name, size in zip(dims_of(tensor), tensor["shape"] or (), strict=False):
            if isinstance(name, str):
                yield f"dim {name}", f"{name}={size}"
    for tensor in result.model["inputs"]:
        yield f"shape {tensor['name']}", f"{tensor['name']} {'x'.join(map(str, tensor['shape'] or ()))}"
    yield from _settings(target)
    yield "kind", result.kind
    for case in result.cases:
        if case.pipeline is not None:
            yield "depth", f"depth={case.pipeline['depth']}"
    yield "onnxruntime", f"onnxruntime {environment['onnxruntime']}"
    yield "EP version", f"{ep} {target.get('ep_version') or ''}"
    library = Path(target.get("ep_library") or "")
    yield "library", library.stem
    yield "library's folder", f"{library.parent.name}/{library.stem}".strip("/.")
    yield "sha256", f"model {result.model['sha256'][:_COMMIT]}"
    device = target["device"]
    yield "device", " ".join(str(device[key]) for key in ("type", "name", "index") if device.get(key) is not None)
    yield "GPUs", ", ".join(gpu.get("name", "") for gpu in environment["gpus"]) or "no GPU"
    yield "CPU", environment["cpu"]["model"]
    yield "cores", f"{environment['cpu'].get('usable_cores')} cores"
    yield "OS", environment.get("os", "")
    yield "Python", f"Python {environment.get('python', '')}"
    yield "numpy", f"numpy {environment.get('numpy', '')}"


def _settings(target: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for setting in OF_SESSION:
        value = target.get(setting.key, setting.default)
        if isinstance(value, Mapping):
            yield setting.option, ", ".join(f"{key}={item}" for key, item in value.items()) or f"no {setting.option}"
        elif isinstance(value, list):
            yield setting.option, f"{setting.option}={','.join(value)}" if value else f"no {setting.option}"
        elif isinstance(value, bool):
            yield setting.option, setting.option if value else f"no {setting.option}"
        else:
            yield setting.option, f"{setting.option}={'default' if value is None else value}"


def _names_by_path(results: Sequence[Result], paths: Sequence[Path]) -> list[str]:
    """Names for results between which nothing differs."""
    names = [visible(name) for name in by_path(paths)]
    if not any(map(_STAMP.search, names)) and not _ambiguous_names(names):
        return names
    commits = [str(result.environment.get("git_commit") or "")[:_COMMIT] for result in results]
    if all(commits) and not _ambiguous_names(commits):
        return [f"commit {commit}" for commit in commits]
    return [f"#{number}" for number in range(1, len(paths) + 1)]


def by_path(paths: Sequence[Path]) -> list[str]:
    """Short names for result files that tell them apart: the last part of the paths in which all differ, else numbers."""
    parts = [(path.parent if path.name == "result.json" else path.with_suffix("")).absolute().parts for path in paths]
    for back in range(1, min(map(len, parts))):
        found = [part[-back] for part in parts]
        if len(set(found)) == len(found):
            return found
    return [f"{number} {part[-1]}" for number, part in enumerate(parts, 1)]
