"""Figure 4 of the paper: the learned noise, class costs and dictionary, and whether they are as the paper says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ddlearn import DDLClassifier

from .cells import (
    Cell,
    Record,
    Runner,
    slug,
)
from .images import DATASETS, Floats, Split
from .models import make_classifier
from .setups import Setup
from .tables import (
    BLACK,
    BLUE,
    ORANGE,
    RED,
    format_table,
    make_figure,
    save_figure,
    write_tables,
)
from .trials import (
    JEFFREYS,
    LOSS_TITLES,
    LOSSES,
    LOW_FLOORS,
    PAPER,
    Trial,
    guess_effort,
    load_samples,
)

# The library's priors, and those of the paper, under which the objective has no minimum, with floors near zero.
PRIORS: dict[str, dict[str, Any]] = {"conjugate": {}, "Jeffreys": JEFFREYS | LOW_FLOORS}
_LIBRARY = "conjugate"
ATOM_CLASSES = {"speaks for": "speak for", "resembles": "resemble"}  # two ways to say which class an atom is of
_N_BINS = 40
_ATOM_SCALE = 1000  # atoms are kept as integers: their values times this

Numbers = dict[str, float]  # by class


class Correlation(NamedTuple):
    """Spearman's correlation over classes; not a number if one side is the same for all of them."""

    rho: float
    p_value: float

    def judge(self) -> str:
        """Say whether something is inversely related to something else, as a claim of the paper has it."""
        if not (abs(self.rho) >= 0.5 and self.p_value < 0.05):
            return "cannot be seen"
        return "holds" if self.rho < 0 else "is contradicted"


def run_parameters(
    runner: Runner,
    *,
    digits: Setup = Setup(seeds=range(3)),  # noqa: B008 - it does not change
    loss: str = "square",
) -> list[Record]:
    """Fit DDL, draw what it learned, and check what the paper says of it.

    The figures of noise and dictionary show the given loss with the first seed.  The paper's other losses are fitted
    with the first seed alone, for their class costs.
    """
    first = digits.seeds[0]
    fits = [(loss, seed) for seed in digits.seeds] + [(other, first) for other in LOSSES if other != loss]
    cells = [
        _make_cell(
            digits.make_trial("ddl", PAPER | priors | {"loss": name}, seed),
            title,
            (name, seed, title) == (loss, first, _LIBRARY),
            runner.n_jobs,
        )
        for title, priors in PRIORS.items()
        for name, seed in fits
    ]
    output, records = runner.output, runner.run(cells)
    write_tables(output, "parameters", _format(records), [_without_dictionary(record) for record in records])
    _draw_sigma(output, records)
    _draw_gamma(output, records)
    _draw_dictionary(output, records[0], DATASETS[digits.dataset].image_shape)
    return records


def _make_cell(trial: Trial, priors: str, keeps_dictionary: bool, n_jobs: int | None) -> Cell:
    parameters = trial._asdict() | {"priors": priors, "keeps_dictionary": keeps_dictionary}
    return Cell(
        slug(f"parameters {trial.dataset} {trial.settings['loss']} {priors} {trial.seed}"),
        parameters,
        partial(measure_parameters, trial, keeps_dictionary, n_jobs),
        guess_effort(trial),
    )


def _without_dictionary(record: Record) -> Record:
    """Return what a table can hold."""
    return record | {"result": {name: value for name, value in record["result"].items() if name != "dictionary"}}


def measure_parameters(trial: Trial, keeps_dictionary: bool, n_jobs: int | None) -> dict[str, Any]:
    """Fit, and return what was learned and how well each class is separated from the others."""
    data = load_samples(trial)
    model = make_classifier(**trial.settings, random_state=trial.seed, n_jobs=n_jobs).fit(data.X_train, data.y_train)
    speakers, strengths = find_speakers(model)
    result = {
        "n_iter": model.n_iter_,
        "converged": bool(model.converged_),
        "test_error": float(np.mean(model.predict(data.X_test) != data.y_test)),
        "sigma": _describe_sigma(model),
        "atoms": {
            "speaks for": _count(speakers, model.classes_),
            "resembles": _count(_find_likenesses(model.components_, data), model.classes_),
        },
    }
    result |= _describe_classes(model, data)
    if keeps_dictionary:
        atoms = np.rint(_ATOM_SCALE * model.components_).astype(int)
        result["dictionary"] = {
            "atoms": [" ".join(map(str, atom)) for atom in atoms.tolist()],
            "classes": [str(name) for name in speakers],
            "strengths": [round(float(strength), 4) for strength in strengths],
        }
    return result


def find_speakers(model: DDLClassifier) -> tuple[NDArray[Any], Floats]:
    """Return for each atom the class for which it speaks loudest, and how loud, in units of that class's cost."""
    weights = model.coef_ / model.class_cost_[:, None]
    return model.classes_[weights.argmax(axis=0)], weights.max(axis=0)


def _find_likenesses(atoms: Floats, data: Split) -> NDArray[Any]:
    """Return for each atom the class of the training sample at the smallest angle, whatever the sign."""
    return data.y_train[np.abs(atoms @ data.X_train.T).argmax(axis=1)]


def _count(members: NDArray[Any], classes: NDArray[Any]) -> dict[str, int]:
    return {str(name): int(np.count_nonzero(members == name)) for name in classes}


def _describe_sigma(model: DDLClassifier) -> dict[str, Any]:
    """Return the histogram of the samples' noise, and which density fits what is above the floor."""
    sigma = np.sqrt(model.noise_variance_.astype(np.float64))
    is_above = model.noise_variance_ > model.noise_variance_.dtype.type(model.priors_.noise_floor)
    edges = np.histogram_bin_edges(sigma, _N_BINS)
    counts = np.histogram(sigma[is_above], edges)[0]
    return {
        "median": float(np.median(sigma)),
        "median_residual": float(np.median(sigma) * np.sqrt(model.n_features_in_ + 2)),
        "largest": float(sigma.max()),
        "floor": float(np.sqrt(model.priors_.noise_floor)),
        "floor_share": model.history_[-1].floor_share,
        "n_at_floor": int(np.count_nonzero(~is_above)),
        "counts": counts.tolist(),
        "edges": edges.tolist(),
        "log_likelihood": compare_densities(sigma[is_above]),
        "log_slope": fit_log_slope(counts, edges),
        "explained": fit_inverse(counts, edges)[1],
    }


def compare_densities(values: Floats) -> dict[str, float]:
    """Return the log-likelihood per value of three densities, all cut to the range of the values, which are positive.

    1/x has only its ends to fit; the log-normal and gamma densities are those of greatest likelihood.
    """
    least, largest = values.min(), values.max()
    likelihoods = {"1/x": float(np.mean(-np.log(values)) - np.log(np.log(largest / least)))}
    for name, family in (("log-normal", stats.lognorm), ("gamma", stats.gamma)):
        fitted = family(*family.fit(values, floc=0))
        inside = fitted.cdf(largest) - fitted.cdf(least)
        likelihoods[name] = float(np.mean(fitted.logpdf(values)) - np.log(inside))
    return likelihoods


def judge_inverse(likelihoods: dict[str, float]) -> str:
    """Say whether 1/x is the likeliest density."""
    likeliest = max(likelihoods, key=lambda name: likelihoods[name])
    if likeliest == "1/x":
        return "holds"
    gain = likelihoods[likeliest] - likelihoods["1/x"]
    return f"is contradicted ({likeliest} is likelier by {gain:.2f} nats a sample)"


def fit_log_slope(counts: NDArray[np.integer], edges: Floats) -> float:
    """Return the slope of the log counts over the log values, from the highest bin on; it is -1 for 1/x."""
    centres = (edges[1:] + edges[:-1]) / 2
    is_used = (np.arange(len(counts)) >= counts.argmax()) & (counts > 0)
    if np.count_nonzero(is_used) < 2:
        return float("nan")
    return float(stats.linregress(np.log(centres[is_used]), np.log(counts[is_used])).slope)


def fit_inverse(counts: NDArray[np.integer], edges: Floats) -> tuple[float, float]:
    """Return the factor of the 1/x that is nearest to the counts by least squares, and the share that it explains.

    The share is that of the counts' variance; it is negative if their mean is nearer to them than the curve.
    """
    inverse = 2 / (edges[1:] + edges[:-1])
    factor = counts @ inverse / (inverse @ inverse)
    explained = 1 - np.sum((counts - factor * inverse) ** 2) / np.sum((counts - counts.mean()) ** 2)
    return float(factor), float(explained)


def _describe_classes(model: DDLClassifier, data: Split) -> dict[str, Any]:
    """Return numbers by class: costs, how frequent it is, and how well it is separated on the test set."""
    classes = model.classes_
    is_member = data.y_train[:, None] == classes
    margins = np.where(is_member, 1, -1) * (model.codes_ @ model.coef_.T + model.intercept_)
    penalties = model.priors_.ridge / 2 * np.sum(model.coef_.astype(np.float64) ** 2, axis=1)
    mean_cost = (model.loss_.value(margins).sum(axis=0) + penalties) / (len(margins) + 1)
    scores = model.transform(data.X_test) @ model.coef_.T + model.intercept_
    is_tested = data.y_test[:, None] == classes
    is_found = (model.predict(data.X_test) == data.y_test)[:, None] & is_tested

    def by_class(numbers: Floats) -> Numbers:
        return {str(name): float(number) for name, number in zip(classes, numbers, strict=True)}

    return {
        "gamma": by_class(model.class_cost_),
        "first_gamma": by_class(model.priors_.class_cost),
        "mean_cost": by_class(mean_cost),  # what gamma would be without prior and floor
        "training_share": by_class(is_member.mean(axis=0)),
        "test_share": by_class(is_tested.mean(axis=0)),
        "binary_accuracy": by_class(np.mean((scores > 0) == is_tested, axis=0)),
        "recall": by_class(is_found.sum(axis=0) / np.maximum(is_tested.sum(axis=0), 1)),
    }


def correlate(first: Numbers, second: Numbers) -> Correlation:
    """Return Spearman's correlation of two numbers over the classes."""
    pairs = np.array([[first[name], second[name]] for name in first])
    if np.any(np.ptp(pairs, axis=0) == 0):
        return Correlation(float("nan"), float("nan"))
    result = stats.spearmanr(pairs)
    return Correlation(float(result.statistic), float(result.pvalue))


def _average(numbers: Iterable[Numbers]) -> Numbers:
    numbers = list(numbers)
    return {name: float(np.mean([part[name] for part in numbers])) for name in numbers[0]}


def _relate_to_median(numbers: Numbers) -> Numbers:
    median = float(np.median(list(numbers.values())))
    return {name: number / median for name, number in numbers.items()}


def _spread(numbers: Numbers) -> float:
    return max(numbers.values()) / min(numbers.values())


def _count_seeds(n_seeds: int) -> str:
    return "1 seed" if n_seeds == 1 else f"{n_seeds} seeds"


def _pick(records: Sequence[Record], priors: str, loss: str | None = None) -> list[Record]:
    """Return the fits with these priors and this loss, in the order of their seeds; by default the loss drawn."""
    loss = loss or records[0]["parameters"]["settings"]["loss"]
    return [
        record
        for record in records
        if record["parameters"]["priors"] == priors and record["parameters"]["settings"]["loss"] == loss
    ]


def _list_losses(records: Sequence[Record]) -> list[str]:
    return [loss for loss in LOSSES if _pick(records, _LIBRARY, loss)]


def _format(records: Sequence[Record]) -> str:
    """Return all checks as Markdown."""
    parameters = records[0]["parameters"]
    settings, n_seeds = parameters["settings"], len(_pick(records, _LIBRARY))
    return "\n".join(
        [
            f"# {parameters['dataset'].upper()}: what was learned (Fig. 4)\n\nK = {settings['n_components']}, "
            f"T = {settings['n_nonzero_coefs']}, {LOSS_TITLES[settings['loss']]}, {_count_seeds(n_seeds)}; the other "
            "losses with the first seed. Other settings as in all these experiments. With the paper's priors of noise "
            "and class costs the objective has no minimum. So each fit was made twice: with the library's conjugate "
            "priors, and with the paper's (Jeffreys) and floors so "
            f"low ({', '.join(f'{name}={value:g}' for name, value in LOW_FLOORS.items())}) that hardly anything "
            "reaches them.\n",
            _format_sigma(records),
            _format_gamma(records),
            _format_atoms(records),
        ]
    )


def _format_sigma(records: Sequence[Record]) -> str:
    """Return the checks of the noise."""
    rows = []
    for priors in PRIORS:
        for record in _pick(records, priors):
            sigma = record["result"]["sigma"]
            rows.append(
                [
                    priors,
                    str(record["parameters"]["seed"]),
                    f"{sigma['median']:.4f}",
                    _show_percentage(sigma["median_residual"]),
                    f"{sigma['largest']:.4f}",
                    _show_percentage(sigma["floor_share"]),
                    *(f"{value:.3f}" for value in sigma["log_likelihood"].values()),
                    f"{sigma['log_slope']:.1f}",
                    f"{sigma['explained']:.2f}",
                    judge_inverse(sigma["log_likelihood"]),
                ]
            )
    header = ["priors", "seed", "median sigma", "its residual", "largest sigma", "at the floor"]
    header += [f"log-likelihood of the {name} density" for name in records[0]["result"]["sigma"]["log_likelihood"]]
    header += ["log-log slope", "explained by 1/x", "sigma follows 1/x"]
    return (
        '## Noise\n\n"The [sigma] histogram fits the form of the Jeffereys prior, 1/x. Most of the [sigma] values are '
        'close to zero, which indicates reliable reconstruction of the data."\n\nLog-likelihoods are per sample in '
        "nats, of the sigma above the floor; all three densities are cut to the interval from the least to the largest "
        "of them. The slope is that of the histogram past its mode, in logarithms (-1 for 1/x). Explained is the share "
        "of the counts' variance that 1/x explains at best; it is negative when a constant explains more. The residual "
        "is "
        "that of the median sigma, relative to the images, which have unit norm.\n\n" + format_table(header, rows)
    )


def _format_gamma(records: Sequence[Record]) -> str:
    """Return the checks of the class costs."""
    classes = list(records[0]["result"]["gamma"])
    first, share = classes[0], records[0]["result"]["training_share"]
    values, checks = [], []
    for loss in _list_losses(records):
        results = [record["result"] for record in _pick(records, _LIBRARY, loss)]
        gamma, accuracy = (_average(result[name] for result in results) for name in ("gamma", "binary_accuracy"))
        relative = _average(_relate_to_median(result["gamma"]) for result in results)
        title = f"{LOSS_TITLES[loss]}, {_count_seeds(len(results))}"
        values.append([title, *(f"{1000 * gamma[name]:.3g}" for name in classes)])
        highest = max(classes, key=relative.__getitem__)
        rank = 1 + sum(value > relative[first] for value in relative.values())
        performance, frequency = correlate(relative, accuracy), correlate(relative, share)
        ratios = [np.mean([_spread(result[name]) for result in results]) for name in ("first_gamma", "gamma")]
        checks.append(
            [
                title,
                f"{rank} of {len(classes)}",
                f"{relative[first]:.2f}",
                highest,
                f"{relative[highest]:.2f}",
                "holds" if highest == first else "is contradicted",
                _show(performance),
                performance.judge(),
                _show(frequency),
                *(f"{ratio:.2f}" for ratio in ratios),
            ]
        )
    header = ["loss", f"rank of {first}", f"cost of {first} / median", "highest", "highest / median"]
    header += [
        f"{first} has the highest cost",
        "rho with binary accuracy",
        "the higher the cost, the lower the accuracy",
    ]
    header += ["rho with the class's frequency", "greatest / least at the first codes", "greatest / least"]
    return (
        "## Class costs\n\n\"[gamma] take on similar values for most classes, except the '0' digit class that contains "
        "a significant amount of variation and thus the highest classification cost. Note that these values tend to be "
        'inversely proportional to the classification performance of their corresponding linear classifiers."\n\n'
        "The paper's gamma times 1000 by class, with conjugate priors (mean over the seeds):\n\n"
        + format_table(["loss", *classes], values)
        + "\nCost over median is a mean over the seeds too; rank 1 is the highest. rho is Spearman's correlation over "
        "the classes, with its p-value; binary accuracy is that of the class's one-vs-all classifier on the test set. "
        "The last columns show how far apart the costs of the classes are.\n\n" + format_table(header, checks)
    )


def _format_atoms(records: Sequence[Record]) -> str:
    """Return the checks of the dictionary."""
    results = [record["result"] for record in _pick(records, _LIBRARY)]
    classes = list(results[0]["gamma"])
    n_components = records[0]["parameters"]["settings"]["n_components"]
    shares = [1 - share for share in results[0]["test_share"].values()]
    rows: list[tuple[str, Numbers, Callable[[float], str]]] = [
        ("share of the training samples", _average(result["training_share"] for result in results), _show_percentage),
        ("binary accuracy", _average(result["binary_accuracy"] for result in results), _show_percentage),
        ("recall", _average(result["recall"] for result in results), _show_percentage),
    ]
    for kind, verb in ATOM_CLASSES.items():
        rows.append((f"atoms that {verb} it", _average(result["atoms"][kind] for result in results), "{:.1f}".format))
    table = [[title, *(show(numbers[name]) for name in classes)] for title, numbers, show in rows]
    checks = [_check_atoms(records, priors, kind) for priors in PRIORS for kind in ATOM_CLASSES]
    header = ["priors", "the atom's class", "atoms a class", "rho by seed", "mean", "rho of the means", "the claim"]
    return (
        '## Atoms\n\n"The number of atoms that resemble a particular class is inversely proportional to the accuracy '
        "of that class's binary classifier.\"\n\nAn atom speaks for the class j of greatest w_jk / gamma_j; it "
        f"resembles the class of the training sample at the smallest angle. Before the fit, "
        f"{n_components / len(classes):g} atoms are samples of each class (one more or less where that is no integer), "
        f"whatever its frequency, so only differences from that are learned. A classifier that always says no has a "
        f"binary accuracy between {100 * min(shares):.1f} % and {100 * max(shares):.1f} %. Means over the seeds, "
        "conjugate priors:\n\n"
        + format_table(["class", *classes], table)
        + "\nrho is Spearman's correlation over the classes between the number of atoms and the binary accuracy on the "
        "test set, by seed, and of the means over the seeds with its p-value.\n\n" + format_table(header, checks)
    )


def _check_atoms(records: Sequence[Record], priors: str, kind: str) -> list[str]:
    """Return a row: whether hard classes have more atoms."""
    results = [record["result"] for record in _pick(records, priors)]
    counts = _average(result["atoms"][kind] for result in results)
    correlation = correlate(counts, _average(result["binary_accuracy"] for result in results))
    by_seed = [correlate(result["atoms"][kind], result["binary_accuracy"]).rho for result in results]
    return [
        priors,
        f"that it {kind}",
        f"{min(counts.values()):.1f} to {max(counts.values()):.1f}",
        ", ".join(f"{rho:.2f}" for rho in by_seed),
        f"{np.mean(by_seed):.2f}",
        _show(correlation),
        correlation.judge(),
    ]


def _show(correlation: Correlation) -> str:
    return f"{correlation.rho:.2f} (p = {correlation.p_value:.3f})"


def _show_percentage(share: float) -> str:
    return f"{100 * share:.1f} %"


def _draw_sigma(output: Path, records: Sequence[Record]) -> None:
    """Draw the histogram of the noise of the first seed, with the nearest 1/x, for both priors."""
    figure = make_figure(11, 5.4)
    for axes, priors in zip(figure.subplots(1, len(PRIORS), sharey=True), PRIORS, strict=True):
        sigma = _pick(records, priors)[0]["result"]["sigma"]
        counts, edges = np.array(sigma["counts"]), np.array(sigma["edges"])
        factor, explained = fit_inverse(counts, edges)
        widths = np.diff(edges)
        axes.bar(edges[:-1], counts, widths, align="edge", color=BLUE, label="learned")
        dense = np.linspace(edges[0], edges[-1], 400)
        axes.plot(dense, factor / dense, color=RED, lw=2.5, label="nearest 1/x")
        axes.set_xlim(0, edges[-1])
        axes.tick_params(labelsize=12, labelleft=True)
        axes.grid(alpha=0.3)
        axes.set_title(f"{priors.capitalize()} priors", fontsize=15)
        likelihood = sigma["log_likelihood"]
        axes.set_xlabel(
            f"$\\sigma$\nshare of variance explained by 1/x: {explained:.2f}\nlog-likelihood per sample:\n"
            + ", ".join(f"{name} {value:.2f}" for name, value in likelihood.items()),
            fontsize=12,
        )
        axes.set_ylabel("Training samples", fontsize=14)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=13)
    save_figure(figure, output, "parameters_sigma")


def _draw_gamma(output: Path, records: Sequence[Record]) -> None:
    """Draw the class costs relative to their median, one panel a loss; of several seeds the mean, and a dot each."""
    figure = make_figure(11, 7)
    panels = figure.subplots(2, 2, sharey=True).flat
    for axes, loss in zip(panels, _list_losses(records), strict=True):
        gammas = [_relate_to_median(record["result"]["gamma"]) for record in _pick(records, _LIBRARY, loss)]
        classes = list(gammas[0])
        values = np.array([list(gamma.values()) for gamma in gammas])
        colours = [ORANGE] + [BLUE] * (len(classes) - 1)
        axes.bar(classes, values.mean(axis=0), color=colours)
        if len(values) > 1:
            for row in values:
                axes.plot(classes, row, "o", color=BLACK, ms=4)
        axes.axhline(1, color=BLACK, lw=1, ls="--")
        axes.tick_params(labelsize=12, labelleft=True)
        axes.grid(alpha=0.3, axis="y")
        axes.set_axisbelow(True)
        axes.set_title(f"{LOSS_TITLES[loss]} ({_count_seeds(len(values))})", fontsize=15)
        axes.set_xlabel("Class", fontsize=14)
        axes.set_ylabel(r"$\gamma$ / median of $\gamma$", fontsize=14)
    figure.suptitle("Class costs, relative to their median", fontsize=16)
    save_figure(figure, output, "parameters_gamma")


def _draw_dictionary(output: Path, record: Record, image_shape: tuple[int, int]) -> None:
    """Draw the atoms by the class that they speak for, the loudest first; gray is 0, and most of an atom is bright."""
    from matplotlib import colormaps  # late: only figures need matplotlib

    dictionary = record["result"]["dictionary"]
    atoms = np.array([atom.split() for atom in dictionary["atoms"]], float)
    atoms *= np.where(atoms.mean(axis=1) < 0, -1, 1)[:, None] / np.abs(atoms).max(axis=1, keepdims=True)
    speakers, strengths = np.array(dictionary["classes"]), np.array(dictionary["strengths"])
    n_columns = int(np.ceil(np.sqrt(len(atoms))))
    bands = []
    for name in record["result"]["gamma"]:
        members = np.flatnonzero(speakers == name)
        members = members[np.argsort(-strengths[members], kind="stable")]
        bands.append(_tile(atoms[members].reshape(-1, *image_shape), n_columns))
    height, width = (sum(len(band) for band in bands), bands[0].shape[1])
    figure = make_figure(10, 10 * height / width)
    axes = figure.subplots()
    colours = colormaps["gray"].with_extremes(bad="white")
    axes.imshow(np.concatenate(bands), cmap=colours, vmin=-1, vmax=1, interpolation="nearest")
    ends = np.cumsum([len(band) for band in bands])
    middles = [end - len(band) / 2 for end, band in zip(ends, bands, strict=True)]
    axes.set_yticks(middles, list(record["result"]["gamma"]), fontsize=18)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for end in ends[:-1]:
        axes.axhline(end - 1.5, color=ORANGE, lw=2)
    axes.spines[:].set_visible(False)
    axes.set_title("Atoms by the class that they speak for, the loudest first", fontsize=16)
    save_figure(figure, output, "parameters_dictionary")


def _tile(images: Floats, n_columns: int) -> Floats:
    """Return images side by side in rows, with gaps that are not a number, the widest after the last row."""
    n_images, height, width = images.shape
    n_rows = max(-(-n_images // n_columns), 1)
    canvas = np.full((n_rows, height + 1, n_columns, width + 1), np.nan)
    for position, image in enumerate(images):
        canvas[position // n_columns, :height, position % n_columns, :width] = image
    rows = canvas.reshape(n_rows * (height + 1), -1)
    return np.pad(rows, ((0, 2), (0, 0)), constant_values=np.nan)
