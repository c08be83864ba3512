"""The tables of docs/performance.md, from the JSON that the benchmarks wrote; where we are slower, that row first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from .problems import SIZES
from .refinement import MNIST_RESULTS
from .report import (
    RESULTS,
    ROOT,
    format_first_calls,
    format_table,
    format_verdicts,
    put_between_markers,
)
from .targets import Verdict

PAGE = ROOT / "docs" / "performance.md"
# The modules that are run, with the names of their files.
STAGES = {
    "run": "coding",
    "elastic_net": "elastic_net",
    "refinement": "refinement",
    "latency": "latency",
    "fit": "fit",
}
WORST = 10  # rows of the grid of the elastic net
ENOUGH = 2.0  # times as fast as SPAMS is what was wanted of all of them

Results = dict[str, Any]


def write_page(page: Path = PAGE, folder: Path = RESULTS) -> None:
    """Put the tables between the markers of the page."""
    results = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("stages", *STAGES.values())}
    of_mnist = folder / f"{MNIST_RESULTS}.json"
    if of_mnist.exists():
        results["refinement"]["fits"].append(json.loads(of_mnist.read_text()))
    for name, format_part in PARTS.items():
        put_between_markers(page, format_part(results), name)


def format_machine(results: Results) -> str:
    """Tell where, when and with what the stages were run."""
    stages = results["stages"].values()
    commits = sorted({fact["commit"][:10] + " with changes" * fact["has_uncommitted_changes"] for fact in stages})
    last = list(stages)[-1]
    versions = ", ".join(
        f"{name} {number}" for name, number in last["versions"].items() if number and name != "ddlearn"
    )
    kind = "The whole of it" if all(fact["is_full"] for fact in stages) else "The short form"
    others = [fact["others_cores"] for fact in stages if fact["others_cores"] is not None]
    busy = f" Other processes used {max(others):.1f} cores at most, averaged over a benchmark." if others else ""
    return (
        f"{kind}, {last['cpu']}, {last['cores']} cores, {last['date'][:10]}, commit {', '.join(commits)}, "
        f"{sum(fact['minutes'] for fact in stages):.0f} minutes, Python {last['python']}, {versions}.{busy}"
    )


def find_slower(results: Results) -> Iterator[tuple[float, str, str]]:
    """Yield how many times as long we take, at what, and beside whom, where that is more than once."""
    for cell in results["elastic_net"]:
        what = f"code: {cell['problem']}, {cell['dtype']}"
        if cell["ratio"] is not None:
            yield 1 / cell["ratio"], what, "spams.lasso, same gap"
        yield 1 / cell["ratio_to_unsolved"], what, f"spams.lasso, gap {cell['gap']['spams']:.0e}"
    for row in results["coding"]["ratios"]:
        if row["is_speedup"]:
            yield 1 / row["ratio"], f"code: {row['size']}, {row['dtype']}", row["target"].partition("faster than ")[2]
    for row in results["refinement"]["fits"]:
        yield row["fit_over_svc"], f"fit: {row['what']}", "SVC(C=10)"
    for size, cells in results["fit"]["sizes"].items():
        for ours, peer in (("ddlearn (square)", "D-KSVD (dictlearn)"), ("ddlearn (logistic)", "D-KSVD (dictlearn)")):
            if (ratio := _divide(cells, ours, peer)) is not None:
                yield ratio, f"outer iteration: {size}, {ours}", peer


def format_slower(results: Results) -> str:
    rows = sorted((row for row in find_slower(results) if row[0] > 1), reverse=True)
    return format_table(
        ["what", "beside", "our time / theirs"], [[what, peer, f"{ratio:.1f}"] for ratio, what, peer in rows]
    )


def format_elastic_net(results: Results) -> str:
    """Return the worst rows of the grid, and what can be said of the others."""
    cells = results["elastic_net"]
    compared = sorted((cell for cell in cells if cell["ratio"] is not None), key=lambda cell: cell["ratio"])
    rows = [
        [
            *(cell["problem"], cell["dtype"], f"{cell['ratio']:.1f}"),
            *(f"{cell['microseconds'][key]:.0f}" for key in ("ours", "spams")),
            f"{cell['gap']['spams']:.0e}",
            f"{cell['nonzeros']['ours']:.0f} / {cell['nonzeros']['spams']:.0f}",
        ]
        for cell in compared[:WORST]
    ]
    header = ["problem: alpha, l1_ratio", "dtype", "same gap", "ours (µs)", "spams.lasso (µs)", "its gap", "nonzeros"]
    n_enough = sum(cell["ratio"] >= ENOUGH for cell in compared)
    n_unsolved = len(cells) - len(compared)
    return (
        f"{format_table(header, rows)}\n\n"
        f"Of {len(compared)} problems, {n_enough} are solved at least {ENOUGH:g} times as fast; the best ratio is "
        f"{compared[-1]['ratio']:.1f}. On {n_unsolved} more neither form of `spams.lasso` reaches the gap."
    )


def format_coding(results: Results) -> str:
    verdicts = [Verdict(**row) for row in results["coding"]["ratios"]]
    by_kind = groupby(sorted(verdicts, key=_has_penalty), key=_has_penalty)
    return "\n\n".join(format_verdicts(list(group)) for _, group in by_kind)


def _has_penalty(verdict: Verdict) -> bool:
    return SIZES[verdict.size].penalty is not None


def format_epochs(results: Results) -> str:
    """Return the table of epochs; that of their parts is in the results."""
    epochs = results["refinement"]["epochs"]
    names = [f"{row['what']}{', distorted' * row['distorts']}" for row in epochs]
    rows = [
        [name, f"{row['ratio']:.1f}", _judge(row["ratio"], row["wanted"])]
        for name, row in zip(names, epochs, strict=True)
    ]
    return format_table(["an epoch", "times the product", "wanted"], rows)


def format_fits(results: Results) -> str:
    rows = [
        [
            *(row["what"], f"{row['fit_over_svc']:.1f}", _judge(row["fit_over_svc"], row["wanted"])),
            f"{row['predict_faster_than_svc']:.1f}",
            f"{100 * row['error']:.2f} %",
            f"{100 * row['svc_error']:.2f} %",
        ]
        for row in results["refinement"]["fits"]
    ]
    return format_table(["", "fit / SVC's", "wanted", "predicts faster than SVC", "error", "SVC's error"], rows)


def format_prediction(results: Results) -> str:
    """Return what one sample, views and a new process cost."""
    rows = []
    for dtype, found in results["latency"].items():
        pursuit, net = found["pursuit"], found["elastic_net"]
        beyond = pursuit["predict"] - pursuit["product_and_kernel"]
        alone = net["one"] / net["one_in_batch"]
        views = net["one_in_batch_with_views"] / net["one_in_batch"]
        rows += [
            ["pursuit: one sample, beyond product and kernel (µs)", dtype, f"{beyond:.0f}", _judge(beyond, 30)],
            ["elastic net: one sample / its share of a batch", dtype, f"{alone:.1f}", _judge(alone, 2)],
            ["elastic net: 16 views / one", dtype, f"{views:.1f}", _judge(views, 6)],
        ]
    table = format_table(["prediction", "dtype", "measured", "wanted"], rows)
    return f"{table}\n\n{format_first_calls(results['coding']['first_calls'])}"


def format_iterations(results: Results) -> str:
    """Return the table of outer iterations."""
    sizes = {name: cells for name, cells in results["fit"]["sizes"].items() if "product" in cells}
    contenders = dict.fromkeys(name for cells in sizes.values() for name in cells if name != "memory")
    rows = [[name, *(_format_milliseconds(cells.get(name)) for cells in sizes.values())] for name in contenders]
    for loss in ("square", "logistic"):
        ratios = [_divide(cells, "D-KSVD (dictlearn)", f"ddlearn ({loss})") for cells in sizes.values()]
        rows.append([f"**{loss}: faster than D-KSVD**", *("-" if r is None else f"**{r:.1f}**" for r in ratios)])
    return format_table(["milliseconds", *sizes], rows)


def format_memory(results: Results) -> str:
    found = {size: cells["memory"] for size, cells in results["fit"]["sizes"].items() if cells.get("memory")}
    rows = [
        [size, f"{cell['data_bytes'] / 1e6:.0f}", f"{100 * cell['memory']:.0f} %"]
        for size, cell in sorted(found.items(), key=lambda item: -item[1]["data_bytes"])
    ]
    return format_table(["", "data (MB)", "beyond data and codes"], rows)


def format_description(results: Results) -> str:
    rows = [[f"{int(n):,}", f"{1e6 * seconds:.1f}"] for n, seconds in results["fit"].get("scaling", {}).items()]
    if not rows:
        return "Measured by `make bench FULL=1` only."
    return format_table(["rows", "microseconds per row and outer iteration"], rows)


def _judge(found: float, wanted: float | None) -> str:
    return "-" if wanted is None else f"<= {wanted:g} {'met' if found <= wanted else 'missed'}"


def _divide(cells: dict[str, Any], above: str, below: str) -> float | None:
    if not (cells.get(above) and cells.get(below)):
        return None
    return cells[above]["iteration"] / cells[below]["iteration"]


def _format_milliseconds(cell: dict[str, float] | None) -> str:
    return f"{1000 * cell['iteration']:,.1f}" if cell else "-"


# By the names of the markers.
PARTS: dict[str, Callable[[Results], str]] = {
    "machine": format_machine,
    "slower": format_slower,
    "elastic net": format_elastic_net,
    "coding": format_coding,
    "epochs": format_epochs,
    "fits": format_fits,
    "prediction": format_prediction,
    "iterations": format_iterations,
    "memory": format_memory,
    "scaling": format_description,
}
