"""The tables and the figure of docs/scaling.md, made from measured cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reproduction.cells import Record
from reproduction.tables import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    format_table,
    make_figure,
    save_figure,
)

from .cost_model import (
    CostModel,
    Projection,
    find_limit,
    fit_costs,
    project,
)
from .disturbance import is_disturbed
from .scaling_cells import CHUNK_ROWS, LARGE_CHUNK_ROWS, N_CLASSES, N_FEATURES, N_ITERATIONS, N_NONZERO

PICTURE = "![Time per row against rows, traffic against parts, and the projection against workers](images/scaling.svg)"
BILLION = 1_000_000_000
PROJECTED_WORKERS = (1, 10, 100, 1000)
PROJECTED_PARTS = (CHUNK_ROWS, LARGE_CHUNK_ROWS)
# Samples in float32, labels, five coefficients with their atoms, a variance and a misfit.
ROW_BYTES = 4 * N_FEATURES + N_CLASSES + 8 * N_NONZERO + 8
# The start of a fit takes about as many tasks as an iteration.
N_COUNTED = N_ITERATIONS + 1


def _select(records: Sequence[Record], kind: str) -> list[dict[str, Any]]:
    """Return parameters and results of one kind of cell."""
    return [record["parameters"] | record["result"] for record in records if record["parameters"]["kind"] == kind]


def _star(cell: dict[str, Any]) -> str:
    return " *" * is_disturbed(cell["others_cores"])


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def _columns(records: Sequence[Record]) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the cells of each column of the first table by their number of rows."""
    columns: dict[str, dict[int, dict[str, Any]]] = {}
    for cell in _select(records, "memory"):
        columns.setdefault(f"memory, {_count(cell['n_jobs'], 'thread')}", {})[cell["n_rows"]] = cell
    for cell in _select(records, "workers"):
        if "chunk_rows" not in cell:
            columns.setdefault(f"Dask, {_count(cell['n_workers'], 'worker')}", {})[cell["n_rows"]] = cell
    return columns


def describe(records: Sequence[Record]) -> str:
    """Return all tables as Markdown."""
    model = fit_costs(_select(records, "workers"), N_COUNTED)
    sections = [
        _describe_machine(records[-1]),
        PICTURE,
        _describe_time(_columns(records)),
        _describe_memory(_columns(records)),
        _describe_traffic(_select(records, "workers"), model),
        *map(_describe_keeping, _select(records, "keeping")),
        *(_describe_mnist(cell, _select(records, "refined")) for cell in _select(records, "mnist")),
        _describe_model(model, _select(records, "workers")),
        _describe_projection(model, _select(records, "workers"), PROJECTED_PARTS[0]),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _describe_machine(record: Record) -> str:
    machine, versions = record["result"]["machine"], record["versions"]
    return (
        f"Measured on: {machine['cpu']}, {machine['cores']} cores, {record['measured'][:10]}, "
        f"commit {machine['commit'][:10]}{' and changes' * machine['has_uncommitted_changes']}, "
        f"Python {versions['python']}, NumPy {versions['numpy']}. "
        "A star: others used more than 0.2 cores meanwhile."
    )


def _describe_time(columns: dict[str, dict[int, dict[str, Any]]]) -> str:
    sizes = sorted({n_rows for cells in columns.values() for n_rows in cells})
    rows = [
        [f"{n_rows:,}"]
        + [
            f"{1e6 * cell['iteration_seconds'] / n_rows:.2f}{_star(cell)}" if (cell := cells.get(n_rows)) else "-"
            for cells in columns.values()
        ]
        for n_rows in sizes
    ]
    table = format_table(["rows", *columns], rows)
    return f"### Time\n\nMicroseconds per row and iteration:\n\n{table}"


def _describe_memory(columns: dict[str, dict[int, dict[str, Any]]]) -> str:
    sizes = sorted({n_rows for cells in columns.values() for n_rows in cells})
    rows = [
        [f"{n_rows:,}"]
        + [
            f"{cell['memory_bytes'] / n_rows:,.0f}" if (cell := cells.get(n_rows)) else "-"
            for cells in columns.values()
        ]
        for n_rows in sizes
    ]
    table = format_table(["rows", *columns], rows)
    largest = max(sizes)
    managed = [
        f"{cell['managed_bytes'] / largest / ROW_BYTES:.2f} on {_count(cell['n_workers'], 'worker')}"
        for cells in columns.values()
        if "managed_bytes" in (cell := cells.get(largest, {}))
    ]
    return (
        "### Memory\n\nPeak of the process, or of all workers together, beyond one that has compiled and has no rows; "
        f"bytes per row, of which the samples themselves are {4 * N_FEATURES}:\n\n{table}\n"
        f"At the end of an iteration, Dask counts (managed memory) this many times the {ROW_BYTES} bytes that samples, "
        f"labels, codes and scales of a row are, for {largest:,} rows: {', '.join(managed)}."
    )


def _describe_traffic(cells: Sequence[dict[str, Any]], model: CostModel) -> str:
    same = [
        f"It does not depend on the rows: for {_count(n_parts, 'part')} on {_count(n_workers, 'worker')}, "
        + "; ".join(f"{n_rows:,} rows {kilobytes:,.0f} kB" for n_rows, kilobytes in sizes)
        + "."
        for (n_workers, n_parts), sizes in _find_same_parts(cells).items()
    ]
    fixed, per_part = model.scheduler_bytes
    return (
        "### Traffic\n\n"
        f"Through the scheduler in an iteration, in and out: **{fixed / 1000:,.0f} kB + {per_part / 1000:.1f} kB for "
        "each part.** " + "".join(same[-1:])
    )


def _sum_through_scheduler(cell: dict[str, Any]) -> float:
    return sum(n_bytes for way, n_bytes in cell["n_bytes"].items() if "scheduler" in way)


def _find_same_parts(cells: Sequence[dict[str, Any]]) -> dict[tuple[int, int], list[tuple[int, float]]]:
    """Return rows and kilobytes through the scheduler of cells that are alike but for their number of rows."""
    groups: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for cell in sorted(cells, key=lambda cell: cell["n_rows"]):
        measured = cell["n_rows"], _sum_through_scheduler(cell) / 1000
        groups.setdefault((cell["n_workers"], cell["n_parts"]), []).append(measured)
    return {key: group for key, group in groups.items() if len(group) > 1}


def _describe_keeping(cell: dict[str, Any]) -> str:
    names = {
        "nothing": "nothing is kept",
        "checkpoint": "a checkpoint after each iteration",
    }
    rows = [
        [
            f"{text}{_star(cell)}",
            f"{1e3 * cell[name]['iteration_seconds']:,.0f}",
            f"{1e3 * cell[name]['cpu_seconds']:,.0f}",
            f"{cell[name]['scheduler_bytes'] / 1000:,.0f}",
        ]
        for name, text in names.items()
    ]
    table = format_table(["what workers keep", "ms", "ms of processors", "kB through the scheduler"], rows)
    return (
        f"### Checkpoints\n\nOne iteration, with all that is kept after it; {cell['n_rows']:,} rows in "
        f"{_count(cell['n_parts'], 'part')} on {_count(cell['n_workers'], 'worker')}. Rows go to files, not through "
        f"the scheduler:\n\n{table}"
    )


def _compare_places(measured: dict[str, dict[str, float]], n_workers: int, n_threads: int) -> str:
    """Return a table of seconds in memory and on workers."""
    rows = [
        [name, *(f"{times[place]:.2f}" for place in ("memory", "workers")), f"{_ratio(times):.2f}"]
        for name, times in measured.items()
    ]
    header = ["seconds", f"memory, {_count(n_threads, 'thread')}", f"Dask, {_count(n_workers, 'worker')}", "ratio"]
    return format_table(header, rows)


def _describe_mnist(cell: dict[str, Any], refined: Sequence[dict[str, Any]]) -> str:
    measured = {
        "a fit": cell["fit_seconds"],
        "an iteration": cell["iteration_seconds"],
        "a fit, processor time of all processes": cell["cpu_seconds"],
    }
    for other in refined:
        measured[f"an epoch of refinement, mini-batches of {other['batch_size']:,}"] = other["epoch_seconds"]
    table = _compare_places(measured, cell["n_workers"], n_threads=cell["n_workers"])
    return (
        f"### MNIST, 60,000 images, 500 atoms, T = 5, float64\n\n{table}\n"
        f"{N_ITERATIONS} iterations a fit, best of three by turns{_star(cell)}. Cut into the same parts of "
        f"{cell['chunk_rows']:,} rows, the two models {_describe_difference(cell['largest_difference'])}."
    )


def _describe_difference(difference: float) -> str:
    return f"differ by {difference:.1g} at most" if difference else "are the same, bit for bit"


def _ratio(times: dict[str, float]) -> float:
    return times["workers"] / times["memory"]


def _describe_model(model: CostModel, cells: Sequence[dict[str, Any]]) -> str:
    rows = [
        ["a row, on its worker", f"{1e6 * model.seconds_per_row:.2f} µs"],
        ["a part, on its worker, whatever its size", f"{1e3 * model.worker_seconds_per_part:.1f} ms"],
        ["the scheduler", _format_seconds(*model.scheduler_seconds)],
        ["the client", _format_seconds(*model.client_seconds)],
        ["broadcast, to each worker", f"{model.broadcast_bytes / 1000:,.0f} kB"],
        ["sums, from each part", f"{model.summand_bytes / 1000:,.0f} kB"],
        ["through the scheduler", _format_bytes(*model.scheduler_bytes)],
        ["kept by the scheduler until the next checkpoint", _format_bytes(*model.scheduler_memory)],
    ]
    errors = [_predict(model, cell).total / cell["iteration_seconds"] for cell in cells]
    return (
        f"### The cost model\n\n{format_table(['of one iteration', 'costs'], rows)}\n"
        f"The times that it gives for the cells above are {min(errors):.2f} to {max(errors):.2f} of the measured ones."
    )


def _predict(model: CostModel, cell: dict[str, Any]) -> Projection:
    return project(model, cell["n_rows"], cell["n_workers"], -(-cell["n_rows"] // cell["n_parts"]))


def _format_seconds(fixed: float, per_part: float) -> str:
    return f"{1e3 * fixed:.0f} ms + {1e3 * per_part:.2f} ms a part"


def _format_bytes(fixed: float, per_part: float) -> str:
    return f"{fixed / 1000:,.0f} kB + {per_part / 1000:,.1f} kB a part"


def _adapt(model: CostModel, cells: Sequence[dict[str, Any]], part_rows: int) -> CostModel:
    """Return the model with the time per row that was measured in parts of this size, if there were such parts."""
    like = [cell for cell in cells if cell["n_rows"] // cell["n_parts"] == part_rows]
    if not like:
        return model
    seconds = [cell["cpu_seconds"]["worker"] - model.worker_seconds_per_part * cell["n_parts"] for cell in like]
    return model._replace(seconds_per_row=sum(seconds) / sum(cell["n_rows"] for cell in like))


def _describe_projection(model: CostModel, cells: Sequence[dict[str, Any]], part_rows: int) -> str:
    model = _adapt(model, cells, part_rows)
    n_parts = -(-BILLION // part_rows)
    rows = []
    for n_workers in PROJECTED_WORKERS:
        costs = project(model, BILLION, n_workers, part_rows)
        rows.append([f"{n_workers:,}", *(f"{seconds:,.2f}" for seconds in costs), f"**{costs.total:,.1f}**"])
    table = format_table(["workers", *Projection._fields, "all"], rows)
    gigabytes, limit = model.scheduler_memory.at(n_parts) / 1e9, find_limit(model, BILLION, part_rows)
    return (
        f"### A billion rows in {n_parts:,} parts of {part_rows:,}: a projection\n\n"
        f"Seconds of an iteration, with {1e6 * model.seconds_per_row:.2f} µs a row:\n\n{table}\n"
        f"Workers are used by half or more up to about **{limit:,}** of them. "
        f"The scheduler keeps {gigabytes:.2g} GB more after each iteration, until the next checkpoint."
    )


def draw(records: Sequence[Record], folder: Path) -> None:
    """Draw time per row, traffic per part, and the projection; files are ``scaling.svg`` and ``.png``."""
    model = fit_costs(_select(records, "workers"), N_COUNTED)
    figure = make_figure(13, 4)
    time, traffic, projection = figure.subplots(1, 3)
    for (name, cells), color in zip(_columns(records).items(), (BLACK, BLUE, ORANGE, RED, GREEN, SKY), strict=False):
        sizes = sorted(cells)
        time.plot(sizes, [1e6 * cells[n]["iteration_seconds"] / n for n in sizes], "o-", color=color, label=name)
    time.set(xscale="log", xlabel="rows", ylabel="microseconds per row and iteration", ylim=(0, None))
    time.legend()
    _draw_traffic(traffic, _select(records, "workers"), model)
    _draw_projection(projection, model, _select(records, "workers"))
    save_figure(figure, folder, "scaling")


def _draw_traffic(axes: Any, cells: Sequence[dict[str, Any]], model: CostModel) -> None:
    n_parts = [cell["n_parts"] for cell in cells]
    through = [_sum_through_scheduler(cell) / 1e6 for cell in cells]
    axes.plot(n_parts, through, "o", color=BLUE, label="measured, any number of rows")
    ends = [1, max(n_parts)]
    axes.plot(ends, [model.scheduler_bytes.at(n) / 1e6 for n in ends], color=BLACK, label="a + b x parts")
    axes.set(xlabel="parts", ylabel="MB through the scheduler per iteration", ylim=(0, None))
    axes.legend()


def _draw_projection(axes: Any, model: CostModel, cells: Sequence[dict[str, Any]]) -> None:
    workers = sorted({round(10 ** (exponent / 10)) for exponent in range(31)})
    for part_rows, color in zip(PROJECTED_PARTS, (ORANGE, GREEN), strict=True):
        adapted = _adapt(model, cells, part_rows)
        seconds = [project(adapted, BILLION, n, part_rows).total for n in workers]
        axes.plot(workers, seconds, color=color, label=f"parts of {part_rows:,} rows")
    rows = [model.seconds_per_row * BILLION / n for n in workers]
    axes.plot(workers, rows, ":", color=PURPLE, label="the rows alone")
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="seconds of an iteration, a billion rows")
    axes.legend()
