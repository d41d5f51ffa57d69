"""What verdicts mean, and the codes of warnings; see `ortbench.report.glossary`."""

from __future__ import annotations

from collections.abc import Mapping

# A word: its sentence and, as far as there is more to say, what else `ortbench.report.glossary.Entry` has, in that order.
Texts = Mapping[str, tuple[str] | tuple[str, str] | tuple[str, str, str] | tuple[str, str, str, tuple[str, ...]]]

VERDICTS: Texts = {
    "slower": ("the interval of the ratio lies above 1, and beyond what counts as the same", "", "gates.md#compare"),
    "faster": ("the interval of the ratio lies below 1, and beyond what counts as the same", "", "gates.md#compare"),
    "more": ("as slower, of what a run costs besides its time", "", "costs.md#held-against-each-other"),
    "less": ("as faster, of what a run costs besides its time", "", "costs.md#held-against-each-other"),
    "same": (
        "the interval of the ratio lies within --same for certain, 2 % unless that says otherwise",
        "",
        "gates.md#compare",
    ),
    "cannot tell": (
        "the noise is too large for a verdict",
        "More time, a live gate or a quieter machine may tell. A gate ends with exit code 4.",
        "gates.md#the-rule",
    ),
    "passed": ("every limit of the gate is kept", "Exit code 0.", "gates.md#limits-that-can-be-set"),
    "failed": (
        "of a gate: a limit is not kept (exit code 3); of a mode: it gave an error or other outputs (exit code 1)",
        "",
        "running.md#exit-codes",
    ),
    "measured": (
        "a case of a suite without a gate: it has figures, and nothing that it could pass or fail",
        "",
        "suites.md",
    ),
    "benchmark failed": (
        "what was to be measured could not be: the reason stands beside it",
        "Exit code 1.",
        "running.md#exit-codes",
    ),
    "not comparable": (
        "two results are of other models, shapes, EPs, devices or machines",
        "Exit code 5; --force compares them all the same.",
        "gates.md#compare",
    ),
    "not measured": (
        "a level of a load that was ended, by Ctrl-C for example, before its turn came",
        "It is no failure.",
        "load.md",
    ),
    "unsupported": ("a mode that this EP or model cannot do, with the reason", "It is no failure.", "modes.md"),
    "skipped": ("a case that the suite's file says is not to be run, with the reason", "", "suites.md"),
    "missing": ("a case that none of the merged folders has", "Exit code 1.", "suites.md#shards"),
    "interrupted": (
        "a signal ended the measurement; what was measured until then is shown and saved",
        "",
        "running.md#exit-codes",
    ),
}

WARNINGS: Texts = {
    "auto-cpu": (
        "--ep auto took the CPU EP because no EP with a GPU or NPU could be loaded; it says why",
        "Name one with --ep to have that as an error.",
        "running.md#execution-providers",
    ),
    "policy-candidates": ("--ep prefer-gpu and the like: an EP that ONNX Runtime could not choose from, and why",),
    "session-config-ignored": (
        "an entry of --session-config does nothing, certainly or probably; it says which option does it",
        "",
        "running.md#execution-providers",
    ),
    "run-config-ignored": ("the same of --run-config", "", "running.md#execution-providers"),
    "ep-option-ignored": (
        "the EP took an option without a word whose name its library does not hold",
        "",
        "running.md#execution-providers",
    ),
    "ep-name-shared": (
        "several packages bring an EP of the name that was asked for; it says which one was taken, and how to ask for the others",
        "",
        "running.md#libraries-of-one-name",
    ),
    "ep-misnamed": (
        "a package calls its EP otherwise than ONNX Runtime does, once its library is registered; the latter's name is used",
        "",
        "running.md#packages-of-plugin-eps",
    ),
    "record-env": ("environment variables that --record-env names were left out, and why", "", "running.md"),
    "named-device": ("the EP offers no EP device, so its memory is found by name",),
    "dims-set-to-1": (
        "symbolic dimensions that nobody gave are 1",
        "Figures of such a small input may say little: give them with --dim or --shape.",
        "running.md#inputs-and-outputs",
    ),
    "cpu-nodes": (
        "nodes that the EP does not take stay on the CPU, and Memcpy nodes copy between them in every run",
        "--nodes says which, and what they cost; --require-placement makes it an error.",
        "hidden-copies.md",
    ),
    "gpu-state": (
        "a GPU's clocks moved or were held back during the measurement, by what NVML reads",
        "Figures before and after are not of the same machine.",
    ),
    "throttled": (
        "rounds were measured while the GPU was held back, and are left out of all figures where enough others are there",
        "NVML says so, and by what. The samples stay in result.json, apart from the others.",
        "costs.md#clocks",
        ("held back", "throttling"),
    ),
    "clocks-not-reset": (
        "what --lock-clocks locked could not be unlocked again, and what does it",
        "",
        "costs.md#clocks",
    ),
    "outputs-differ": ("another model than the first gave other outputs, so the times are not of the same work",),
    "samples-thinned": (
        "of a soak run samples of whole rounds were left out, so that the result stays small; all figures are of the rest",
        "",
        "measuring.md#from-command-to-table",
    ),
    "not-captured": ("a profiler was not told what to record", "", "timelines.md#nsight-systems"),
    "spin-not-measured": ("--spin gave nothing, or nothing of a mode, and why", "", "costs.md#the-hosts-own-work"),
    "copies-not-measured": ("--measure-copies gave nothing, and why", "", "hidden-copies.md"),
    "nodes-failed": ("--nodes gave nothing, and why", "", "hidden-copies.md"),
    "engine-not-kept": (
        "the session did not end in order, so an engine may be built again next time",
        "",
        "engines.md",
    ),
    "switching-not-measured": (
        "calls that each have another shape failed, so that what switching costs is not or not well known",
        "",
        "sweeps.md#what-switching-costs",
    ),
    "sizes-left-out": ("copies that do not fit into memory were left out of a bandwidth sweep", "", "bandwidth.md"),
    "same-inputs": (
        "the callers of a load all have the inputs of --input, so that buffers that are mixed up would not show",
        "",
        "load.md#limits",
    ),
    "load-thinned": (
        "of a level of a load whole blocks were left out, so that the result stays small",
        "",
        "load.md#what-is-left",
    ),
    "overload": (
        "more requests came than were served, so the level was cut off and its latencies are lower bounds",
        "",
        "load.md#requests-that-are-due---rate",
    ),
    "late-requests": (
        "ortbench itself issued requests late although a caller was free",
        "",
        "load.md#reading-the-table",
    ),
    "lock-wait": ("callers of a load waited for Python's lock", "", "load.md#pythons-lock"),
}
