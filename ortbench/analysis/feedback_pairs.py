"""Which outputs of a model look as if they were fed back as its inputs, by their names and shapes, and how to measure that. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import groupby, takewhile

from ortbench.core.errors import BadInput
from ortbench.core.expressions import match_pairs
from ortbench.model.schema import SuggestedLoop, Tensor

Pair = tuple[Tensor, Tensor]  # an output and the input that takes it
_Key = tuple[str, ...]

# What exporters put into the names of one and the same state, before a step and behind it.
_BEFORE = {"past", "in", "i", "input", "prev", "previous", "old", "init", "initial", "last"}
_BEHIND = {"present", "out", "o", "output", "new", "next", "updated"}
_CACHE = "key values"  # past_key_values.0.key is present.0.key
_COUPLES = ({"past", "present"}, {"old", "new"}, {"prev", "next"}, {"previous", "next"})  # names that are nothing else
_MEANT_OTHERWISE = set("*=,")  # in an option's value
TOKEN_IDS = ("input_ids", "decoder_input_ids", "ids", "tokens")  # what the input of a decoder may be called
# An input of decoders that are two: with a cache, they give no encoder's keys and values back.
CACHE_BRANCH = "use_cache_branch"
_OF_ENCODER = {"encoder", "cross"}
_FLOATS = {f"tensor({name})" for name in ("float16", "bfloat16", "float", "double")}


def suggest_loop(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], command: Callable[[Collection[str], Sequence[str]], str]
) -> SuggestedLoop | None:
    """The loop that a model looks made for, by names, types and shapes, with its `command`, made of the names of its state and of the
    options that make the loop; None where nothing looks like a state."""
    inputs, outputs = (
        [it for it in tensors if not _MEANT_OTHERWISE & set(it["name"])] for tensors in (inputs, outputs)
    )
    passed = {it["name"] for it in inputs}  # an output that is an input says nothing new
    outputs = [it for it in outputs if it["name"] not in passed]
    pairs = by_name(inputs, outputs)
    sure = bool(pairs)
    pairs = pairs or _only_one_alike(inputs, outputs)
    if not pairs:
        return None
    names = [(out["name"], into["name"]) for out, into in pairs]
    shown = patterns(names, [it["name"] for it in outputs], [it["name"] for it in inputs])
    words: list[str] = []
    if not (sure and _generates(inputs, outputs, pairs)):
        for out, into in shown:
            words += ["--feedback", f"{out}={into}"]
        words += _settings(inputs, pairs)
    return {
        "feedback": [list(pair) for pair in names],
        "patterns": [list(pair) for pair in shown],
        "sure": sure,
        "command": command([into for _, into in names], words),
    }


def _generates(inputs: Sequence[Tensor], outputs: Sequence[Tensor], pairs: Sequence[Pair]) -> bool:
    """Whether it is a decoder, of which 'ortbench loop MODEL' finds all by itself."""
    state = [it for pair in pairs for it in pair]
    ids = any(it["name"].lower() in TOKEN_IDS and len(it["model_shape"]) == 2 for it in inputs if it not in state)
    return ids and any("logits" in it["name"].lower() for it in outputs if it not in state)


def by_name(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Pair]:
    """Outputs and inputs of one type and of shapes that fit each other, whose names are alike, in the order of the outputs."""
    found: dict[str, Tensor] = {}
    taken: set[str] = set()
    if any(it["name"].lower() == CACHE_BRANCH for it in inputs):
        outputs = [it for it in outputs if not _OF_ENCODER & set(_parts(it["name"]))]
    stems = partial(_stem, marks=_BEHIND), partial(_stem, marks=_BEFORE)
    for behind, before in (stems, (_numbered_behind, _numbered_before)):
        by_key: dict[_Key, list[Tensor]] = {}
        for tensor in inputs:
            by_key.setdefault(before(tensor["name"]), []).append(tensor)
        for out in (it for it in outputs if it["name"] not in found):
            alike = by_key.get(key, ()) if (key := behind(out["name"])) else ()
            into = next((it for it in alike if it["name"] not in taken and _can_feed(out, it)), None)
            if into is not None:
                found[out["name"]] = into
                taken.add(into["name"])
    return [(out, found[out["name"]]) for out in outputs if out["name"] in found]


def _only_one_alike(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Pair]:
    """The one output and the one input that are alike in type and shape, as those of a denoiser are; none if there are more."""
    alike: dict[tuple[object, ...], tuple[list[Tensor], list[Tensor]]] = {}
    for number, tensors in enumerate((outputs, inputs)):
        for tensor in tensors:
            if tensor["type"] in _FLOATS and len(tensor["model_shape"]) > 1:
                alike.setdefault((tensor["type"], *tensor["model_shape"]), ([], []))[number].append(tensor)
    pairs = [both for both in alike.values() if all(both)]
    return [(out, into) for (out,), (into,) in pairs] if [len(it) for both in pairs for it in both] == [1, 1] else []


def _can_feed(out: Tensor, into: Tensor) -> bool:
    """Whether an output could be that input in the next step."""
    if out["type"] != into["type"] or not out["type"].startswith("tensor("):
        return False
    one, other = out["model_shape"], into["model_shape"]
    # No shape is that of a scalar, and of what has no rank that is known.
    if one and other and len(one) != len(other):
        return False
    return all(a == b or not isinstance(a, int) or not isinstance(b, int) for a, b in zip(one, other, strict=False))


def _parts(name: str) -> _Key:
    """A name's words and numbers, in small letters; stateN is the state N."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return tuple(part.lower() for part in re.findall(r"[A-Za-z]+|[0-9]+", apart))


def _stem(name: str, marks: set[str]) -> _Key:
    parts = " ".join(_parts(name)).replace(_CACHE, "").split()
    kept = [part for part in parts if part not in marks]
    if kept:
        return tuple(kept)
    whole = next((couple for couple in _COUPLES if couple & set(parts)), None)
    return () if whole is None else ("", *sorted(whole))  # no word is empty, so that this is no other name's stem


def _numbered_behind(name: str) -> _Key:
    """h1, hn and stateN are h and state."""
    *first, last = _stem(name, _BEHIND) or ("",)
    if first and last in ("1", "n", "t"):
        return tuple(first)
    return (*first, last[:-1]) if len(last) > 1 and last.endswith("n") else ()


def _numbered_before(name: str) -> _Key:
    """h0 is h."""
    *first, last = _stem(name, _BEFORE) or ("",)
    return tuple(first) if first and last == "0" else (*first, last)


def patterns(pairs: Sequence[tuple[str, str]], outputs: Sequence[str], inputs: Sequence[str]) -> list[tuple[str, str]]:
    """The same pairs in few words, with a * for the text in which several differ; never one that stands for others too."""
    found: list[tuple[str, str]] = []
    for _, members in groupby(sorted(pairs, key=_frame), key=_frame):
        group = list(members)
        found += _pattern(group, outputs, inputs) if len(group) > 1 else group
    order = {out: number for number, (out, _) in enumerate(pairs)}
    return sorted(found, key=lambda it: order[it[0] if it[0] in order else match_pairs([it], outputs, inputs)[0][0]])


def _pattern(
    group: Sequence[tuple[str, str]], outputs: Sequence[str], inputs: Sequence[str]
) -> Sequence[tuple[str, str]]:
    """A group of pairs as one; itself where that would say something else."""
    before, behind, into_before, into_behind = _frame(group[0])
    texts = [out[len(before) : len(out) - len(behind)] for out, _ in group]
    starts = _start(texts)
    ends = _start([text[len(starts) :][::-1] for text in texts])[::-1]
    wide = (f"{before}*{behind}", f"{into_before}*{into_behind}")
    narrow = (f"{before}{starts}*{ends}{behind}", f"{into_before}{starts}*{ends}{into_behind}")
    for pattern in (wide, narrow) if before and into_before else (narrow, wide):
        if pattern[0].startswith("*") and len(group) == 2:
            continue  # two names say more
        try:
            if sorted(match_pairs([pattern], outputs, inputs)) == sorted(group):
                return [pattern]
        except BadInput:  # it also matches what is fed back to nothing
            continue
    return group


def _start(texts: Sequence[str]) -> str:
    alike = takewhile(lambda characters: len(set(characters)) == 1, zip(*texts, strict=False))
    return "".join(characters[0] for characters in alike)


def _frame(pair: tuple[str, str]) -> tuple[str, str, str, str]:
    """What stands before and behind the longest text that both names have: of the output, of the input; all where none is."""
    out, into = pair
    shared = max(reversed([*_shared_texts(out, into)]), key=len, default="")  # numbers stand last
    if not shared:
        return out, "", into, ""
    before, _, behind = out.partition(shared)
    into_before, _, into_behind = into.partition(shared)
    return before, behind, into_before, into_behind


def _shared_texts(one: str, other: str) -> Iterator[str]:
    """The texts that both names have, which begin where a word begins and end with a letter or a digit."""
    for start in (at for at in range(len(one)) if _begins_word(one, at)):
        for end in range(start + 1, len(one) + 1):
            text = one[start:end]
            if text not in other:
                break
            if text[-1].isalnum() and _begins_word(other, other.index(text)):
                yield text


def _begins_word(name: str, start: int) -> bool:
    return name[start].isalnum() and (start == 0 or not name[start - 1].isalnum())


def _settings(inputs: Sequence[Tensor], pairs: Sequence[Pair]) -> list[str]:
    """The options that make the inputs that are no state fit it, step by step."""
    state = {into["name"] for _, into in pairs}
    others = [it for it in inputs if it["name"] not in state]
    grown = {
        behind: before
        for out, into in pairs
        for behind, before in zip(out["model_shape"], into["model_shape"], strict=False)
        if isinstance(behind, str) and isinstance(before, str) and behind != before
    }
    found: list[str] = []
    for behind, before in grown.items():
        # A name that is a sum, as exporters give it, says its size by itself.
        if behind.isidentifier() and any(behind in it["model_shape"] for it in others):
            found += ["--dim", f"{behind}={before}+{_step_length(others, pairs)}"]
    past = next((before for before in grown.values() if before.isidentifier()), None)
    position = "step" if past is None else f"{past}+index"
    for name in _whole_numbers(others, lambda name: "mask" in name):
        found += ["--fill", f"{name}=1"]
    for name in _whole_numbers(others, lambda name: "position" in name):
        found += ["--fill", f"{name}={position}"]
    return found


def _step_length(others: Sequence[Tensor], pairs: Sequence[Pair]) -> str:
    """How many entries a step adds: the one dimension of the inputs that no state has; 1 where there is none, or are several."""
    of_state = {dim for pair in pairs for it in pair for dim in it["model_shape"]}
    names = {dim for it in others for dim in it["model_shape"] if isinstance(dim, str) and dim not in of_state}
    return names.pop() if len(names) == 1 else "1"


def _whole_numbers(tensors: Sequence[Tensor], called: Callable[[str], bool]) -> list[str]:
    """The names of the inputs of whole numbers that are called so."""
    return [it["name"] for it in tensors if it["type"].startswith("tensor(int") and called(it["name"].lower())]
