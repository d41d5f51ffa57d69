"""The facts of loads, and their sentences."""

from ortbench.analysis.findings.finding import Weight
from ortbench.facts.sentences import LONGER, PROGRAM, WAIT, Sentence
from ortbench.features.load.facts.points import kind_facts

__all__ = ["SENTENCES", "kind_facts"]

_DETAIL, _COST, _GAIN, _ANSWER, _DOUBT = Weight

# fmt: off
SENTENCES = {
    ("idle-spinning", "burns"): Sentence("Threads of ONNX Runtime spin between requests: {cores} cores busy at {utilisation} utilisation {where}.", "session.intra_op.allow_spinning=0, or --intra-op-threads 1", _GAIN, "bad", "resources"),
    ("slo-rate", "met"): Sentence("{mode:if} meets {slo} up to {rate}: {stat} {latency}. Violated from {violated_from} on.", "send no more to one such process", _ANSWER, "good", "load", figure=("Highest rate", "rate")),
    ("slo-rate", "met-busy"): Sentence("{mode:if} meets {slo} up to {rate}: {stat} {latency}. Above, the busy machine may be the reason.", WAIT, _ANSWER, "unclear", "load", figure=("Highest rate", "rate")),
    ("slo-rate", "met-highest"): Sentence("{mode:if} meets {slo} up to {rate}, about its throughput back to back: {stat} {latency}.", "send no more to one such process", _ANSWER, "good", "load", figure=("Highest rate", "rate")),
    ("slo-rate", "met-at-least"): Sentence("{mode:if} meets {slo} up to {rate} at least: {stat} {latency}.", LONGER, _ANSWER, "good", "load", figure=("Highest rate", "rate")),
    ("slo-rate", "none"): Sentence("{mode} meets {slo} at no rate that was tried: {stat} {latency} {first}.", "more workers, a faster mode or EP", _ANSWER, "bad", "load"),
    ("slo-rate", "noise"): Sentence("{mode} meets {slo} at no rate that was tried; the busy machine may be the reason.", WAIT, _ANSWER, "unclear", "load"),
    ("slo-rate", "open"): Sentence("Cannot tell whether {mode} meets {slo} at any rate: {why}.", LONGER, _ANSWER, "unclear", "load"),
    ("slo", "met"): Sentence("{mode:if} meets {slo} with up to {where}.", "allow no more", _ANSWER, "good", "load"),
    ("slo", "violated"): Sentence("{mode} violates {slo} {where}: {stat} {latency}.", "fewer clients or requests, more workers, a faster mode", _ANSWER, "bad", "load"),
    ("slo", "violated-at-several"): Sentence("{mode} violates {slo} {where}: {stat} {latency} {first}.", "fewer clients or requests, more workers, a faster mode", _ANSWER, "bad", "load"),
    ("slo", "saturated"): Sentence("{mode} violates {slo} {where}: the workers are saturated.", "fewer requests, more workers, a faster mode", _ANSWER, "bad", "load"),
    ("slo", "busy"): Sentence("{mode} violates {slo} {where}; the busy machine may be the reason.", WAIT, _ANSWER, "unclear", "load"),
    ("slo", "open"): Sentence("Cannot tell whether {mode} meets {slo} {where}: {why}.", LONGER, _ANSWER, "unclear", "load"),
    ("peak", "alone"): Sentence("{mode} completes {base_rate:ci} {base_where}.", "nothing", _COST, "", "load", figure=("Most inferences/s", "base_rate")),
    ("peak", "more"): Sentence("{mode:if} completes {rate} {where}, {speedup:ci} those of {base}.", PROGRAM, _ANSWER, "good", "load", figure=("Most inferences/s", "rate")),
    ("peak", "none-more"): Sentence("No mode completes more inferences than {base}: {base_rate} {base_where}.", "keep session.run", _ANSWER, "", "load", figure=("Most inferences/s", "base_rate")),
    ("peak", "open"): Sentence("Cannot tell whether a mode completes more inferences than {base}: {base_rate} {base_where}.", LONGER, _ANSWER, "unclear", "load", figure=("Most inferences/s", "base_rate")),
    ("peak", "noise"): Sentence("The machine was too busy to tell which mode completes the most inferences.", WAIT, _ANSWER, "unclear", "noise"),
    ("knee", "latency"): Sentence("{clients:client} reach {share} of the peak with {mode}: more clients add latency ({stat} {latency} to {last_latency} with {last}).", "use no more clients per session", _ANSWER, "", "load", figure=("Knee", "clients")),
    ("knee", "flat"): Sentence("{clients:client} reach {share} of the peak with {mode}: more clients complete no more.", "use no more clients per session", _ANSWER, "", "load", figure=("Knee", "clients")),
    ("knee", "beyond"): Sentence("The peak of {mode} may lie beyond {clients:client}: they complete {more} more than {fewer}.", "try more clients", _ANSWER, "", "load"),
    ("knee", "open"): Sentence("Cannot tell how many clients reach the peak with {mode}: intervals overlap.", "more processes or a longer --duration", _ANSWER, "unclear", "load"),
    ("mixing", "longer"): Sentence("Mixed shapes make the p99 of {mode} {ratio:ci} as long {where}.", "group requests by shape, or pad", _ANSWER, "", "load"),
    ("mixing", "longer-for-shape"): Sentence("Mixed shapes make the p99 of {mode} with {shape} {ratio:ci} as long {where}.", "group requests by shape, or pad", _ANSWER, "", "load"),
    ("mixing", "none"): Sentence("Mixed shapes do not make the p99 of {mode} longer: {ratio:ci} at most, {where}.", "nothing", _ANSWER, "", "load"),
    ("mixing", "open"): Sentence("Cannot tell whether mixed shapes make the p99 of {mode} longer: {ratio:ci} {where}.", LONGER, _ANSWER, "unclear", "load"),
    ("gil", "waits"): Sentence("Clients of {mode} wait for the GIL {share} of the time {where}.", "a process for each client: --sessions process", _GAIN, "", "load"),
    ("paced", "slower"): Sentence("An inference of {mode} takes {ratio} as long {where} as back to back: {time}, {back_to_back}.", "clocks fall and threads sleep between requests: --lock-clocks, or spin", _GAIN, "", "load"),
    ("saturated", "saturated"): Sentence("{mode} is saturated {where}: queue delay depends on how long the load lasts.", "fewer requests, more workers", _GAIN, "", "load"),
    ("saturated", "busy"): Sentence("{mode} is saturated {where}; the busy machine may be the reason.", WAIT, _GAIN, "unclear", "load"),
    ("generator", "late"): Sentence("The generator issued {share} of the requests late {where}, by up to {lag}.", "fewer workers, or more cores", _GAIN, "unclear", "load"),
    ("check-speedup", "known"): Sentence("throughput of {what} to that of cpu-tensors: ratio {ratio} ({ratio:to}), must be at least {limit}.", "see the load's report", _ANSWER, "", "load"),
    ("check-speedup", "few-blocks"): Sentence("throughput of {what} to that of cpu-tensors: ratio {ratio} (fewer than {needed:block}, so no interval; a longer --duration gives more), must be at least {limit}.", LONGER, _ANSWER, "unclear", "load"),
    ("check-slo", "queue"): Sentence("{stat} of {what}: requests come as fast as they are served or faster, so the queue grows as long as they come; must be at most {limit}.", "fewer requests, more workers", _ANSWER, "bad", "load"),
    ("check-slo", "old"): Sentence("{stat} of {what}: {value} (the result is of an older ortbench; measure again), must be at most {limit}.", "measure again", _ANSWER, "unclear", "load"),
    ("check-slo", "few-requests"): Sentence("{stat} of {what}: {value} (too few requests, {stat} takes {needed} or more; a longer --duration gives more), must be at most {limit}.", LONGER, _ANSWER, "unclear", "load"),
    ("check-slo", "largest"): Sentence("{stat} of {what}: {value}, must be at most {limit}.", "see the load's report", _ANSWER, "", "load"),
    ("check-slo", "met"): Sentence("{stat} of {what}: {value} (at most {high} with 95% confidence), must be at most {limit}.", "nothing", _ANSWER, "good", "load"),
    ("check-slo", "violated"): Sentence("{stat} of {what}: {value} (at least {low} with 95% confidence), must be at most {limit}.", "fewer requests, a faster mode", _ANSWER, "bad", "load"),
    ("check-slo", "open"): Sentence("{stat} of {what}: {value} ({low} to {high} with 95% confidence; a longer --duration narrows it), must be at most {limit}.", LONGER, _ANSWER, "unclear", "load"),
    ("check-slo", "open-below"): Sentence("{stat} of {what}: {value} (at most {high} with 95% confidence; a longer --duration narrows it), must be at most {limit}.", LONGER, _ANSWER, "unclear", "load"),
}
