"""The validator agrees with what is expected of published training plans."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from mindport.config.mindformers.findings import ERROR, WARNING, ConfigFinding, worst
from mindport.config.mindformers.judge import Case
from mindport.config.mindformers.plan import plan_of
from mindport.config.mindformers.plan_rules import check_plan
from mindport.config.mindformers.validate import Validation, validate_file
from mindport.config.yaml_file import parse_yaml
from mindport.targets.mindformers import version_named
from mindport.targets.mindformers.versions import LEGACY, MCORE

from .plans import Row, as_yaml, rows, version_of

ROWS = rows()
pytestmark = pytest.mark.skipif(not ROWS, reason="the table of plans is not beside the checkout")
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])

CONTESTED = {
    "B-291": "recompute_slice_activation is on; TransformerConfig of the published 1.7.0 raises for it. The plan is of "
    "a beta of 1.7, and 1.6.0 does not look at the key",
    "B-303": "its own note has micro_batch_num < 2*pp, for which other rows expect a warning (B-292), in legacy, too",
}
"""Rows whose expected outcome the sources contradict, with the evidence."""

ERRORS = {
    "mcore: error": "sp-without-tp",
    "mcore: error (sum(offset) must equal layers % (pp*vpp)) with the fix": "offset-sum",
    "legacy: error (ep must divide dp)": "ep-ranks",
}
"""What the table calls an error -> its code here."""

ACCEPT = {"accept": None, "accept + warning": WARNING, "accept (MTP layer counted in the split)": None}
"""What the table calls an outcome -> the gravest level."""


def judged(row: Row) -> Validation:
    """A row as a YAML of its own version and generation."""
    file = parse_yaml(json.dumps(as_yaml(row)), Path("plan.yaml"))
    return validate_file(file, version_named(version_of(row)), int(row["world"]))


def judged_as(row: Row, generation: str) -> list[ConfigFinding]:
    """Only the plan, as one of a generation; mcore is that of 1.9."""
    content = as_yaml(row)
    name = version_of(row) if generation == own_generation(row) else "1.9"
    config_class = content["model"]["model_config"].get("type", "") if generation == LEGACY else ""
    return check_plan(Case(plan_of(content), version_named(name), generation, int(row["world"]), config_class))


def own_generation(row: Row) -> str:
    return MCORE if row["use_legacy"] == "False" else LEGACY


def level(findings: list[ConfigFinding]) -> str | None:
    found = worst(findings)
    return found if found in (ERROR, WARNING) else None


def agrees(row: Row) -> bool:
    expected = row["expect_validator"]
    if ":" not in expected:
        return level(judged(row).findings) == ACCEPT[expected]
    for part in expected.split("; "):
        generation, outcome = part.split(": ", 1)
        if outcome in ACCEPT:
            full = generation == own_generation(row)
            found = judged(row).findings if full else judged_as(row, generation)
            if level(found) != ACCEPT[outcome]:
                return False
        else:
            found = judged_as(row, generation)
            codes = {finding.code: finding for finding in found if finding.level == ERROR}
            wanted = codes.get(ERRORS[part])
            if wanted is None or not wanted.fix:
                return False
    return True


@each_row
def test_the_outcome_is_the_expected_one(row: Row) -> None:
    assert agrees(row) != (row["id"] in CONTESTED)


def test_the_global_batch_is_the_expected_one() -> None:
    for row in ROWS:
        assert judged(row).global_batch_size == int(row["global_batch_size_by_rule"]), row["id"]


def test_the_offset_that_is_offered_works() -> None:
    """An offered offset, put in, is not complained about again."""
    for row, generation in product(ROWS, (LEGACY, MCORE)):
        content = as_yaml(row)
        case = Case(plan_of(content), version_named("1.9"), generation, None, "LlamaConfig")
        found = next((f for f in check_plan(case) if f.code == "offset-sum"), None)
        if found is not None:
            offered = json.loads(found.fix.removeprefix("offset: "))
            better = {**content["model"]["model_config"], "offset": offered}
            repaired = Case(
                plan_of({**content, "model": {"model_config": better}}), case.version, generation, None, "LlamaConfig"
            )
            assert not [f for f in check_plan(repaired) if f.code.startswith("offset")]


def _broken(row: Row, section: str, key: str, value: object) -> Validation:
    content = as_yaml(row)
    content.setdefault(section, {})[key] = value
    file = parse_yaml(json.dumps(content), Path("plan.yaml"))
    return validate_file(file, version_named(version_of(row)), int(row["world"]))


def test_a_plan_for_other_devices_is_refused() -> None:
    """The inverse of the table, most of which is accepted: one more data-parallel rank, on the same devices."""
    rows = [row for row in ROWS if row["use_parallel"] == "True" and row["parallel_mode"] == "1"]
    assert rows
    for row in rows:
        found = _broken(row, "parallel_config", "data_parallel", int(row["dp"]) + 1)
        assert "devices" in {finding.code for finding in found.findings if finding.level == ERROR}, row["id"]


def test_too_few_micro_batches_are_refused() -> None:
    rows = [row for row in ROWS if int(row["pp"]) > 1]
    assert rows
    for row in rows:
        found = _broken(row, "parallel_config", "micro_batch_num", int(row["pp"]) - 1)
        assert "micro-batches" in {finding.code for finding in found.findings if finding.level == ERROR}, row["id"]
