"""Draw how long ADK's own service takes beside this store, scenario by scenario."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from tools.benchmarks.figures import Figure

_COLOURS = ("#1b6ca8", "#d1495b", "#8f8f8f", "#bdbdbd", "#66a182", "#edae49")


def draw(figures: Sequence[Figure], delays: Sequence[str], path: Path) -> None:
    """Write one bar for each subject of each scenario to *path*, whose ending says in which format.

    Nothing is written where nothing was timed.
    """
    timed = [figure for figure in figures if figure.timings]
    if not timed:
        return
    scenarios = list(dict.fromkeys(figure.scenario for figure in timed))
    subjects = list(dict.fromkeys(figure.subject for figure in timed))
    canvas = Canvas(figsize=(7 * len(delays), 2 + 0.5 * len(scenarios)), layout="constrained")
    FigureCanvasAgg(canvas)
    for column, delay in enumerate(delays, start=1):
        axes = canvas.add_subplot(1, len(delays), column)
        height = 0.85 / len(subjects)
        for place, subject in enumerate(subjects):
            bars = [
                (scenarios.index(figure.scenario) + place * height, figure.timings[delay].p50_ms)
                for figure in timed
                if figure.subject == subject and delay in figure.timings
            ]
            axes.barh(
                [at for at, _ in bars],
                [value for _, value in bars],
                height,
                label=subject,
                color=_COLOURS[place % len(_COLOURS)],
            )
        axes.set_xscale("log")
        axes.set_xlabel(f"median of one operation in ms, {delay} ms away")
        axes.set_yticks([number + 0.4 for number in range(len(scenarios))], scenarios if column == 1 else [])
        axes.invert_yaxis()
        axes.grid(axis="x", alpha=0.3)
    canvas.axes[0].legend(loc="lower right", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path)
