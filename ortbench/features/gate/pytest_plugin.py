"""The fixture `ortbench_gate`: see docs/ci.md#gates-in-pytest. Like `ortbench.api.pytest_plugin` it imports nothing that pytest has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from ortbench.api.pytest_plugin import measure_alone, note_lines

if TYPE_CHECKING:
    from ortbench.features.gate.api import Verdict

_UNCLEAR = "ortbench_unclear"
_WAYS = ("skip", "fail")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what a project can set in its configuration."""
    parser.addini(_UNCLEAR, "what a test comes to whose gate cannot tell: skip or fail", default="fail")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse (`pytest.UsageError`) a configuration that says what cannot be."""
    if (way := config.getini(_UNCLEAR)) not in _WAYS:
        raise pytest.UsageError(f"{_UNCLEAR} = {way}: write {' or '.join(_WAYS)}")


@pytest.fixture
def ortbench_gate(request: pytest.FixtureRequest) -> Callable[..., Verdict]:
    """Holds a model to limits and, in turns with it, against a baseline; a regression fails the test.

    Called with the model, and by name with the options of `ortbench.gate`, such as ``baseline_model``; gives its verdict where that is "passed". One gate that cannot tell skips the test or fails it, as the configuration says.
    """

    def hold(model: Any, **options: Any) -> Verdict:
        __tracebackhide__ = True
        import ortbench

        def gate() -> Verdict:
            return ortbench.gate(model=model, **options)

        verdict = measure_alone(gate)
        note_lines(request, [*verdict.failed_cases, *(f"{check.verdict}: {check.text}" for check in verdict.checks)])
        if verdict.passed:
            return verdict
        if verdict.word == "cannot tell" and request.config.getini(_UNCLEAR) == "skip":
            pytest.skip(f"ortbench gate: {verdict.sentence}")
        pytest.fail(f"{_first_line(verdict)}\n\n{verdict.markdown()}", pytrace=False)

    return hold


def _first_line(verdict: Verdict) -> str:
    """What pytest's summary shows: the first case or check that failed, or else that cannot be told."""
    check = min(verdict.checks, key=lambda it: ("failed", "cannot tell", "passed").index(it.verdict), default=None)
    if verdict.failed_cases or check is None:
        what = "; ".join(verdict.failed_cases[:1])
    elif check.verdict != "failed" or check.ratio is None or check.limit is None:  # what cannot be told says why
        what = check.text
    else:
        what = f"{check.name}: ratio {check.ratio:.3f}, limit {check.limit:g}"
    return f"ortbench gate {verdict.word}: {what}"
