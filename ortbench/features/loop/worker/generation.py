"""A loop that generates: which inputs of a decoder are what, the arrays of its steps, and its next tokens.

The first step takes the prompt; each step gives one token a sequence, the largest logit of the last position, which the next step
takes unless a file forces another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ortbench.analysis.feedback_pairs import CACHE_BRANCH, TOKEN_IDS, by_name, patterns
from ortbench.core.errors import BadInput
from ortbench.core.expressions import expand_pattern
from ortbench.core.units import count
from ortbench.features.loop.plan import Decoder, Steps
from ortbench.worker.proofs import FLOAT8, TOLERANCES
from ortbench.worker.session import Model
from ortbench.worker.tensors import Array, TensorSpec, describe_tensor

PART = 512  # tokens of a prompt where no option says how many, and of a run that fills the cache
_WORDS = {"mask": ("mask",), "positions": ("position",), "logits": ("logits",)}
_LENGTHS = {
    "past": ("past_sequence_length", "past_seq_len", "past_key_values_length"),
    "total": ("total_sequence_length", "total_seq_len", "current_sequence_length"),
    "branch": (CACHE_BRANCH,),
}
_FLAG = "--feedback"


class Roles(NamedTuple):
    """The names of a decoder's inputs and of its logits, by what they are; None where it has none."""

    ids: TensorSpec
    logits: TensorSpec
    mask: str | None
    positions: str | None
    past: str | None
    total: str | None
    branch: str | None


@dataclass
class Generated:
    """What a loop that generates is made of beside its feeds."""

    roles: Roles
    out: int  # the place of the logits
    context: int  # how many tokens the cache holds before the prompt
    prompt: int
    batch: int
    # the file's tokens [batch, n] int64: the context, the prompt, then those that are forced; None without a file
    given: Array | None
    tokens: Array  # those that the plain loop chose [batch, steps] int64, as its logits have them
    near: Array  # for each whether its two best logits lie closer together than outputs may differ
    next_ids: Array  # what each later step takes [batch, 1]: one array, written by the step before
    fixed: bool = False  # the cache has a fixed length
    said_by: str = ""
    prompt_ids: Array = field(init=False)  # what the first step takes [batch, prompt]
    made: dict[tuple[str, int], Array] = field(default_factory=dict)

    def depth(self, number: int) -> int:
        """How many tokens the cache holds before a step."""
        return self.context + (self.prompt + number - 1 if number else 0)

    def fed_tokens(self, number: int) -> Array:
        """The tokens [batch] that the plain loop fed to the step behind this one."""
        at = self.depth(number + 1)
        chosen: Array = self.tokens[:, number] if self.given is None or at >= self.given.shape[1] else self.given[:, at]
        return chosen

    @property
    def forced_count(self) -> int:
        """How many of the fed tokens come from the file."""
        behind = 0 if self.given is None else self.given.shape[1] - self.depth(1)
        return min(behind, int(self.tokens.shape[1]) - 1)

    def take(self, number: int, found: Sequence[Any], rtol: float | None, atol: float | None) -> None:
        """What the plain loop's step gave: its choice, and the next one's ids."""
        logits = last_position(found[self.out], self.batch)
        limits = TOLERANCES.get(logits.dtype.name, FLOAT8)
        best = np.partition(logits.astype(np.float64), -2, axis=-1)[:, -2:] if logits.shape[-1] > 1 else None
        if best is not None:
            apart = (limits[1] if atol is None else atol) + (limits[0] if rtol is None else rtol) * np.abs(best).max(-1)
            self.near[:, number] = best[:, 1] - best[:, 0] <= 2 * apart
        self.tokens[:, number] = logits.argmax(-1)
        if number + 1 < self.tokens.shape[1]:
            self.next_ids[:, 0] = self.fed_tokens(number)

    def describe(self) -> dict[str, Any]:
        return {
            "prompt": self.prompt,
            "context": self.context,
            "tokens": self.tokens.shape[1],
            "batch": self.batch,
            "forced": self.forced_count,
            "from_file": self.given is not None,
            "fixed_cache": self.fixed,
            "said_by": self.said_by,
        }


def last_position(logits: Array, batch: int) -> Array:
    """The logits [batch, vocabulary] of the last position of each sequence."""
    return logits.reshape(batch, -1, logits.shape[-1])[:, -1]


def pairs_of(path: str, model: Model, decoder: Decoder) -> list[tuple[str, str]]:
    """The names of present and past of a decoder's states: those that the folder says, else those that are alike; `BadInput`: there
    are none."""
    ins, outs = ({spec.name: spec for spec in specs} for specs in (model.inputs, model.outputs))
    said = [pair for out, into in decoder.feedback for pair in expand_pattern(out, into, list(outs)) if pair[1] in ins]
    rest = (
        [describe_tensor(spec) for name, spec in specs.items() if name not in {pair[at] for pair in said}]
        for at, specs in ((1, ins), (0, outs))
    )
    found = {**dict(said), **{out["name"]: into["name"] for out, into in by_name(*rest)}}
    if not found:
        why = f"no output looks like the next step's state; if one is, say so with {_FLAG} OUT=IN"
        raise BadInput(f"{path}: {why}", _FLAG)
    return [(name, found[name]) for name in outs if name in found]


def roles_of(path: str, model: Model, decoder: Decoder, pairs: Sequence[tuple[str, str]]) -> Roles:
    """Which inputs are what, and which output has the logits; `BadInput`: no input of token ids, no logits, or ids that are not
    [batch, sequence]."""
    state_out, state_in = ({pair[at] for pair in pairs} for at in (0, 1))
    ins = {spec.name: spec for spec in model.inputs if spec.name not in state_in}
    outs = {spec.name: spec for spec in model.outputs if spec.name not in state_out}

    def name_of(role: str, there: Mapping[str, TensorSpec]) -> str | None:
        said = decoder.names.get(role)
        if said in there:
            return said
        exact = _LENGTHS.get(role, TOKEN_IDS if role == "ids" else ())
        parts = _WORDS.get(role, ())
        return next(
            (
                name
                for name in there
                if name.lower() in exact or any(it in name.lower() and "encoder" not in name.lower() for it in parts)
            ),
            None,
        )

    def refusal(why: str) -> BadInput:
        names = patterns(pairs, [it.name for it in model.outputs], [it.name for it in model.inputs])
        as_loop = " ".join(f"{_FLAG} {out}={into}" for out, into in names)
        return BadInput(f"{path}: {why}; measure a loop: {as_loop}", _FLAG)

    own, logits = name_of("ids", ins), name_of("logits", outs)
    ids = None if own is None else ins[own]
    if ids is None or logits is None:
        lacks = "input of token ids (input_ids)" if ids is None else "output of logits (logits)"
        raise refusal(f"the model has no {lacks}, so it is no decoder")
    if len(ids.shape) != 2:
        raise refusal(f"{ids.name} is not [batch, sequence]")
    rest = (name_of(role, ins) for role in ("mask", "positions", "past", "total", "branch"))
    return Roles(ids, outs[logits], *rest)


def _tokens_of(steps: Steps, batch: int) -> Array | None:
    """The file's tokens [batch, n] int64; None without a file. Raises `BadInput`: they cannot be read, or are of another batch."""
    if steps.tokens is None:
        return None
    path = Path(steps.tokens)
    refusal = BadInput(f"--tokens {path}: is no .npy, .npz or .json with rows of token ids of one length", "--tokens")
    try:
        if path.suffix == ".json":
            found = np.asarray(json.loads(path.read_text(encoding="utf-8")))
        else:
            loaded = np.load(path, allow_pickle=False)
            found = loaded if isinstance(loaded, np.ndarray) else loaded[loaded.files[0]]
    except (OSError, ValueError, IndexError, RecursionError, MemoryError):
        raise refusal from None
    if found.dtype.kind not in "iu" or found.ndim not in (1, 2) or not found.size:
        raise refusal
    given = np.atleast_2d(found).astype(np.int64)
    if given.shape[0] not in (1, batch):
        raise BadInput(f"--tokens {steps.tokens}: {given.shape[0]} sequences, and the batch is {batch}", "--tokens")
    return np.repeat(given, batch, 0) if given.shape[0] < batch else given


def begin(path: str, model: Model, steps: Steps, roles: Roles, dims: Mapping[str, int | str]) -> Generated:
    """A generation before its first step. Raises `BadInput`: tokens that cannot be read or are too few, a prompt that the model
    cannot take or hold."""
    decoder = steps.decoder
    assert decoder is not None
    length, axis, context, most = roles.ids.shape[1], roles.ids.dims[0], steps.context, decoder.context
    batch = axis if isinstance(axis, int) else dims.get(axis, 1)
    if not isinstance(batch, int):
        raise BadInput(f"--dim {axis}={batch}: the batch of a model that generates is a number", "--dim")
    given = _tokens_of(steps, batch)
    usual = PART if most is None else max(1, min(PART, most - context - steps.count))
    if given is not None:
        usual = max(1, given.shape[1] - context)
    elif isinstance(length, int):
        usual = length
    prompt = steps.prompt_length or usual
    if given is not None and given.shape[1] < context + prompt:
        filled = f"--context {context} and " if context else ""
        reason = f"{given.shape[1]} tokens, and {filled}--prompt-length is {prompt}"
        raise BadInput(f"--tokens {steps.tokens}: {reason}", "--tokens")
    if isinstance(length, int) and length != prompt:
        before = f"; type --prompt-length {length} --context {prompt - length}" if prompt > length else ""
        reason = f"the model takes {count(length, 'token')} in a step{before}"
        raise BadInput(f"--prompt-length {prompt}: {reason}", "--prompt-length")
    if most is not None and context + prompt + steps.count > most:
        others = f"{f'--context {context} and ' if context else ''}--generate {steps.count}"
        reason = f"with {others} more than the {most} tokens of the model's context"
        raise BadInput(f"--prompt-length {prompt}: {reason}", "--prompt-length")
    if roles.logits.name in steps.keep:
        raise BadInput(f"--keep {roles.logits.name}: the host chooses the next token by it", "--keep")
    own = {roles.ids.name, *roles[2:]}
    for name in steps.fill:
        if name in own:
            raise BadInput(f"--fill {name}: the prompt and the tokens generated say what it holds", "--fill")
    return Generated(
        roles,
        [spec.name for spec in model.outputs].index(roles.logits.name),
        context,
        prompt,
        batch,
        given,
        np.zeros((batch, steps.count), np.int64),
        np.zeros((batch, steps.count), np.bool_),
        np.zeros((batch, 1), roles.ids.dtype),
        said_by=decoder.said_by,
    )


def arrays_of(told: Generated, model: Model, past: int, ids: Array) -> dict[str, Array]:
    """Ids [batch, n], mask, positions and lengths of a run behind `past` tokens in the cache."""
    roles, specs = told.roles, {spec.name: spec for spec in model.inputs}
    total = past + ids.shape[1]
    found = {roles.ids.name: ids}
    if roles.mask is not None:
        found[roles.mask] = _mask(told, specs[roles.mask], total)
    if roles.positions is not None:
        spec = specs[roles.positions]
        shape = (*(dim if isinstance(dim, int) else 1 for dim in spec.shape[:-2]), *ids.shape)[-len(spec.shape) :]
        found[roles.positions] = np.asarray(np.broadcast_to(np.arange(past, total), shape), spec.dtype, order="C")
    values = {roles.past: past, roles.total: total, roles.branch: past > 0}
    for name, value in values.items():
        if name is not None:
            spec = specs[name]
            shape = tuple(dim if isinstance(dim, int) else 1 for dim in spec.shape)
            found[name] = told.made.setdefault((name, value), np.full(shape, value, spec.dtype))
    return found


def _mask(told: Generated, spec: TensorSpec, total: int) -> Array:
    """A mask of all tokens so far, which takes no memory of its own where its length grows; of a fixed length 0 behind them."""
    length = spec.shape[-1]
    if isinstance(length, int):
        mask = np.zeros((told.batch, length), spec.dtype)
        mask[:, :total] = 1
        return mask
    most = told.batch * told.depth(told.tokens.shape[1] + 1)
    ones = told.made.setdefault((spec.name, -1), np.ones(most, spec.dtype))
    return ones[: told.batch * total].reshape(told.batch, total)
