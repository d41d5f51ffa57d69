"""The page of all facts with what a reader does about each: `python -m tests.actions > docs/actions.md`."""

from __future__ import annotations

import re

from ortbench.facts.sentences import sentences

_HEAD = """# From result to action

Every fact that a report can say, and what to do about it. `result.json` has the same facts as data under `findings`: `code`, `verdict`,
`mode`, `point`, `values` (each figure with its unit and, where it is known, its 95 % interval), `next` (a command to copy, or null).
`ortbench explain WORD` explains the words.

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


def page() -> str:
    """The page, as Markdown."""
    rows = (
        f"| `{code}` | `{verdict}` | {_shown(it.text)} | {_shown(it.action)} | {f'[{it.page}]({it.page}.md)' if it.page else ''} |"
        for (code, verdict), it in sentences().items()
    )
    return _HEAD + "\n".join(rows) + "\n" + _TAIL


def _shown(text: str) -> str:
    """A template with the names of its values in italics."""
    return re.sub(r"\{(\w+)(?::[^}]*)?\}", r"*\1*", text).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
