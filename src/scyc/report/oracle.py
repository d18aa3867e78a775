"""The tables of an oracle: best peak and feasible region of every cycle, whose peaks lie in it, and the paper's own."""

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scyc.config import Part, part
from scyc.paper import published
from scyc.peaks import place
from scyc.registry import nearest
from scyc.report.budget import Budget, budget
from scyc.report.claims import VERDICTS, Verdict
from scyc.report.document import Section
from scyc.report.formats import plain_section, table_float
from scyc.report.rows import mean, std
from scyc.report.table import escaped, known, literal, percent, piped, probability
from scyc.report.trend import trend, verdict
from scyc.run import PEAK, Pruning
from scyc.store.runs import Store

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Oracle:
    """What the store knows of a greedy search."""

    name: str
    config: Mapping[str, Any]
    records: Sequence[Record]
    compare: Mapping[str, Part]  # schedules' peaks to place relative to the feasible region
    printed: Mapping[str, Any]  # the paper's oracle of the same experiment, where there is one
    budget: Budget

    @property
    def found(self) -> list[Record]:
        """The cycles with a best peak."""
        return [record for record in self.records if "peak" in record]

    @property
    def seeds(self) -> int:
        return len(self.config["seed"])

    def peak(self, label: str, cycle: int) -> float:
        amount = self.config.get("pruning", {}).get("amount", Pruning.amount)
        return float(self.compare[label].make()(cycle, amount))


def is_oracle(store: Store, name: str) -> bool:
    return name in store.experiments() and "oracle" in store.manifest(name)


def collect(store: Store, name: str) -> Oracle:
    """An oracle from its manifest and the records of its study."""
    manifest = store.manifest(name)
    if "oracle" not in manifest:
        oracles = [other for other in store.experiments() if is_oracle(store, other)]
        raise ValueError(f"experiment {name!r} is no oracle; {nearest('oracle', name, oracles)}")
    id = manifest["schedules"][0][1][0]
    compare = {label: part(PEAK, peak) for label, peak in manifest["oracle"]["compare"]}
    printed = published().get(manifest["published"], {}).get("oracle", {})
    return Oracle(name, store.config(id), store.records(id), compare, printed, budget(store, [id]))


def spread(record: Record, name: str) -> str:
    """mean±std of the picked rows, in percent."""
    values = record[f"each_{name}"][record["peaks"].index(record["peak"])]
    return percent(mean(values)) + ("" if len(values) < 2 else f"±{percent(std(values))}")


def region(record: Record) -> str:
    """A bound that is an end of the grid is open: feasible peaks may lie beyond."""
    (low, high), peaks = record["region"], record["peaks"]
    return f"{'≤' if low == peaks[0] else ''}{low:g} to {'≥' if high == peaks[-1] else ''}{high:g}"


def lost(record: Record) -> int:
    """Peaks that a diverged seed disqualified."""
    return sum(any(step is not None for step in row) for row in record.get("each_diverged", ()))


def section(oracle: Oracle) -> Section:
    """One line per cycle, and below it the paper's where it prints that cycle."""
    paper = bool(oracle.printed)
    head = ["m", "density %", *(["of"] if paper else []), "best", "feasible", *oracle.compare]
    grid = [[*head, "validation %", "test %", "diverged"]]
    for record in oracle.records:
        grid.append(ours(oracle, record))
        if paper and record["cycle"] in oracle.printed["cycle"]:
            grid.append(theirs(oracle, record["cycle"]))
    title = (
        f"{oracle.name}: the best peak by mean validation accuracy at the early stop over {oracle.seeds} seeds, and "
        "the contiguous peaks around it within 0.5 points"
    )
    return Section(title, grid, 3 if paper else 2, (2,) if paper else (), tuple(notes(oracle)))


def ours(oracle: Oracle, record: Record) -> list[str]:
    cells = ["none", "-"], ["-", "-"]
    if "peak" in record:
        best = f"{record['peak']:g}{' edge' if record['edge'] else ''}"
        cells = [best, region(record)], [spread(record, "validation_accuracy"), spread(record, "test_accuracy")]
    density, gone = percent(record["density"], 2), f"{lost(record)} of {len(record['peaks'])}"
    places = [placed(oracle.peak(label, record["cycle"]), record) for label in oracle.compare]
    whose = ["ours"] if oracle.printed else []
    return [str(record["cycle"]), density, *whose, *cells[0], *places, *cells[1], gone]


def placed(peak: float, record: Record) -> str:
    return f"{peak:.4g} {place(peak, *record['region']) if 'region' in record else ''}".rstrip()


def theirs(oracle: Oracle, cycle: int) -> list[str]:
    """What the paper prints for this cycle; its S-Cyc peak is truncated there."""
    printed = oracle.printed
    k = printed["cycle"].index(cycle)
    low, high = printed["feasible"][k]
    peak = f"{printed['scyc'][k]:g} {place(printed['scyc'][k], low, high)}"
    places = [peak if oracle.compare[label].name == "scyc" else "-" for label in oracle.compare]
    return [
        "",
        f"{printed['density'][k]:g}",
        "paper",
        f"{printed['well_tuned'][k]:g}",
        f"{low:g} to {high:g}",
        *places,
        "-",
        "-",
        "-",
    ]


def notes(oracle: Oracle) -> list[str]:
    edges = [f"m = {record['cycle']}" for record in oracle.found if record["edge"]]
    said = [f"the best peak is at the edge of the grid at {', '.join(edges)}: search beyond it"] if edges else []
    peaks = len(oracle.config["peak"]["peaks"])
    said += [f"budget: {peaks} peaks x {oracle.seeds} seeds x {len(oracle.records)} cycles = {oracle.budget.words}"]
    said += [f"claim {v.claim}, {v.statement}: {v.verdict}; {v.words}" for v in verdicts(oracle)]
    others = [label for label in oracle.compare if oracle.compare[label].name != "scyc"]
    return [*said, *(f"{label}: {inside(oracle, label)}" for label in others)]


def verdicts(oracle: Oracle) -> list[Verdict]:
    """Claims 8 and 9, the second for every S-Cyc schedule compared."""
    scyc = [label for label in oracle.compare if oracle.compare[label].name == "scyc"]
    return [rises(oracle), *(feasible(oracle, label) for label in scyc)]


def rises(oracle: Oracle) -> Verdict:
    """How the best peak and both bounds of its region go with the cycle."""
    columns = {
        "best": [record["peak"] for record in oracle.found],
        "lower bound": [record["region"][0] for record in oracle.found],
        "upper bound": [record["region"][1] for record in oracle.found],
    }
    found = {name: trend([record["cycle"] for record in oracle.found], column) for name, column in columns.items()}
    each = ", ".join(f"{name} {t.rho:+.2f} (p {probability(t.p)})" for name, t in found.items())
    words = f"rank correlation with the cycle over {len(oracle.found)} cycles: {each}"
    return Verdict(8, verdict(found.values()), words=words)


def feasible(oracle: Oracle, label: str) -> Verdict:
    places = places_of(oracle, label)
    reached = VERDICTS[3] if not places else VERDICTS[0] if set(places.values()) == {"inside"} else VERDICTS[2]
    return Verdict(9, reached, words=f"{label} {inside(oracle, label)}")


def inside(oracle: Oracle, label: str) -> str:
    places = places_of(oracle, label)
    outside = [f"{where} at m = {cycle}" for cycle, where in places.items() if where != "inside"]
    count = f"inside in {len(places) - len(outside)} of {len(places)} cycles"
    return count + (f" ({', '.join(outside)})" if outside else "")


def places_of(oracle: Oracle, label: str) -> dict[int, str]:
    return {r["cycle"]: place(oracle.peak(label, r["cycle"]), *r["region"]) for r in oracle.found}


def sentence(oracle: Oracle) -> str:
    """What was found, in one sentence."""
    if not oracle.found:
        return "no peak of the grid trained without diverging"
    first, last = oracle.found[0], oracle.found[-1]
    own = [f"{label}'s peak is {inside(oracle, label)}" for label in oracle.compare]
    ends = [f"{r['peak']:g} at {percent(r['density'], 2)} % of the weights" for r in (first, last)]
    return "; ".join([f"the best peak goes from {ends[0]} to {ends[1]} (n = {oracle.seeds})", *own])


def latex(oracle: Oracle) -> str:
    made = section(oracle)
    sentences = [f"{escaped(note)}.\n" for note in made.notes]
    return "\n".join(["% needs \\usepackage{booktabs}", *sentences, table_float(replace(made, notes=()))])


def markdown(oracle: Oracle) -> str:
    made = section(oracle)
    notes = (f"- {literal(note)}" for note in made.notes)
    return "\n\n".join([f"**{literal(made.title)}**", piped(made.grid, made.words), *notes])


def long_form(oracle: Oracle) -> list[dict[str, Any]]:
    """One plain dictionary per cycle and peak."""
    rows = []
    for record in oracle.records:
        low, high = record.get("region", [math.inf, -math.inf])
        for k, peak in enumerate(record["peaks"]):
            row = {"oracle": oracle.name, "cycle": record["cycle"], "density": record["density"], "peak": peak}
            for name in ("validation_accuracy", "test_accuracy"):
                values = [value for value in record.get(f"each_{name}", [()] * (k + 1))[k] if value is not None]
                row |= {name: known(mean(values)), f"{name}_std": known(std(values)), "n": len(values)}
            rows.append({**row, "best": peak == record.get("peak"), "feasible": low <= peak <= high})
    return rows


def csv_text(oracle: Oracle) -> str:
    rows, out = long_form(oracle), io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["oracle"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().rstrip("\n")


def json_text(oracle: Oracle) -> str:
    compare = [{label: oracle.peak(label, record["cycle"]) for label in oracle.compare} for record in oracle.records]
    document = {
        "oracle": oracle.name,
        "seeds": oracle.config["seed"],
        "budget": vars(oracle.budget),
        "cycles": [{**record, "compare": peaks} for record, peaks in zip(oracle.records, compare, strict=True)],
        "paper": oracle.printed,
        "claims": [{"claim": v.claim, "verdict": v.verdict, "words": v.words} for v in verdicts(oracle)],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


FORMATS: dict[str, Callable[[Oracle], str]] = {
    "table": lambda oracle: plain_section(section(oracle)),
    "md": markdown,
    "latex": latex,
    "csv": csv_text,
    "json": json_text,
}
