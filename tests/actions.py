"""The page of all facts with what a reader does about each: `python -m tests.actions > docs/actions.md`."""

from __future__ import annotations

import re

from ortbench.facts.sentences import sentences

_HEAD = """# From result to action

What a report says, and what to do about it. Facts that ask for nothing, or only for a longer or a quieter measurement, are left out:
verdicts with the same action stand in one row, with the text of the first. `ortbench explain CODE` has all verdicts of a fact. `result.json` has the same facts as data under `findings`: `code`, `verdict`,
`mode`, `point`, `values` (each figure with its unit and, where it is known, its 95 % interval), `next` (a command to copy, or null).

| code | verdict | the report says | do this | more |
|---|---|---|---|---|
"""

_TAIL = """
## Other lines

| the report says | it means | do this | more |
|---|---|---|---|
| `GPU was throttled` | rounds in which power or heat held the clock down are left out | cool it, or `--lock-clocks base` | [noise.md](noise.md#clocks) |
| a mode is `failed` | its outputs are not those of a plain run, or the device had not finished when it said so | do not use the mode; report it to the EP's authors, with the folder of the run | [measuring.md](measuring.md#validation-of-outputs) |
| a mode is `unsupported` | the EP or ONNX Runtime cannot do it; the line has the reason | nothing, or a newer version: `--python` tries another environment | [choose-ep.md](choose-ep.md#versions-of-onnx-runtime) |
| `gate: failed`, exit code 3 | the candidate is slower than the limit allows, beyond chance | read `Why:` below it: the nodes, or the setting that changed | [why.md](why.md) |
| `gate: cannot tell`, exit code 4 | time was up before the test could decide | more `--duration`, a wider limit, or a quieter machine | [gates.md](gates.md) |
| the SLO is `violated` | latency exceeds the limit at this load point | fewer clients or requests per second, more workers, or a faster mode; `--rate auto` finds the highest rate | [load.md](load.md) |
"""

# Actions that a reader knows without a page.
_LEFT_OUT = ("nothing", "measure longer", "measure again on a quiet machine", "keep session.run")


def page() -> str:
    """The page, as Markdown."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for (code, verdict), it in sentences().items():
        if not it.action.startswith(_LEFT_OUT):
            rows.setdefault((code, it.action, it.page), []).append(verdict)
    lines = (
        f"| `{code}` | {', '.join(f'`{it}`' for it in verdicts)} | {_shown(sentences()[code, verdicts[0]].text)} | {_shown(action)} | "
        f"{f'[{at}]({at}.md)' if at else ''} |"
        for (code, action, at), verdicts in rows.items()
    )
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


def _shown(text: str) -> str:
    """A template with the names of its values in italics."""
    return re.sub(r"\{(\w+)(?::[^}]*)?\}", r"*\1*", text).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
