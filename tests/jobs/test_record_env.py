"""`--record-env`: what a plugin reads is in the result, on every medium without harm, and compared; and what it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench.model.result_file import save
from ortbench.model.settings import recorded_variables
from tests.conftest import MODELS, ONCE, measure, ortbench
from tests.results import measured, result_of, steady

pytestmark = pytest.mark.process


def saved(path: Path, value: str) -> Path:
    made = result_of(measured("cpu-tensors", latency=steady([1000, 1001, 999] * 8)))
    made.environment["record_env"], made.environment["variables"] = ["SIMDEV_*"], {"SIMDEV_A": value}
    save(made, path)
    return path


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
    monkeypatch.setenv("SIMDEV_DELAY", "9")
    measure(*arguments, out=tmp_path / "other")
    ran = ortbench("compare", *sorted(tmp_path.glob("*/*/result.json")), COLUMNS="300")
    assert ": environment variable SIMDEV_DELAY: 5 → 9\n" in ran.out


def test_hostile_values_are_shown_without_harm(tmp_path: Path) -> None:
    paths = [saved(tmp_path / "a.json", "1"), saved(tmp_path / "b.json", "\x1b[31mred\nline |<b>\u202e")]
    shown = "environment variable SIMDEV_A: 1 → \N{REPLACEMENT CHARACTER}[31mred line |<b>\N{REPLACEMENT CHARACTER}"
    page = ortbench("report", paths[1], "--html", "-").out
    assert "SIMDEV_A=\N{REPLACEMENT CHARACTER}[31mred" in page
    assert "|&lt;b&gt;\N{REPLACEMENT CHARACTER}" in page
    ran = ortbench("compare", *paths, COLUMNS="300")
    assert f"• what differs (a → b): {shown}" in ran.out.splitlines()
    markdown = ortbench("compare", *paths, "--markdown", "-").out
    assert "\x1b" not in markdown
    assert r"\<b>" in markdown


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
