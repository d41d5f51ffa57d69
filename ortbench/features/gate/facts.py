"""The sentences of what a gate ends with and of its checks."""

from __future__ import annotations

from ortbench.analysis.advice import Weight
from ortbench.facts.sentences import LONGER, WAIT, Sentence

_ANSWER, _COST, _DETAIL = Weight.ANSWER, Weight.COST, Weight.DETAIL


# fmt: off
SENTENCES = {
    ("gate", "passed"): Sentence("passed.", "nothing", _ANSWER, "good", "gates"),
    ("gate", "failed"): Sentence("failed.", "see the checks that failed", _ANSWER, "bad", "gates"),
    ("gate", "broken"): Sentence("the benchmark failed.", "see what failed", _ANSWER, "bad", "gates"),
    ("gate", "lacking"): Sentence("cannot tell, the checks say what is lacking.", "give what the checks name", _ANSWER, "unclear", "gates"),
    ("gate", "not-confirmed"): Sentence("cannot tell, the regression could not be measured again: {why}.", "run the gate again", _ANSWER, "unclear", "gates"),
    ("gate", "noisy"): Sentence("cannot tell, too noisy for a verdict: give a longer --duration or --wait-quiet 60s.", WAIT, _ANSWER, "unclear", "gates"),
    ("gate", "noisy-stored"): Sentence("cannot tell, too noisy for a verdict: measure both sides in turns, with --model and --baseline-model.", "a live gate", _ANSWER, "unclear", "gates"),
    # what differs between the two
    ("gate-change", "one"): Sentence("baseline → candidate: {changes:all}.", "nothing, if it is what you compare", _DETAIL, "", "gates"),
    ("gate-change", "none"): Sentence("nothing recorded differs between the two (model files with the same contents, same EP, options, versions, machine): differences are noise, or come from what is not recorded.", "check that you compare what you meant to", _DETAIL, "", "gates"),
    ("nodes-unknown", "failed"): Sentence("which nodes make the difference is not known: {why}.", "see the reason", _DETAIL, "", "why"),
    # checks of a gate, each with its figures and its limit
    ("check-mode", "works"): Sentence("mode {what} works.", "nothing", _DETAIL, "good", "gates"),
    ("check-mode", "missing"): Sentence("mode {what} was not measured.", "measure it: --mode", _ANSWER, "bad", "gates"),
    ("check-mode", "failed"): Sentence("{what} failed: {why}.", "see the reason", _ANSWER, "bad", "gates"),
    ("check-mode", "unsupported"): Sentence("{what} is unsupported: {why}.", "take another mode or EP", _ANSWER, "bad", "gates"),
    ("check-mode", "not-measured"): Sentence("{what} was not measured: {why}.", "see the reason", _ANSWER, "bad", "gates"),
    ("check-lost", "lost"): Sentence("the baseline has it.", "see what changed since the baseline", _ANSWER, "bad", "gates"),
    ("check-case", "missing"): Sentence("the baseline has no result of this case: {baseline}.", "run the suite of the baseline again", _ANSWER, "unclear", "suites"),
    ("check-nodes", "unknown"): Sentence("where nodes run is not known for this model and EP.", "leave the limit out", _ANSWER, "unclear", "copies"),
    ("check-nodes", "cpu-ep"): Sentence("no node falls back on {ep}, so this cannot fail.", "leave the limit out", _DETAIL, "", "copies"),
    ("check-nodes", "none"): Sentence("no node falls back to the CPU, must be at most {most}.", "nothing", _DETAIL, "good", "copies"),
    ("check-nodes", "some"): Sentence("{nodes:node} on the CPU ({operators}), must be at most {most}.", "see why: ortbench inspect", _ANSWER, "", "copies"),
    ("check-memory", "known"): Sentence("{what}: {memory}, must be at most {most}.", "smaller arenas or shapes", _ANSWER, "", "resources"),
    ("check-memory", "none"): Sentence("{what}: none, {why}; must be at most {most}.", "leave the limit out", _DETAIL, "good", "resources"),
    ("check-memory", "unknown"): Sentence("{what}: {why}; must be at most {most}.", "leave the limit out", _ANSWER, "unclear", "resources"),
    ("check-memory", "none-either"): Sentence("{what}: none on either side, {why}.", "leave the metric out", _DETAIL, "good", "resources"),
    ("check-memory", "unknown-of"): Sentence("{what} of the {configuration}: {why}; must be at most {limit}.", "leave the metric out", _ANSWER, "unclear", "resources"),
    ("check-copies", "host"): Sentence("{ep} computes in host memory: nothing is copied.", "leave the limit out", _DETAIL, "good", "modes"),
    ("check-copies", "passed"): Sentence("ONNX Runtime passes arrays through without a copy with CPU tensors.", "leave the limit out", _DETAIL, "good", "modes"),
    ("check-copies", "missing"): Sentence("copies of cpu-tensors: not measured, must be at most {most} of latency.", "measure both modes in the same rounds", _ANSWER, "unclear", "modes"),
    ("check-copies", "share"): Sentence("copies of cpu-tensors: {share} of latency (sequential test: {confidence} {share:to}, {rounds:round}), must be at most {most}.", "keep tensors on the device", _ANSWER, "", "modes"),
    ("check-copies", "few-rounds"): Sentence("copies of cpu-tensors: {share} of latency, must be at most {most}.", LONGER, _ANSWER, "unclear", "modes"),
    ("check-ratio", "missing"): Sentence("{what}: was not measured.", "measure it in both", _ANSWER, "unclear", "gates"),
    ("check-ratio", "at-most"): Sentence("{what}: median ratio of paired blocks {ratio} (sequential test: {confidence} {ratio:to}, {rounds:round}), must be at most {limit}.", "see why: gate --why", _ANSWER, "", "gates"),
    ("check-ratio", "at-least"): Sentence("{what}: median ratio of paired blocks {ratio} (sequential test: {confidence} {ratio:to}, {rounds:round}), must be at least {limit}.", "see what the copies cost: ortbench run", _ANSWER, "", "gates"),
    ("check-ratio", "few-at-most"): Sentence("{what}: median ratio of paired blocks {ratio} (sequential test: too few rounds for an interval, {rounds:round}), must be at most {limit}.", LONGER, _ANSWER, "unclear", "gates"),
    ("check-ratio", "few-at-least"): Sentence("{what}: median ratio of paired blocks {ratio} (sequential test: too few rounds for an interval, {rounds:round}), must be at least {limit}.", LONGER, _ANSWER, "unclear", "gates"),
    ("check-ratio", "copies-nothing"): Sentence("{what}: {phase} copies nothing.", "leave the metric out", _ANSWER, "unclear", "gates"),
    ("check-ratio", "not-apart"): Sentence("{what}: {phase} is not apart: its run waits until the device is done.", "leave the metric out", _ANSWER, "unclear", "gates"),
    ("check-doubt", "medians"): Sentence("cannot tell: the ratio of the medians, {medians}, lies on the other side of the limit; a longer --duration or a quieter machine tells more.", LONGER, _ANSWER, "unclear", "gates"),
    ("check-doubt", "outputs"): Sentence("{what}: not judged, as the outputs differ by a lower precision.", "allow the difference with --rtol", _ANSWER, "unclear", "measuring"),
    ("check-rounds", "needed"): Sentence("a verdict takes {needed:round}.", LONGER, _ANSWER, "unclear", "gates"),
    ("check-rounds", "how"): Sentence("a verdict takes {needed:round}: {how}.", "measure as it says", _ANSWER, "unclear", "gates"),
    ("check-output", "at-most"): Sentence("{metric}: {value} over {inputs:input}, must be at most {limit}.", "compare the outputs", _ANSWER, "", "measuring"),
    ("check-output", "at-least"): Sentence("{metric}: {value} over {inputs:input}, must be at least {limit}.", "compare the outputs", _ANSWER, "", "measuring"),
    ("check-output", "not-moved"): Sentence("{metric}: no output moved, must be at least {limit}.", "nothing", _DETAIL, "good", "measuring"),
    ("check-output", "differs"): Sentence("{metric}: the outputs are not {against}: {why}; limit {limit}.", "compare the outputs", _ANSWER, "bad", "measuring"),
    ("check-output", "synthetic"): Sentence("{metric}: synthetic inputs do not tell it; limit {limit}.", "--input with real inputs, such as a folder of samples", _ANSWER, "unclear", "measuring"),
    ("check-output", "missing"): Sentence("{metric}: no output has it; limit {limit}.", "take another metric of outputs", _ANSWER, "unclear", "measuring"),
    ("check-points", "best"): Sentence("best points ({point} against {other}).", "nothing", _DETAIL, "", "sweeps"),
    ("check-stored", "ratio"): Sentence("{what}: {value} against {base}, ratio {ratio} ({ratio:to} with the noise of both runs), must be at most {limit}.", "measure both in turns: a live gate", _ANSWER, "", "gates"),
    ("check-stored", "exact"): Sentence("{what}: {value} against {base}, ratio {ratio}, must be at most {limit}.", "see the tables", _ANSWER, "", "gates"),
    ("check-stored", "few-blocks"): Sentence("{what}: {value} against {base}, ratio {ratio} ({configuration} has {blocks:block} and a comparison needs {needed}: {how}), must be at most {limit}.", LONGER, _ANSWER, "unclear", "gates"),
    ("check-stored", "few-load-blocks"): Sentence("{what}: {value} against {base}, ratio {ratio} (fewer than {needed:block}, so no interval; a longer --duration gives more), must be at most {limit}.", LONGER, _ANSWER, "unclear", "gates"),
    ("check-stored", "no-interval"): Sentence("{what}: {value} against {base}, ratio {ratio} (one of them has no interval), must be at most {limit}.", "leave the metric out", _ANSWER, "unclear", "gates"),
    ("check-queue", "candidate"): Sentence("{what}: with the candidate requests come as fast as they are served or faster, so its {figure} only says how long the load point lasted.", "fewer requests", _ANSWER, "bad", "load"),
    ("check-queue", "baseline"): Sentence("{what}: with the baseline requests come as fast as they are served or faster, so its {figure} only says how long the load point lasted.", "nothing", _ANSWER, "good", "load"),
    ("check-queue", "both"): Sentence("{what}: with both sides requests come as fast as they are served or faster, so its {figure} only says how long the load point lasted.", "fewer requests", _ANSWER, "unclear", "load"),
    ("check-again", "confirmed"): Sentence("again with fresh workers: ratio {ratio} ({confidence} {ratio:to}, {rounds:round}); by both runs, of one process a side each, {both:to}.", "see why: gate --why", _ANSWER, "bad", "gates"),
    ("check-again", "the-same"): Sentence("again with fresh workers: the same.", "see the reason", _ANSWER, "bad", "gates"),
    ("check-again", "other"): Sentence("again with fresh workers: ratio {ratio} ({confidence} {ratio:to}, {rounds:round}), so the regression is not confirmed.", "run the gate again", _ANSWER, "unclear", "gates"),
    ("check-again", "few-rounds"): Sentence("again with fresh workers: ratio {ratio}, so the regression is not confirmed.", "run the gate again", _ANSWER, "unclear", "gates"),
    ("check-again", "missing"): Sentence("again with fresh workers: it was not measured, so the regression is not confirmed.", "run the gate again", _ANSWER, "unclear", "gates"),
    ("check-again", "broken"): Sentence("again with fresh workers: it failed: {why}, so the regression is not confirmed.", "run the gate again", _ANSWER, "unclear", "gates"),
}
