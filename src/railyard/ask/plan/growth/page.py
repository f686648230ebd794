"""The page of `railyard plan growth`: what each path buys when, what it leaves behind, and what a wrong guess costs."""

from __future__ import annotations

import html
from typing import Any

from railyard.ask.plan.drawing import bars, document, usd

ROOM = 2.4
"""Of the longest bar: what is stranded is written behind it."""

WORDS = {
    "rent": "rent: accelerators for three years",
    "incremental": "incremental: what is missing is bought, cables that the next topology does not have are pulled",
    "forklift": "forklift: the network but its NICs anew at every stage",
    "ahead": "ahead: the last stage's network with the first",
    "beside": "beside: each stage's accelerators under a fabric of their own, a job on each",
}


def page(name: str, found: dict[str, Any]) -> str:
    """One page, offline.

    Args:
        name: Of the scenario.
        found: As `to_json` of paths gives it.
    """
    stages = [stage["name"] for stage in found["stages"]]
    parts = [
        f"<h1>{html.escape(name)}: how it grows</h1>",
        "<p>Present values at the cost of capital. A future ends after a stage: the others never come.</p>",
    ]
    for number, stage in enumerate(found["stages"]):
        parts.append(
            f"<h2>Dollars a million tokens where growth ends after {html.escape(stage['name'])}"
            f" (day {stage['at_days']:g}, {stage['accelerators']:,} accelerators)</h2>"
        )
        rows = []
        for path in found["paths"]:
            price, late = path["usd_per_million_by_future"][number], path["regret_by_future"][number]
            words = f"${price:.3g}, {late:+.1%}" if late else f"${price:.3g}, the cheapest"
            rows.append((path["name"], price, price, price, words))
        parts.append(bars(rows))
    parts.append("<h2>Bought at each stage, and what it leaves</h2>")
    rows = []
    for path in found["paths"]:
        for step in path["steps"]:
            left = []
            if step["stranded_usd"]:
                left.append(f"stranded {usd(step['stranded_usd'])} ({usd(step['written_off_usd'])} on the books)")
            if step["stopped_h"]:
                left.append(f"jobs stop {step['stopped_h']:.3g} h")
            capital = step["capital_usd"]
            words = "; ".join([usd(capital), *left])
            rows.append((f"{path['name']}, {step['stage']}", capital, capital, capital, words))
    parts.append(bars(rows, most=ROOM * max((row[3] for row in rows), default=1.0)))
    parts.append(
        "<h2>Too much or too little: regret of each size, dollars a year</h2><p>Bought at once; what is too much stands"
        " idle, what is too little is rented on demand. Largest over the demands, which are what each stage makes.</p>"
    )
    worst = [(row["built"], row["largest_regret_usd"]) for row in found["provisioning"]]
    parts.append(bars([(built, regret, regret, regret, usd(regret)) for built, regret in worst]))
    parts += [f"<p>{html.escape(WORDS[path['name']])}</p>" for path in found["paths"]]
    parts += [f"<p>{html.escape(row['name'])} cannot be: {html.escape(row['reason'])}</p>" for row in found["left_out"]]
    parts.append(f"<p>Largest regret over {html.escape(', '.join(stages))} ranks the paths.</p>")
    return document(f"{name}: growth", parts)
