"""A gate's verdict as Markdown."""

from __future__ import annotations

from ortbench.gate.limits import FAILED, PASSED, UNCLEAR
from ortbench.gate.verdict import Verdict
from ortbench.report.comparison import comparison_markdown, side_heading

MARKS = {PASSED: "✓", FAILED: "✗", UNCLEAR: "?"}


def markdown(verdict: Verdict) -> str:
    """The gate as Markdown: verdict, checks, figures of both sides."""
    sides = list(zip(verdict.names, verdict.results, strict=True))
    lines = [f"# ortbench gate: {verdict.sentence}", ""]
    lines += [f"- {MARKS[check.verdict]} {check.verdict}: {check.text}" for check in verdict.checks]
    lines += [f"- {MARKS[FAILED]} {line}" for line in verdict.failed]
    lines += [f"- {remark}" for remark in verdict.remarks]
    if len(sides) > 1:
        lines += ["", comparison_markdown(verdict.results[::-1], verdict.names[::-1], None, in_order=False)]
    else:
        lines += ["", *(f"{name}: {line}  " for name, result in sides for line in side_heading(result))]
    return "\n".join(lines) + "\n"
