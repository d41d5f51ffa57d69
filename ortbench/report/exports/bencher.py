"""What Bencher reads: its metric format, https://bencher.dev/docs/reference/bencher-metric-format/"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ortbench.model.result import Result
from ortbench.report.exports.series import figure_name, figures


def bmf(results: Sequence[Result], settings: Sequence[str] = ()) -> str:
    """Every figure that a comparison has, as ``bencher run --adapter json --file`` takes it.

    A JSON object: by the names that `ortbench.report.exports.github.action_json` gives them, the measure of the figure's unit in
    the catalogue, such as ``latency`` in ns, ``size`` in bytes or ``energy`` in J, with ``value`` and, where it has one, the ends of
    its 95 % interval, ``lower_value`` and ``upper_value``. It is empty if nothing was measured.

    Args:
        results: any number of them.
        settings: of each what it was measured with, where it is one of several; see `action_json`.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, _, it in figures(results, settings):
        ends = {} if it.ci95 is None else dict(zip(("lower_value", "upper_value"), it.ci95, strict=True))
        found[f"{name} {figure_name(it)}"] = {it.key.metric.unit.measure: {"value": it.value, **ends}}
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
