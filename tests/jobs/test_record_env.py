"""`--record-env`: what a plugin reads is in the result, on every medium without harm, and compared; and what it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench.model.settings import recorded_variables
from tests.conftest import MODELS, ONCE, measure, ortbench

HOSTILE, LOST = "\x1b[31mred\nline |<b>\u202e", "\N{REPLACEMENT CHARACTER}"


def test_a_run_records_them_and_compare_lists_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [MODELS / "tiny.onnx", "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--record-env", "SIMDEV_*"]
    monkeypatch.setenv("SIMDEV_DELAY", "5")
    monkeypatch.setenv("SIMDEV_TOKEN", "hidden")
    first = measure(*arguments, out=tmp_path / "one")
    assert first["environment"]["record_env"] == ["SIMDEV_*"]
    assert first["environment"]["variables"] == {"SIMDEV_DELAY": "5"}
    assert "hidden" not in json.dumps(first)
    assert [it["message"] for it in first["warnings"] if it["code"] == "record-env"] == [
        "--record-env: not recorded, because the name or the value looks like a secret: SIMDEV_TOKEN; "
        "one that is named without a wildcard is"
    ]
    monkeypatch.setenv("SIMDEV_DELAY", HOSTILE)
    measure(*arguments, out=tmp_path / "other")
    paths = sorted(tmp_path.glob("*/*/result.json"))
    ran = ortbench("compare", *paths, COLUMNS="300")
    assert f": environment variable SIMDEV_DELAY: 5 → {LOST}[31mred line |<b>{LOST}\n" in ran.out
    page, markdown = ortbench("report", paths[1], "--html", "-").out, ortbench("compare", *paths, "--markdown", "-").out
    assert f"SIMDEV_DELAY={LOST}[31mred" in page
    assert f"|&lt;b&gt;{LOST}" in page
    assert ("\x1b" in markdown, r"\<b>" in markdown) == (False, True)


NAMES = "NPM_AUTH CI_CRED GITHUB_PAT PGPASS MYSQL_PWD SENTRY_DSN COOKIES AZURE_SAS API_KEY"
SECRETS = dict.fromkeys(NAMES.split(), "x") | {
    "PROXY": "https://user:word@host",
    "BLOB": "https://host/a?sv=1&sig=ab",
    "STORAGE": "AccountName=a;AccountKey=b",
    "LOGIN": "ghp_abc",
}
PLAIN = dict.fromkeys(("PATH", "PATTERN", "SASS", "SIGNAL_FD", "COMPAT", "PASSES"), "a=1") | {"OTHER": "https://host/a"}


def test_what_looks_like_a_secret_is_recorded_by_its_very_name_alone() -> None:
    found, remarks = recorded_variables(["*"], {**SECRETS, **PLAIN})
    assert found == PLAIN
    assert remarks[0].count(",") - 1 == len(SECRETS) - 1
    assert recorded_variables([*SECRETS], SECRETS) == (SECRETS, [])
