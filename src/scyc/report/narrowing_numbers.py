"""An experiment's distributions as plain rows: CSV of what was measured, JSON with what was tested."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from scyc.distribution import MOMENTS
from scyc.report.distribution import QUANTITIES, Distributions, changes, tails
from scyc.report.narrowing import findings
from scyc.report.table import known

PlainRow = dict[str, Any]


def numbers(found: Distributions) -> list[PlainRow]:
    """One row per run, cycle and moment."""
    return [
        {
            "schedule": label,
            "seed": seed,
            **{name: row[name] for name in ("cycle", "moment", "step", "density")},
            **{named(quantity): pick(row) for quantity, pick in QUANTITIES.items()},
            **{f"{kind}_tails": tails(row, kind) for kind in ("gradients", "hidden")},
            "hidden_zero": row["hidden"]["zero"],
        }
        for label, by_seed in found.rows.items()
        for seed, rows in by_seed.items()
        for row in rows
        if row["moment"] in MOMENTS
    ]


def named(quantity: str) -> str:
    """`gradients 90 %` as a column: gradients_90."""
    return quantity.removesuffix(" %").replace(" ", "_").replace("-", "")


def csv_text(found: Distributions) -> str:
    rows, out = numbers(found), io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["schedule"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().rstrip("\n")


def json_text(found: Distributions) -> str:
    places = [(label, moment, quantity) for label in found.rows for moment in MOMENTS for quantity in QUANTITIES]
    document = {
        "experiment": found.name,
        "doc": found.doc,
        **vars(found.settings),
        "rows": numbers(found),
        "changes": [
            {"schedule": label, "moment": moment, **asdict(change)}
            for label, moment, quantity in places
            for change in changes(found, label, moment, quantity)
        ],
        "claims": [asdict(one) for one in findings(found)],
    }
    return json.dumps(finite(document), indent=2, ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:
    """The same with None for every NaN, however deep."""
    if isinstance(value, Mapping):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return known(value) if isinstance(value, float) else value
