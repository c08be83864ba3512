"""The printed tables and the facts of the machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .contenders import CONTENDERS
from .disturbance import is_disturbed
from .targets import (
    FIRST_CALL_SECONDS,
    TARGET_THREADS,
    Cell,
    Measurements,
    Verdict,
)

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PACKAGES = ["ddlearn", "numpy", "scipy", "numba", "scikit-learn", "spams-bin", "dictlearn", "celer"]


def describe_machine() -> dict[str, Any]:
    """Return what a reader needs to know about where and with what a run was made."""
    return {
        "cpu": _read_cpu_model(),
        "cores": os.cpu_count(),
        "load_average_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {package: _find_version(package) for package in PACKAGES},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _run_git("rev-parse", "HEAD") or "unknown",
        "has_uncommitted_changes": bool(_run_git("status", "--porcelain")),
    }


def _read_cpu_model() -> str:
    cpu_facts = Path("/proc/cpuinfo")
    lines = cpu_facts.read_text().splitlines() if cpu_facts.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        if package == "ddlearn":  # run from the checkout, not installed
            import ddlearn

            return ddlearn.__version__
        return None


def _run_git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def write_results(stage: str, results: Any, folder: Path = RESULTS) -> None:
    """Write what a benchmark found as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stage}.json").write_text(json.dumps(results, indent=1) + "\n")


def put_between_markers(page: Path, text: str, name: str = "begin") -> None:
    """Replace the text between a marker of a page and the end that follows it."""
    begin, end = f"<!-- measured: {name} -->", "<!-- measured: end -->"
    content = page.read_text(encoding="utf-8")
    before, marker, rest = content.partition(begin)
    _, closing, after = rest.partition(end)
    if not (marker and closing) or begin in rest:
        raise ValueError(f"{page} must hold the line {begin} once, and {end} after it, to put a table between them.")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns line up in plain text too."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def format_times(measurements: Measurements) -> Iterator[str]:
    """Yield one table per size and dtype: milliseconds by number of threads, and the grader's words next to them."""
    threads = sorted({cell.threads for cell in measurements})
    header = ["contender", *(f"ms, {n} thread{'s' * (n > 1)}" for n in threads), "mean sq. residual", "nonzeros", "gap"]
    for size, dtype in dict.fromkeys((cell.size, cell.dtype) for cell in measurements):
        rows = []
        for name, contender in CONTENDERS.items():
            found = {n: measurements.get(Cell(size, dtype, n, name)) for n in threads}
            if any(found.values()):
                rows.append([contender.label, *(_format_time(found[n]) for n in threads), *_format_grade(found)])
        yield f"{size}, {dtype}\n\n{format_table(header, rows)}\n"


def _format_time(measurement: Mapping[str, Any] | None) -> str:
    return "-" if measurement is None else f"{1e3 * measurement['seconds']:.1f}{_star(measurement['others_cores'])}"


def _star(others_cores: float | None) -> str:
    return " *" * is_disturbed(others_cores)


def _format_grade(found: Mapping[int, Mapping[str, Any] | None]) -> list[str]:
    grades = [measurement["grade"] for measurement in found.values() if measurement is not None]
    if grades[0] is None:
        return ["-", "-", "-"]
    # The worst over the numbers of threads: should they differ, it must show.
    residual = max(grade["mean_squared_residual"] for grade in grades)
    gaps = [grade["largest_gap"] for grade in grades if grade["largest_gap"] is not None]
    gap = f"{max(gaps):.0e}" if gaps else "-"
    return [f"{residual:.6f}", f"{min(grade['mean_nonzeros'] for grade in grades):.3f}", gap]


def format_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Return the table of ratios, one row per target and dtype."""
    if not verdicts:
        return f"No ratios: targets are for {TARGET_THREADS} threads and need both contenders of a pair."
    sizes = list(dict.fromkeys(verdict.size for verdict in verdicts))
    cells = {(verdict.target, verdict.dtype, verdict.size): _format_verdict(verdict) for verdict in verdicts}
    rows = [
        [target, dtype, *(cells.get((target, dtype, size), "-") for size in sizes)]
        for target, dtype in dict.fromkeys((verdict.target, verdict.dtype) for verdict in verdicts)
    ]
    return format_table([f"ratio, {TARGET_THREADS} threads", "dtype", *sizes], rows)


def _format_verdict(verdict: Verdict) -> str:
    if verdict.bound is None:
        return f"{verdict.ratio:.2f}{_star(verdict.others_cores)}"
    sign = ">=" if verdict.is_speedup else "<="
    return f"{verdict.ratio:.2f} ({sign} {verdict.bound:g}) {verdict.verdict}{_star(verdict.others_cores)}"


def format_first_calls(first_calls: Mapping[str, Mapping[str, float]]) -> str:
    """Return the table of import, first prediction of a loaded model and first coding in a new process."""
    rows = [
        [
            dtype,
            f"{times['import_seconds']:.2f}",
            f"{times['predict_seconds']:.2f}",
            f"{times['call_seconds']:.2f}",
            f"< {FIRST_CALL_SECONDS:g}",
            "met" if max(times["predict_seconds"], times["call_seconds"]) < FIRST_CALL_SECONDS else "missed",
        ]
        for dtype, times in first_calls.items()
    ]
    return format_table(
        ["new process, warm Numba cache", "import s", "load and predict s", "first coding s", "target", ""], rows
    )
