"""Several experiments beside each other: each schedule's accuracy in all of them."""

from collections.abc import Sequence

from scyc.report.analysis import Analysis
from scyc.report.document import Section, cell
from scyc.report.page.accuracy import point
from scyc.report.page.block import Chapter, Choice
from scyc.report.page.figure import Data, Figure, Look, axis, density_axis, lines
from scyc.report.rows import Row
from scyc.report.table import percent


def chapter(found: Sequence[Analysis]) -> Chapter:
    names = [one.results.name for one in found]
    shared = dict.fromkeys(label for one in found for label in one.results.rows)
    labels = [label for label in shared if sum(any(r.n for r in one.results.rows.get(label, ())) for one in found) > 1]
    tested = {one.results.challenger for one in found}
    labels.sort(key=lambda label: label not in tested)
    look = Look(tuple(names), None)
    figures = [curve(found, label, look) for label in labels]
    lead = f"{', '.join(names[:-1])} and {names[-1]}, by cycle, never by nearest density."
    return Chapter("compared", "Compared", [*([Choice(figures)] if figures else []), table(found, labels)], lead)


def curve(found: Sequence[Analysis], label: str, look: Look) -> Figure:
    """One schedule, a line per experiment."""
    rows = [(one.results.name, row) for one in found for row in one.results.rows.get(label, ()) if row.n]
    data = Data.of({**point(row), "schedule": name} for name, row in rows)
    x = density_axis("density_percent", [row.density for _, row in rows])
    y = axis("accuracy_percent", "test accuracy (%)", scale={"zero": False})
    seen = (("schedule", "experiment"), ("test accuracy", "test accuracy"), ("seeds", "n"), ("left", "weights left"))
    spec = lines(look, x, y, (*seen, ("rate", "peak learning rate"), ("cycle", "cycle m")))
    for layer in spec["layer"]:
        layer["encoding"]["color"] = {**look.colour, "legend": {"orient": "top", "title": None, "symbolOpacity": 1}}
    spec.pop("transform")
    return Figure(
        f"compared-{label}",
        f"{label}: test accuracy against density",
        {"data": {"name": "compared"}, **spec},
        {"compared": data},
        "Lines: mean over seeds at the early stop. Bands: ± one standard deviation.",
        height=360,
        options={"schedule": label},
        own=look,
    )


def table(found: Sequence[Analysis], labels: Sequence[str]) -> Section:
    """One line per schedule and cycle that more than one experiment has."""
    grid = [["schedule", "m", *(f"{word} {one.results.name}" for one in found for word in ("density %", "test %"))]]
    for label in labels:
        for cycle in range(max(one.results.cycles for one in found)):
            rows = [one.results.row(label, cycle) if label in one.results.rows else None for one in found]
            if sum(row is not None and row.n > 0 for row in rows) > 1:
                grid.append([label, str(cycle), *(word for row in rows for word in words(row))])
    return Section("Test accuracy at the early stop, percent: mean ± std (n)", grid, 2, (0,))


def words(row: Row | None) -> list[str]:
    """Density and accuracy with its n."""
    return [percent(row.density, 2), f"{cell(row, row.n)} ({row.n})"] if row and row.n else ["-", "-"]
