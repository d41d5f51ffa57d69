"""What the columns of "What else it costs" mean; see `ortbench.glossary`."""

from __future__ import annotations

from ortbench.glossary_of_verdicts import Texts

_ENERGY = "costs.md#energy"
COSTS: Texts = {
    "cost": ("what a run costs besides its time, of results side by side", "", "costs.md#held-against-each-other"),
    "energy/run": (
        "what the device draws for a run, less what it draws idle",
        "By its energy counter in a stretch of runs after the measurement (--energy); the interval is from parts of that stretch.",
        _ENERGY,
        ("energy", "--energy", "joules", "J/run"),
    ),
    "power": ("what the device draws while runs go on, idle draw included", "", _ENERGY, ("watts",)),
    "idle": (
        "what it draws with the worker there and nothing running, right before and after",
        "",
        _ENERGY,
        ("idle draw",),
    ),
    "runs/J": ("runs for a joule: 1 J divided by energy/run, where that is above 0 for certain", "", _ENERGY),
}
