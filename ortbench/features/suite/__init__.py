"""`ortbench suite`: models, EPs and shapes as a TOML file says, in one folder."""

from collections.abc import Mapping
from typing import Any

from ortbench.core.features import MEASURE, Command, Feature

_OPTIONS: Mapping[str, Mapping[str, Any]] = {"json": {}, "quiet": {}, "verbose": {}}

FEATURE = Feature(
    needs=("gate",),
    uses=("load", "sweep"),
    commands={
        "suite": Command(
            group=MEASURE,
            order=90,
            sentence="Measure models, EPs and shapes as a TOML file says.",
            page="suites.md",
            option_groups=("reported",),
            options=_OPTIONS,
        ),
        "suite merge": Command(
            group=MEASURE,
            order=100,
            sentence="Merge a suite that was measured in parts (--shard).",
            page="suites.md#shards",
            option_groups=("reported",),
            options=_OPTIONS,
        ),
    },
)
