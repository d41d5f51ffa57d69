from __future__ import annotations

from collections.abc import Sequence

from ortbench.core import units
from ortbench.facts import busy_fact, certificate_fact, certified_share
from ortbench.facts.run import findings_of
from ortbench.features.certificate.gates import USUAL_LIMIT
from ortbench.model.certificate import KeptCertificate
from ortbench.model.result import Result
from ortbench.model.schema import Certificate
from ortbench.report.model import (
    BAD,
    GOOD,
    KEY,
    NOTHING,
    UNCLEAR,
    Block,
    Column,
    Findings,
    Heading,
    Kind,
    Note,
    Notes,
    Report,
    SavedIn,
    Table,
)

_ENOUGH = 0.9  # of gates that are to find what is planted
_COLUMNS = (Column("gate of", Kind.NUMBER, KEY), Column("smallest difference", Kind.NUMBER))


def build_certificate(kept: KeptCertificate, results: Sequence[Result], saved: str | None) -> Report:
    of, machine = kept["certificate"], kept["machine"]
    cpu = results[0].environment["cpu"]
    cores = "" if cpu["usable_cores"] is None else f", {units.count(cpu['usable_cores'], 'core')}"
    heading = Heading([
        f"{cpu['model']}{cores}, {machine['system']}, ONNX Runtime {machine['ONNX Runtime']}",
        f"CPU EP, a model of {units.duration(of['model_ns'])} beside itself, {units.count(of['runs'], 'run')} within {units.duration(of['span_s'] * 1e9)}",
    ])  # fmt: skip
    busy = [fact for it in results if of["busy"] and (fact := busy_fact(it.noise)) is not None]
    doubts: list[Sequence[Block]] = [[Findings(findings_of(busy[:1]))]] if busy else []
    rows = tuple((f"{each['within_s']:g} s", _difference(each["share"], each["derived"])) for each in of["detectable"])
    tables = [[Table(_COLUMNS, rows)]] if _tells(of) else []
    return Report("Certificate of this machine", ([heading], *doubts, *tables, [_notes(kept), SavedIn(saved)]))


def _tells(certificate: Certificate) -> bool:
    """Whether gates tell any difference in a minute."""
    return certificate_fact(certificate).verdict == "tells"


def _difference(value: float | None, derived: bool) -> str:
    return NOTHING if value is None else f"{'≈' * derived}{_percent(value)}"


def _percent(value: float) -> str:
    return f"{certified_share(value).value:g}%"


def _notes(kept: KeptCertificate) -> Notes:
    of = kept["certificate"]
    is_found = of["found"] >= _ENOUGH * of["planted_gates"]
    return Notes([
        Note("A difference is told in nine gates of ten; ≈ is put together from stretches of 2 s.")
        if _tells(of)
        else Note("No difference is told for certain in a minute: certify a quiet machine.", command="ortbench doctor --certify 10m"),
        Note(
            f"False alarms: {of['alarms']} of {units.count(of['gates'], 'gate')} of equal code failed by a limit of {_percent(USUAL_LIMIT)} "
            f"(at most {_percent(of['most_alarms'])} with 95% confidence).",
            tone=BAD if of["alarms"] else GOOD,
        ),
        Note(
            f"{_percent(of['planted'])} more work was found by {of['found']} of {units.count(of['planted_gates'], 'gate')} of 10 s at most.",
            tone=GOOD if is_found else UNCLEAR,
        ),
        Note(f"Two runs at different times differ by up to {_percent(of['between_runs'])}."),
    ])  # fmt: skip
