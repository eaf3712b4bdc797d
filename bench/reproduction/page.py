#!/usr/bin/env python3
"""Writes the tables of docs/reproduction.md and of details.md from the saved results, and checks that they agree with the results.

    bench/reproduction/page.py            # writes the tables between their markers
    bench/reproduction/page.py --check    # exit status 1 if a page is not what this would write
    bench/reproduction/page.py --left     # says which designs claims still wait for

It reads claims.toml and results/*.json.gz, and writes the picture of the front too. details.md explains the rules by which a figure becomes a
verdict; the functions below apply them. In the prose of both pages, `mfa-1: holds` quotes a verdict. The check fails if the verdict has changed.
"""
import argparse
import gzip
import json
import math
import pathlib
import re
import sys

try:
    import tomllib
except ModuleNotFoundError:
    print("page.py needs Python 3.11 or later")
    sys.exit(77)

import front
import run
from noise import fit_noise, quantile, upper_tail, variance

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/reproduction.md"  # what users read, with the table of decided claims
DETAILS = HERE / "details.md"  # every table
PICTURE = HERE.parent.parent / "docs/images/front.svg"
LEVEL = 0.05
# Settings that must be equal for losses of two designs to be paired.
SETTING = ["tokens", "steps", "batch", "sequence", "schedule", "eval_tokens"]


def load(folder=HERE):
    """Returns the claims, and the results of every design by name."""
    with open(folder / "claims.toml", "rb") as file:
        claims = tomllib.load(file)["claim"]
    results = {}
    for path in sorted((folder / "results").glob("*.json.gz")):
        results[path.name.removesuffix(".json.gz")] = json.loads(gzip.decompress(path.read_bytes()))
    return claims, results


# A claim's pairs.

def figures(results, reference, design, key, at):
    """Returns a figure of results.json by seed, of NAME of a design or of DESIGN/NAME, and the setting in which it was measured. With `at` below 1
    the figure is the loss after that share of the training."""
    owner, _, name = reference.rpartition("/")
    owner = owner or design
    kept = results.get(owner)
    if kept is None:
        return {}, None
    found = {}
    for model in kept["models"]:
        if model["name"] != name:
            continue
        found[model["seed"]] = model[key]
        if at < 1:
            total = model["tokens_trained"]
            found[model["seed"]] = min(model["validation_curve"], key=lambda point: abs(point[0] - at * total))[1]
    return found, (kept["text_sha256"], [kept.get("training", {}).get(key) for key in SETTING])


def differences(claim, results):
    """a - b by seed."""
    if "a" not in claim:
        return []
    key, at = claim.get("figure", "validation_loss"), claim.get("at", 1)
    a, of_a = figures(results, claim["a"], claim["design"], key, at)
    b, of_b = figures(results, claim["b"], claim["design"], key, at)
    if a and b and of_a != of_b:
        sys.exit(f"page.py: {claim['id']} pairs {claim['a']} and {claim['b']}, which were not trained alike: {of_a}, {of_b}")
    return [a[seed] - b[seed] for seed in sorted(set(a) & set(b))]


def noise_of(claim, results):
    """Returns the name of the noise model for a claim's pairs. Figures other than losses, compression, and each range of depths have one."""
    if "figure" in claim or "pool" in results[claim["design"]]:
        return claim.get("figure") or results[claim["design"]]["pool"]
    return run.shape_of(run.read_design(claim["design"]))["noise"]


def measure(claims, results):
    """Adds to every claim its differences, their mean and 95 % interval, the p of both sides, and the verdict after Holm's correction."""
    for claim in claims:
        claim["differences"] = differences(claim, results)
        claim["pool"] = noise_of(claim, results) if claim["differences"] else None
    pools = {}
    for pool in {claim["pool"] for claim in claims if claim["pool"]}:
        unique = {(claim["design"], claim["a"], claim["b"], claim.get("at", 1)): claim["differences"] for claim in claims
                  if claim["pool"] == pool and len(claim["differences"]) > 1}
        pools[pool] = fit_noise([(variance(values), len(values) - 1) for values in unique.values()])
    for claim in claims:
        values = claim["differences"]
        if not values:
            continue
        claim["mean"] = sum(values) / len(values)
        if len(values) < 2:
            continue
        df, spread = len(values) - 1, variance(values)
        if pools[claim["pool"]]:
            common, weight = pools[claim["pool"]]
            spread, df = (weight * common + df * spread) / (weight + df), weight + df
        error = math.sqrt(spread / len(values))
        if error == 0:
            continue
        claim["half"] = quantile(LEVEL / 2, df) * error
        claim["error"], claim["df"] = error, df
        # Each kind of claim is a test at a border. `for` and `against` are the one-sided p of the two sides.
        tail = lambda value: upper_tail(value / error, df)
        mean, margin = claim["mean"], claim.get("margin", 0)
        if claim["kind"] == "difference":
            claim["for"], claim["against"] = tail(-mean), tail(mean)
        elif claim["kind"] == "as-good":
            claim["for"], claim["against"] = tail(margin - mean), tail(mean - margin)
        else:
            claim["for"] = max(tail(margin - mean), tail(margin + mean))
            claim["against"] = min(tail(mean - margin), tail(-mean - margin))
    family = [claim for claim in claims if "error" in claim and len(claim["differences"]) >= claim["seeds"]]
    running = 0.0
    for rank, claim in enumerate(sorted(family, key=lambda each: min(each["for"], each["against"]))):
        running = max(running, min(1.0, 2 * min(claim["for"], claim["against"]) * (len(family) - rank)))
        claim["p"] = running
    for claim in claims:
        claim["verdict"] = verdict_of_law(claim, results) if claim.get("kind") == "law" else verdict(claim, len(family))
    return pools, len(family)


def verdict(claim, family):
    if "verdict-counted" in claim:
        return claim["verdict-counted"]
    seeds = len(claim["differences"])
    if seeds == 0:
        return "left out" if "left-out" in claim else "not run"
    if seeds < claim["seeds"]:
        return f"not decided ({seeds} seed{'s' if seeds > 1 else ''} of {claim['seeds']})"
    if "p" not in claim:
        return "not decided: no difference in any seed"
    if claim["p"] <= LEVEL:
        if claim["for"] < claim["against"]:
            if claim["kind"] == "as-good":
                both = upper_tail((claim["margin"] + claim["mean"]) / claim["error"], claim["df"])
                return "holds: equal" if 2 * both * family <= LEVEL else "holds: as good or better"
            return "holds"
        return "does not hold: the opposite" if claim["kind"] == "difference" else "does not hold"
    paper = claim.get("paper-difference")
    if claim["kind"] == "difference" and paper and claim["mean"] - quantile(LEVEL / 2 / family, claim["df"]) * claim["error"] > paper:
        return "not found"
    if 2 * min(claim["for"], claim["against"]) <= LEVEL:
        return "holds alone" if claim["for"] < claim["against"] else "does not hold alone"
    return "not decided"


def verdict_of_law(claim, results):
    """Returns the verdict whether two mechanisms follow one law, by the compute multiplier at the ladder's target. Adds its figure and seeds."""
    kept = results.get(claim["design"], {"models": [], "multipliers": []})
    claim["ladder-seeds"] = len({model["seed"] for model in kept["models"]})
    for each in kept["multipliers"]:
        if each["name"] == claim["name"]:
            value, low, high = (each["flops"][key] for key in ("value", "low", "high"))
            high = math.inf if high is None else high
            claim["figure-counted"] = f"{value:.2f} ({low:.2f} to {high:.2f}) times the compute" if high < 100 else f"{value:.2f} times the compute, no bound"
            if claim["ladder-seeds"] < claim["seeds"]:
                return f"not decided ({claim['ladder-seeds']} seeds of {claim['seeds']})"
            if 1 / claim["within"] <= low and high <= claim["within"]:
                return "holds: the same law"
            return "does not hold" if high < 1 / claim["within"] or low > claim["within"] else "not decided"
    return "not run"


# The page.

def signed(value):
    return f"{value:+.3f}".replace("-", "−")


def figure(claim):
    if "figure-counted" in claim:
        return claim["figure-counted"]
    if not claim["differences"]:
        return ""
    return signed(claim["mean"]) + (f" ± {claim['half']:.3f}" if "half" in claim else "")


def wanted(claim):
    """Returns the paper's figure and the margin that decides."""
    parts = [signed(claim["paper-difference"])] if "paper-difference" in claim else []
    if "margin" in claim:
        parts.append(f"margin {claim['margin']:.3f}")
    if "within" in claim:
        parts.append(f"within a factor of {claim['within']}")
    return ", ".join(parts)


def pair(claim):
    if "design" not in claim:
        return ""
    if claim["kind"] == "law":
        return f"`{claim['name']}` against `mha` of {claim['design']}"
    at = f" at {claim['at']:.0%} of the training" if "at" in claim else ", loss spikes" if "figure" in claim else ""
    return f"`{claim['a']}` − `{claim['b']}` of {claim['design']}{at}"


def outcome(claim):
    """Returns the verdict, with the reason if the claim is left out, or the note if it holds."""
    verdict = claim["verdict"]
    if verdict == "left out":
        return f"{verdict}: {claim['left-out']}"
    return f"{verdict}; {claim['note']}" if "note" in claim and verdict.startswith("holds") else verdict


def table_of_claims(claims, paper):
    lines = ["| | claim | paper | here | seeds | p | verdict |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for claim in claims:
        if claim["paper"] != paper:
            continue
        where = f"{claim['says']} ({claim['table']})" + (f"; {pair(claim)}" if pair(claim) else "")
        p = "" if "p" not in claim else "< 0.001" if claim["p"] < 0.001 else f"{claim['p']:.3f}"
        lines.append(f"| {claim['id']} | {where} | {wanted(claim)} | {figure(claim)} | {len(claim['differences']) or claim.get('ladder-seeds') or ''} | {p} | {outcome(claim)} |")
    return lines


def table_of_decided(claims):
    """Returns the table of claims with a verdict, for the page that users read."""
    lines = ["| | claim | paper | here, nats | verdict |", "| --- | --- | --- | --- | --- |"]
    for claim in claims:
        if claim["verdict"].startswith(("holds", "does not hold")):
            lines.append(f"| {claim['id']} | {claim['says']} | {wanted(claim)} | {figure(claim)} | {outcome(claim)} |")
    return lines


def table_of_design(models, tuned):
    names = list(dict.fromkeys(model["name"] for model in models))
    rates = {model["name"]: model for model in (tuned or {"models": []})["models"]}
    lines = ["| | loss | seeds | parameters | cache per token | FFN | rate |", "| --- | --- | --- | --- | --- | --- | --- |"]
    rows = []
    for name in names:
        runs = [model for model in models if model["name"] == name]
        values = [model["validation_loss"] for model in runs]
        mean = sum(values) / len(values)
        spread = f" ± {math.sqrt(variance(values)):.3f}" if len(values) > 1 else ""
        run = runs[0]
        rate = f"{run['lr']:.4f}" if "lr" in run else ""
        if name in rates and rates[name].get("lr_high"):
            rate += f" ({rates[name]['lr_low']:.4f} to {rates[name]['lr_high']:.4f})"
        cells = [f"{run[key]:,}" if key in run else "" for key in ("parameters", "cache_elements_per_token", "intermediate_size")]
        rows.append((mean, f"| `{name}` | {mean:.3f}{spread} | {len(values)} | {' | '.join(cells)} | {rate} |"))
    return lines + [row for _, row in sorted(rows)]


def tables(claims, results):
    """Returns every table of the pages by the name of its marker."""
    pools, family = measure(claims, results)
    made = {}
    for paper in dict.fromkeys(claim["paper"] for claim in claims):
        made[f"claims {paper}"] = table_of_claims(claims, paper)
    made["decided"] = table_of_decided(claims)
    made["front"] = front.table(results)
    made["losses"] = []
    for name, kept in results.items():
        # Models whose training was continued are measured on another text.
        for part, said in [([model for model in kept["models"] if not model["name"].endswith("-recovered")], name),
                           ([model for model in kept["models"] if model["name"].endswith("-recovered")], f"{name}, trained on")]:
            if part and not name.startswith("tune-"):
                made["losses"] += ["", f"### {said}", "", *table_of_design(part, results.get(f"tune-{name}"))]
    lines = ["| source of noise | deviation of a difference of two runs | its weight in degrees of freedom | ± of five seeds | seeds for ± 0.01 | five seeds decide from |",
             "| --- | --- | --- | --- | --- | --- |"]
    for pool, fitted in sorted(pools.items()):
        if fitted:
            common, weight = fitted
            half = lambda seeds: quantile(LEVEL / 2, weight + seeds - 1) * math.sqrt(common / seeds)
            enough = next(seeds for seeds in range(2, 10000) if half(seeds) <= 0.01)
            decided = quantile(LEVEL / 2 / family, weight + 4) * math.sqrt(common / 5)
            lines.append(f"| {pool} | {math.sqrt(common):.4f} | {weight:.1f} | {half(5):.3f} | {enough} | {decided:.3f} |")
    made["noise"] = lines + ["", f"{family} claims have as many seeds as they need, and are corrected for together."]
    counts = {}
    for claim in claims:
        kind = re.sub(r" \(.*", "", claim["verdict"]).split(":")[0]
        counts[kind] = counts.get(kind, 0) + 1
    alone = [claim["id"] for claim in claims if claim["verdict"].endswith(" alone")]
    both = len(alone) + counts.get("not decided", 0)
    made["counts"] = [f"{len(claims)} claims: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items(), key=lambda each: -each[1])) + ".", "",
                      f"{len(alone)} of the {both} that Holm's correction leaves undecided are decided alone: their own statement has 95 % confidence, as each "
                      f"statement of `crosshead compare` has ({', '.join(alone)})."]
    return made


def write(page, names, made, claims):
    """Returns the page with the tables of these names, and sentences that say what is wrong with the rest of it."""
    wrong = []
    for name in names:
        lines = made[name]
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if begin not in page or end not in page:
            wrong.append(f"the page has no markers {begin} and {end}")
            continue
        head, rest = page.split(begin, 1)
        page = f"{head}{begin}\n" + "\n".join(lines) + f"\n{end}{rest.split(end, 1)[1]}"
    known = {claim["id"]: claim["verdict"] for claim in claims}
    for id, quoted in re.findall(r"`([a-z]+-\d+):\s([a-z\s]+)`", page):
        quoted = " ".join(quoted.split())
        if not known.get(id, "").startswith(quoted):
            wrong.append(f"the text says `{id}: {quoted}`; the verdict is `{known.get(id, 'that of no claim')}`")
    return page, wrong


def left(claims, results):
    """Returns a line for every design that claims wait for."""
    waiting = {}
    for claim in claims:
        if claim.get("kind") == "law" and claim["ladder-seeds"] < claim["seeds"]:
            waiting.setdefault(claim["design"], {})[claim["id"]] = (claim["ladder-seeds"], claim["seeds"])
        for side in "ab" if "a" in claim else "":
            design = claim[side].rpartition("/")[0] or claim["design"]
            seeds = len(figures(results, claim[side], claim["design"], "validation_loss", 1)[0])
            if seeds < claim["seeds"]:
                waiting.setdefault(design, {})[claim["id"]] = (seeds, claim["seeds"])
    return [f"{design}: {min(has for has, _ in those.values())} seeds of {max(wants for _, wants in those.values())}, for {', '.join(those)}"
            for design, those in waiting.items()]


def main():
    parser = argparse.ArgumentParser(description="Writes the tables of docs/reproduction.md and details.md from the kept results.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a page is not what the results give")
    parser.add_argument("--left", action="store_true", help="write nothing; say which designs claims still wait for")
    options = parser.parse_args()
    claims, results = load()
    made = tables(claims, results)
    if options.left:
        print("\n".join(left(claims, results)))
        return
    wrong = []
    for path, names in ((PAGE, ["decided", "counts"]), (DETAILS, [name for name in made if name != "decided"])):
        before = path.read_text()
        page, faults = write(before, names, made, claims)
        if not options.check:
            path.write_text(page)
        elif page != before:
            faults.append("the tables are not those of the results; run bench/reproduction/page.py")
        wrong += [f"{path.relative_to(HERE.parent.parent)}: {fault}" for fault in faults]
    drawing = front.picture(results)
    if not options.check:
        PICTURE.write_text(drawing)
    elif not PICTURE.exists() or PICTURE.read_text() != drawing:
        wrong.append("the picture of the front is not that of the results; run bench/reproduction/page.py")
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
