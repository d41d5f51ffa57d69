"""What Bencher reads: its metric format, https://bencher.dev/docs/reference/bencher-metric-format/"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ortbench.report.exports.series import medians, numbers
from ortbench.result import Result

LATENCY = "latency"  # Bencher's own measure of times, in ns
_MEASURES = {"B": "memory", "J": "energy"}  # which it makes when it first sees them


def bmf(results: Sequence[Result], settings: Sequence[str] = ()) -> str:
    """Every median that was measured, as ``bencher run --adapter json --file`` takes it.

    A JSON object: by the names that `ortbench.report.exports.github.action_json` gives them, ``latency`` with ``value``, the
    median in ns, and the ends of its 95 % interval, ``lower_value`` and ``upper_value``; so too ``memory`` in bytes, which has
    no interval, and ``energy`` in J. It is empty if nothing was measured.

    Args:
        results: any number of them.
        settings: of each what it was measured with, where it is one of several; see `action_json`.
    """
    found: dict[str, dict[str, dict[str, float]]] = {
        name: {LATENCY: {"value": stats.median_ns, "lower_value": stats.ci95_ns[0], "upper_value": stats.ci95_ns[1]}}
        for name, _, _, _, stats in medians(results, settings)
    }
    for name, _, number in numbers(results, settings):
        ends = {} if number.ci95 is None else dict(zip(("lower_value", "upper_value"), number.ci95, strict=True))
        found[name] = {_MEASURES[number.unit]: {"value": number.value, **ends}}
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
